"""Puts a file into a new bucket of an S3 store. Arguments: the endpoint, the bucket, the key, the file."""

import sys

import boto3

endpoint, bucket, key, file = sys.argv[1:]
client = boto3.client(
    "s3",
    endpoint_url=endpoint,
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
)
client.create_bucket(Bucket=bucket)
client.upload_file(file, bucket, key)

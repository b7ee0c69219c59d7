cd /workspace; find . -type f | sort | xargs sha256sum; md5sum many/*; head -c 1000 /dev/urandom | sha256sum; head -c 20 /dev/random | base64

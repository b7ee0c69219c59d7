//! S3 and compatible stores: where an object is, and the signature with which it can be fetched.
//!
//! The signing is that of `object_store`; the request itself goes through the operator's rules like
//! any other.

use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::signer::Signer as _;
use object_store::{ClientOptions, Error};

use crate::error::SourceError;
use crate::network;

/// How long a signature is valid: the request follows at once.
const VALID: Duration = Duration::from_secs(300);

/// The variables of the environment that configure a store, as AWS's own tools name them.
pub const VARIABLES: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_SKIP_SIGNATURE",
];

/// Returns the URL of an object, with its signature. `variables`: some of [`VARIABLES`].
///
/// # Errors
/// The endpoint is not encrypted, or a credential is missing.
pub fn signed_url(
    variables: &[(String, String)],
    bucket: &str,
    key: &str,
) -> Result<String, SourceError> {
    let place = format!("s3://{bucket}/{key}");
    let configure = |why: String| {
        SourceError::Network {
        url: place.clone(),
        why,
        fix: Some(
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; for another store than AWS, AWS_ENDPOINT_URL"
                .to_owned(),
        ),
    }
    };
    let value = |name: &str| {
        let found = variables.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    };
    let mut builder = AmazonS3Builder::new().with_bucket_name(bucket).with_http_connector(Never);
    for (name, key) in [
        ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
        ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
        ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ] {
        if let Some(value) = value(name) {
            builder = builder.with_config(key, value);
        }
    }
    let region = value("AWS_REGION").or_else(|| value("AWS_DEFAULT_REGION")).unwrap_or("us-east-1");
    builder = builder.with_region(region);
    let is_anonymous = value("AWS_SKIP_SIGNATURE").is_some_and(|value| value != "false");
    if !is_anonymous
        && (value("AWS_ACCESS_KEY_ID").is_none() || value("AWS_SECRET_ACCESS_KEY").is_none())
    {
        return Err(configure("there are no credentials for S3".to_owned()));
    }
    if let Some(endpoint) = endpoint(variables) {
        let host = network::origin(endpoint).split_once("://").map_or("", |(_, host)| host);
        let is_plain = endpoint.starts_with("http://") && crate::source::is_loopback(host);
        if !is_plain && !endpoint.starts_with("https://") {
            let why = format!("the endpoint {endpoint} is not encrypted");
            return Err(configure(why));
        }
        builder = builder.with_endpoint(endpoint.trim_end_matches('/')).with_allow_http(is_plain);
    }
    if is_anonymous {
        let base = match endpoint(variables) {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        return Ok(format!("{base}/{}", Path::from(key)));
    }
    let store = builder.build().map_err(|error| configure(error.to_string()))?;
    let path = Path::parse(key).map_err(|error| configure(error.to_string()))?;
    // With credentials at hand, nothing has to be waited for.
    let signed = store.signed_url(Method::GET, &path, VALID).now_or_never();
    match signed {
        Some(Ok(url)) => Ok(url.into()),
        Some(Err(error)) => Err(configure(error.to_string())),
        None => Err(configure("the credentials are not at hand".to_owned())),
    }
}

/// Returns the endpoint that the variables name, if it is not that of AWS.
pub fn endpoint(variables: &[(String, String)]) -> Option<&str> {
    let value = |name: &str| {
        let found = variables.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    };
    value("AWS_ENDPOINT_URL_S3").or_else(|| value("AWS_ENDPOINT_URL"))
}

/// Never connects: only signatures are made here.
#[derive(Debug)]
struct Never;

impl HttpConnector for Never {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(NeverService))
    }
}

#[derive(Debug)]
struct NeverService;

#[async_trait::async_trait]
impl object_store::client::HttpService for NeverService {
    async fn call(
        &self,
        _: object_store::client::HttpRequest,
    ) -> Result<object_store::client::HttpResponse, object_store::client::HttpError> {
        let error =
            Error::NotImplemented { operation: "a request".into(), implementer: "Never".into() };
        Err(object_store::client::HttpError::new(
            object_store::client::HttpErrorKind::Request,
            error,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(variables: &[(&str, &str)]) -> Result<String, SourceError> {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        signed_url(&variables, "bucket", "a/b c.tar.gz")
    }

    const KEYS: [(&str, &str); 2] =
        [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hidden")];

    #[test]
    fn objects_have_signed_urls() {
        let region = ("AWS_REGION", "eu-west-1");
        let url = signed(&[KEYS[0], KEYS[1], region]).unwrap();
        let (place, query) = url.split_once('?').unwrap();
        assert!(place.ends_with("/a/b%20c.tar.gz") && place.contains("eu-west-1"), "{place}");
        assert!(query.contains("X-Amz-Signature=") && query.contains("AKIDEXAMPLE%2F"), "{query}");
        assert!(!url.contains("hidden"));
        let local = ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000/");
        let url = signed(&[KEYS[0], KEYS[1], local]).unwrap();
        assert!(url.starts_with("http://127.0.0.1:5000/bucket/a/b%20c.tar.gz?"), "{url}");
        let anonymous = ("AWS_SKIP_SIGNATURE", "true");
        let url = signed(&[anonymous, local]).unwrap();
        assert!(!url.contains('?'), "{url}");
    }

    #[test]
    fn missing_credentials_and_unencrypted_endpoints_are_refused() {
        for variables in [
            &[][..],
            &KEYS[..1],
            &[KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "http://store.example")],
            &[KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "ftp://127.0.0.1")],
        ] {
            let error = signed(variables).expect_err("refused");
            assert!(error.fix().is_some_and(|fix| fix.contains("AWS_ENDPOINT_URL")), "{error}");
        }
    }
}

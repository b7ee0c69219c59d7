//! Builds the body of a request from `-d`, `-F`, `-T` and similar options.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bashkit::CommandContext;

use super::failure::{Failure, reason};
use super::options::{Options, Part};
use crate::hooks;

/// The body of a request and its content type.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) content_type: Option<String>,
    pub(super) accept: Option<&'static str>,
    /// `-G`: the query for the URL.
    pub(super) query: Option<String>,
    /// `-T`: upload with PUT.
    pub(super) upload: bool,
}

/// Builds the body.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(super) async fn gather(
    context: &CommandContext<'_>,
    options: &Options,
) -> Result<Body, Failure> {
    if let Some(file) = &options.upload {
        let bytes = if file == "-" || file == "." {
            standard_input(context).await?
        } else {
            read(context, file).await?
        };
        return Ok(Body { bytes: Some(bytes), upload: true, ..Body::default() });
    }
    if options.parts.iter().any(|part| matches!(part, Part::Form(_) | Part::FormText(_))) {
        return form(context, options).await;
    }
    if options.parts.is_empty() {
        return Ok(Body::default());
    }
    let (mut bytes, mut json) = (Vec::new(), false);
    for (index, part) in options.parts.iter().enumerate() {
        if index > 0 && !matches!(part, Part::Json(_)) {
            bytes.push(b'&');
        }
        match part {
            Part::Data(text) => match text.strip_prefix('@') {
                Some(file) => bytes.extend(
                    source(context, file)
                        .await?
                        .into_iter()
                        .filter(|b| !matches!(b, b'\r' | b'\n' | 0)),
                ),
                None => bytes.extend(text.as_bytes()),
            },
            Part::Raw(text) => bytes.extend(text.as_bytes()),
            Part::Binary(text) => match text.strip_prefix('@') {
                Some(file) => bytes.extend(source(context, file).await?),
                None => bytes.extend(text.as_bytes()),
            },
            Part::Json(text) => {
                json = true;
                match text.strip_prefix('@') {
                    Some(file) => bytes.extend(source(context, file).await?),
                    None => bytes.extend(text.as_bytes()),
                }
            }
            Part::Encode(text) => bytes.extend(urlencode(context, text).await?.as_bytes()),
            Part::Form(_) | Part::FormText(_) => {}
        }
    }
    if options.as_query {
        return Ok(Body {
            query: Some(String::from_utf8_lossy(&bytes).into_owned()),
            ..Body::default()
        });
    }
    let content_type = if json { "application/json" } else { "application/x-www-form-urlencoded" };
    let accept = json.then_some("application/json");
    Ok(Body {
        bytes: Some(bytes),
        content_type: Some(content_type.into()),
        accept,
        ..Body::default()
    })
}

/// Encodes `content`, `=content`, `name=content`, `@file` or `name@file`.
async fn urlencode(context: &CommandContext<'_>, text: &str) -> Result<String, Failure> {
    let at = text.find(['=', '@']);
    let (name, value) = match at {
        Some(at) if text.as_bytes()[at] == b'=' => {
            (&text[..at], text.as_bytes()[at + 1..].to_vec())
        }
        Some(at) => (&text[..at], source(context, &text[at + 1..]).await?),
        None => ("", text.as_bytes().to_vec()),
    };
    // Forms encode spaces as `+`.
    let value = percent(&value).replace("%20", "+");
    Ok(if name.is_empty() { value } else { format!("{name}={value}") })
}

fn percent(bytes: &[u8]) -> String {
    let keep =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    bytes
        .iter()
        .map(|byte| if keep(byte) { (*byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

async fn form(context: &CommandContext<'_>, options: &Options) -> Result<Body, Failure> {
    let mut chance = [0; 18];
    hooks::random(&mut chance);
    let boundary = format!("------------------------{}", BASE64_URL_SAFE_NO_PAD.encode(chance));
    let mut bytes = Vec::new();
    for part in &options.parts {
        let (text, plain) = match part {
            Part::Form(text) => (text, false),
            Part::FormText(text) => (text, true),
            _ => {
                return Err(Failure::new(
                    2,
                    "You can only select one HTTP request method: -d and -F do not go together",
                ));
            }
        };
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::new(2, format!("Illegally formatted input field: {text}")))?;
        bytes.extend(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        let from_file = value.strip_prefix(['@', '<']).filter(|_| !plain);
        match from_file {
            None => {
                let (value, kind) = if plain { (value, None) } else { attribute(value, "type") };
                if let Some(kind) = kind {
                    bytes.extend(format!("\r\nContent-Type: {kind}").as_bytes());
                }
                bytes.extend(format!("\r\n\r\n{value}").as_bytes());
            }
            Some(file) => {
                let (file, kind) = attribute(file, "type");
                let (file, shown) = attribute(file, "filename");
                let content = source(context, file).await?;
                if value.starts_with('@') {
                    let shown = shown.unwrap_or_else(|| file.rsplit('/').next().unwrap_or(file));
                    let kind = kind.unwrap_or_else(|| kind_of(shown));
                    bytes.extend(
                        format!("; filename=\"{shown}\"\r\nContent-Type: {kind}").as_bytes(),
                    );
                }
                bytes.extend(b"\r\n\r\n");
                bytes.extend(content);
            }
        }
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("--{boundary}--\r\n").as_bytes());
    Ok(Body {
        bytes: Some(bytes),
        content_type: Some(format!("multipart/form-data; boundary={boundary}")),
        ..Body::default()
    })
}

/// Splits `value;name=attribute` into value and attribute.
fn attribute<'a>(text: &'a str, name: &str) -> (&'a str, Option<&'a str>) {
    match text.split_once(&format!(";{name}=")) {
        Some((value, attribute)) => (value, Some(attribute.trim_matches('"'))),
        None => (text, None),
    }
}

/// Returns the content type that curl assigns to an extension.
fn kind_of(file: &str) -> &'static str {
    match file.rsplit('.').next().unwrap_or_default() {
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "htm" | "html" => "text/html",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        _ => "application/octet-stream",
    }
}

async fn source(context: &CommandContext<'_>, file: &str) -> Result<Vec<u8>, Failure> {
    if file == "-" { standard_input(context).await } else { read(context, file).await }
}

async fn standard_input(context: &CommandContext<'_>) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    loop {
        match context.stdin.read_chunk().await {
            Ok(Some(bytes)) => all.extend(bytes),
            Ok(None) => return Ok(all),
            Err(error) => {
                return Err(Failure::new(
                    26,
                    format!("Failed to read standard input: {}", reason(&error)),
                ));
            }
        }
    }
}

async fn read(context: &CommandContext<'_>, file: &str) -> Result<Vec<u8>, Failure> {
    let read = context.fs.read_file(&context.cwd.join(file)).await;
    read.map_err(|error| {
        Failure::new(
            26,
            format!("Failed to open/read local data from file {file}: {}", reason(&error)),
        )
    })
}

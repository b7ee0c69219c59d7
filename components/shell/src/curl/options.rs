//! Parses curl's command line.

use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use lexopt::Parser;

use super::VERSION;
use super::failure::Failure;
use crate::commands::options::parser;

/// The destination of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    File(String),
    /// `-O`.
    RemoteName,
}

/// One part of the body of a request.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// `-d`: line ends are removed from files.
    Data(String),
    /// `--data-raw`.
    Raw(String),
    /// `--data-binary`.
    Binary(String),
    /// `--data-urlencode`.
    Encode(String),
    /// `--json`.
    Json(String),
    /// `-F`.
    Form(String),
    /// `--form-string`.
    FormText(String),
}

/// A parsed command line.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) urls: Vec<String>,
    pub(super) outputs: Vec<Output>,
    pub(super) method: Option<String>,
    pub(super) headers: Vec<String>,
    pub(super) parts: Vec<Part>,
    pub(super) upload: Option<String>,
    pub(super) as_query: bool,
    pub(super) head: bool,
    pub(super) include: bool,
    pub(super) silent: bool,
    pub(super) show_error: bool,
    pub(super) verbose: bool,
    pub(super) fail: bool,
    pub(super) fail_with_body: bool,
    pub(super) follow: bool,
    pub(super) keep_method: bool,
    pub(super) trust_location: bool,
    pub(super) max_redirects: u32,
    pub(super) user: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) cookies: Vec<String>,
    pub(super) write_out: Option<String>,
    pub(super) dump_header: Option<String>,
    pub(super) max_time: Option<Duration>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) retry_delay: Option<Duration>,
    pub(super) retry_all: bool,
    pub(super) retry_refused: bool,
    pub(super) create_dirs: bool,
    pub(super) output_dir: Option<String>,
    /// The text of `--version` or `--help`, which is all that is printed then.
    pub(super) text: Option<String>,
}

/// Options that take a value, by letter and long name.
const WITH_VALUE: &[(char, &str)] = &[
    ('A', "user-agent"),
    ('b', "cookie"),
    ('c', "cookie-jar"),
    ('C', "continue-at"),
    ('d', "data"),
    ('D', "dump-header"),
    ('e', "referer"),
    ('F', "form"),
    ('H', "header"),
    ('m', "max-time"),
    ('o', "output"),
    ('r', "range"),
    ('T', "upload-file"),
    ('u', "user"),
    ('w', "write-out"),
    ('x', "proxy"),
    ('X', "request"),
    ('E', "cert"),
    ('K', "config"),
    ('Y', "speed-limit"),
    ('y', "speed-time"),
    ('\0', "data-raw"),
    ('\0', "data-ascii"),
    ('\0', "data-binary"),
    ('\0', "data-urlencode"),
    ('\0', "json"),
    ('\0', "form-string"),
    ('\0', "url"),
    ('\0', "max-redirs"),
    ('\0', "connect-timeout"),
    ('\0', "retry"),
    ('\0', "retry-delay"),
    ('\0', "retry-max-time"),
    ('\0', "output-dir"),
    ('\0', "oauth2-bearer"),
    ('\0', "cacert"),
    ('\0', "key"),
    ('\0', "resolve"),
    ('\0', "interface"),
    ('\0', "limit-rate"),
    ('\0', "noproxy"),
    ('\0', "unix-socket"),
    ('\0', "max-filesize"),
    ('\0', "keepalive-time"),
    ('\0', "proto"),
    ('\0', "proto-redir"),
    ('\0', "tls-max"),
    ('\0', "ciphers"),
];

/// Options without a value.
const FLAGS: &[(char, &str)] = &[
    ('s', "silent"),
    ('S', "show-error"),
    ('f', "fail"),
    ('L', "location"),
    ('I', "head"),
    ('i', "include"),
    ('O', "remote-name"),
    ('J', "remote-header-name"),
    ('k', "insecure"),
    ('G', "get"),
    ('v', "verbose"),
    ('V', "version"),
    ('h', "help"),
    ('N', "no-buffer"),
    ('#', "progress-bar"),
    ('4', "ipv4"),
    ('6', "ipv6"),
    ('g', "globoff"),
    ('q', "disable"),
    ('R', "remote-time"),
    ('0', "http1.0"),
    ('1', "tlsv1"),
    ('n', "netrc"),
    ('\0', "fail-with-body"),
    ('\0', "location-trusted"),
    ('\0', "compressed"),
    ('\0', "create-dirs"),
    ('\0', "retry-all-errors"),
    ('\0', "retry-connrefused"),
    ('\0', "no-progress-meter"),
    ('\0', "post301"),
    ('\0', "post302"),
    ('\0', "post303"),
    ('\0', "basic"),
    ('\0', "http1.1"),
    ('\0', "http2"),
    ('\0', "tlsv1.2"),
    ('\0', "tlsv1.3"),
    ('\0', "no-keepalive"),
    ('\0', "path-as-is"),
    ('\0', "ssl-reqd"),
    ('\0', "tcp-nodelay"),
    ('\0', "no-sessionid"),
    ('\0', "raw"),
    ('\0', "fail-early"),
    ('\0', "styled-output"),
    ('\0', "remote-name-all"),
];

/// Parses the arguments.
///
/// # Errors
/// Returns curl's message for an invalid command line.
pub(super) fn parse(args: &[String]) -> Result<Options, Failure> {
    let mut options = Options { max_redirects: 50, ..Options::default() };
    let mut parser = parser(args);
    while let Some(arg) = parser.next().map_err(|error| Failure::new(2, error.to_string()))? {
        match arg {
            Short(letter) => {
                let shown = format!("-{letter}");
                match WITH_VALUE.iter().find(|(known, _)| *known == letter) {
                    Some((_, long)) => take(&mut options, long, value(&mut parser, &shown)?)?,
                    None => {
                        let known = FLAGS.iter().find(|(known, _)| *known == letter);
                        flag(&mut options, known.map_or("", |(_, long)| *long), &shown)?;
                    }
                }
            }
            Long(long) => {
                let long = long.to_owned();
                let mut shown = format!("--{long}");
                if WITH_VALUE.iter().any(|(_, known)| *known == long) {
                    take(&mut options, &long, value(&mut parser, &shown)?)?;
                    continue;
                }
                let is_flag = |name: &str| FLAGS.iter().any(|(_, known)| *known == name);
                match parser.optional_value() {
                    Some(value) => {
                        shown += &format!("={}", value.to_string_lossy());
                        flag(&mut options, "", &shown)?;
                    }
                    // What a `--no-` option turns off is off, or has no effect here.
                    None if long.strip_prefix("no-").is_some_and(is_flag) && !is_flag(&long) => {}
                    None => flag(&mut options, &long, &shown)?,
                }
            }
            Value(url) => options.urls.push(url.to_string_lossy().into_owned()),
        }
    }
    Ok(options)
}

fn value(parser: &mut Parser, option: &str) -> Result<String, Failure> {
    let value = parser.value();
    value
        .map(|value| value.to_string_lossy().into_owned())
        .map_err(|_| Failure::new(2, format!("option {option}: requires parameter")))
}

fn flag(options: &mut Options, long: &str, shown: &str) -> Result<(), Failure> {
    match long {
        "silent" => options.silent = true,
        "show-error" => options.show_error = true,
        "fail" => options.fail = true,
        "fail-with-body" => options.fail_with_body = true,
        "location" => options.follow = true,
        "location-trusted" => (options.follow, options.trust_location) = (true, true),
        "head" => options.head = true,
        "include" => options.include = true,
        "remote-name" => options.outputs.push(Output::RemoteName),
        "get" => options.as_query = true,
        "verbose" => options.verbose = true,
        "create-dirs" => options.create_dirs = true,
        "retry-all-errors" => options.retry_all = true,
        "retry-connrefused" => options.retry_refused = true,
        "post301" | "post302" | "post303" => options.keep_method = true,
        "version" => {
            options.text = Some(format!(
                "curl {VERSION} (wasm32-skillhost) skillhost\nProtocols: http https\nFeatures: HTTP2 HTTPS\n"
            ));
        }
        "help" => options.text = Some("Usage: curl [options...] <url>\n".into()),
        "insecure" => {
            return Err(Failure::new(
                4,
                format!(
                    "{shown}: certificates are always verified here; the operator's policy names other roots"
                ),
            ));
        }
        "netrc" => return Err(Failure::new(4, format!("{shown}: there is no netrc here"))),
        // Display, storage and protocol options, for which the sandbox's sender has a single
        // behaviour.
        name if FLAGS.iter().any(|(_, known)| *known == name) => {}
        _ => return Err(Failure::new(2, format!("option {shown}: is unknown"))),
    }
    Ok(())
}

fn take(options: &mut Options, long: &str, value: String) -> Result<(), Failure> {
    match long {
        "user-agent" => options.agent = Some(value),
        "cookie" => options.cookies.push(value),
        "data" | "data-ascii" => options.parts.push(Part::Data(value)),
        "data-raw" => options.parts.push(Part::Raw(value)),
        "data-binary" => options.parts.push(Part::Binary(value)),
        "data-urlencode" => options.parts.push(Part::Encode(value)),
        "json" => options.parts.push(Part::Json(value)),
        "form" => options.parts.push(Part::Form(value)),
        "form-string" => options.parts.push(Part::FormText(value)),
        "dump-header" => options.dump_header = Some(value),
        "referer" => options.headers.push(format!("Referer: {value}")),
        "header" => options.headers.push(value),
        "range" => options.headers.push(format!("Range: bytes={value}")),
        "oauth2-bearer" => options.headers.push(format!("Authorization: Bearer {value}")),
        "max-time" => options.max_time = Some(seconds(long, &value)?),
        "connect-timeout" => options.connect_timeout = Some(seconds(long, &value)?),
        "output" => {
            options.outputs.push(if value == "-" { Output::Stdout } else { Output::File(value) })
        }
        "output-dir" => options.output_dir = Some(value),
        "upload-file" => options.upload = Some(value),
        "user" => options.user = Some(value),
        "write-out" => options.write_out = Some(value),
        "request" => options.method = Some(value),
        "url" => options.urls.push(value),
        "max-redirs" => {
            options.max_redirects = if value == "-1" { u32::MAX } else { number(long, &value)? }
        }
        "retry" => options.retries = number(long, &value)?,
        "retry-delay" => {
            options.retry_delay = Some(seconds(long, &value)?).filter(|delay| !delay.is_zero())
        }
        "proxy" if !value.is_empty() => {
            return Err(Failure::new(5, "proxies are not used in the sandbox"));
        }
        "unix-socket" | "interface" | "resolve" | "cert" | "key" | "cacert" | "config" => {
            return Err(Failure::new(4, format!("option --{long}: not available in the sandbox")));
        }
        "cookie-jar" | "continue-at" => {
            return Err(Failure::new(4, format!("option --{long}: not supported here")));
        }
        // Limits and tuning: the sandbox has its own.
        _ => {}
    }
    Ok(())
}

fn number(long: &str, value: &str) -> Result<u32, Failure> {
    value.parse().map_err(|_| {
        Failure::new(2, format!("option --{long}: expected a proper numerical parameter"))
    })
}

fn seconds(long: &str, value: &str) -> Result<Duration, Failure> {
    let seconds: f64 = value.parse().map_err(|_| {
        Failure::new(2, format!("option --{long}: expected a proper numerical parameter"))
    })?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Failure::new(2, format!("option --{long}: expected a positive numerical parameter"))
    })
}

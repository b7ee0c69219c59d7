//! `-w`: information about a finished transfer.

use super::exchange::{Exchange, HttpResponse};
use super::failure::Failure;
use super::options::{Options, Output};

/// The values that `-w` can print.
pub(super) struct Report {
    pub(super) status: u16,
    pub(super) redirects: u32,
    pub(super) downloaded: u64,
    pub(super) redirect: Option<String>,
    url: String,
    method: String,
    scheme: String,
    content_type: String,
    file: String,
    head_size: usize,
    started: bashkit::time::Instant,
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        let file = match options.outputs.first() {
            Some(Output::File(name)) => name.clone(),
            _ => String::new(),
        };
        Report {
            status: 0,
            redirects: 0,
            downloaded: 0,
            redirect: None,
            url: options.urls.first().cloned().unwrap_or_default(),
            method: String::new(),
            scheme: String::new(),
            content_type: String::new(),
            file,
            head_size: 0,
            started: bashkit::time::Instant::now(),
        }
    }

    pub(super) fn take(&mut self, exchange: &Exchange<'_>, sent: &HttpResponse) {
        self.status = sent.status;
        self.url = exchange.url.to_string();
        self.method = exchange.method.clone();
        self.scheme = exchange.url.scheme().to_owned();
        self.content_type = sent.header("content-type").unwrap_or_default();
        self.head_size += sent.head.len();
        self.downloaded = 0;
    }

    /// Returns the text for stdout and the text for stderr.
    pub(super) fn render(&self, format: &str, failure: Option<&Failure>) -> (Vec<u8>, Vec<u8>) {
        let mut out = [String::new(), String::new()];
        let mut to = 0;
        let mut rest = format;
        while let Some(at) = rest.find(['%', '\\']) {
            out[to] += &rest[..at];
            let special = &rest[at..];
            if let Some(escaped) = special.strip_prefix('\\') {
                let mut letters = escaped.chars();
                match letters.next() {
                    Some('n') => out[to].push('\n'),
                    Some('r') => out[to].push('\r'),
                    Some('t') => out[to].push('\t'),
                    Some(other) => out[to].extend(['\\', other]),
                    None => out[to].push('\\'),
                }
                rest = letters.as_str();
            } else if let Some(percent) = special.strip_prefix("%%") {
                out[to].push('%');
                rest = percent;
            } else if let Some((name, after)) =
                special.strip_prefix("%{").and_then(|inner| inner.split_once('}'))
            {
                match name {
                    "stdout" => to = 0,
                    "stderr" => to = 1,
                    name => out[to] += &self.value(name, failure),
                }
                rest = after;
            } else {
                out[to].push('%');
                rest = &special[1..];
            }
        }
        out[to] += rest;
        let [stdout, stderr] = out;
        (stdout.into_bytes(), stderr.into_bytes())
    }

    fn value(&self, name: &str, failure: Option<&Failure>) -> String {
        match name {
            "http_code" | "response_code" => format!("{:03}", self.status),
            "size_download" => self.downloaded.to_string(),
            "size_header" => self.head_size.to_string(),
            "num_redirects" => self.redirects.to_string(),
            "num_connects" => "1".into(),
            "redirect_url" => self.redirect.clone().unwrap_or_default(),
            "url_effective" | "url" => self.url.clone(),
            "content_type" => self.content_type.clone(),
            "method" => self.method.clone(),
            "scheme" => self.scheme.clone(),
            "filename_effective" => self.file.clone(),
            "http_version" => "1.1".into(),
            "exitcode" => failure.map_or(0, |failure| failure.code).to_string(),
            "errormsg" => failure.map_or_else(String::new, |failure| failure.message.clone()),
            name if name.starts_with("time_") => {
                format!("{:.6}", self.started.elapsed().as_secs_f64())
            }
            _ => "0".into(),
        }
    }
}

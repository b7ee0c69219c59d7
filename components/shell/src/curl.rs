//! `curl`. Requests go through the host's HTTP sender, as those of all programs of the sandbox do,
//! and need a permission of the policy.

mod body;
mod exchange;
mod failure;
mod options;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use send_wrapper::SendWrapper;
use url::Url;

use self::body::Body;
use self::exchange::{Exchange, HttpResponse};
use self::failure::Failure;
use self::options::{Options, Output};
use self::report::Report;
use crate::hooks;

/// The version reported by `--version` and sent in `User-Agent`.
const VERSION: &str = "8.5.0";

/// The delay before the first retry. Each further delay is twice the previous one, up to ten
/// minutes.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(600);

/// The command `curl`.
pub(crate) struct Curl;

#[async_trait]
impl Command for Curl {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        SendWrapper::new(run(context)).await
    }
}

async fn run(context: CommandContext<'_>) -> Result<CommandStatus> {
    let options = match options::parse(context.args) {
        Ok(options) => options,
        Err(failure) => return print_failure(&context, &Options::default(), &failure).await,
    };
    if let Some(text) = options.text {
        context.stdout.write_all(text.as_bytes()).await?;
        return Ok(CommandStatus::success());
    }
    if options.urls.is_empty() {
        return print_failure(&context, &options, &Failure::new(2, "no URL specified")).await;
    }
    let body = match body::gather(&context, &options).await {
        Ok(body) => body,
        Err(failure) => return print_failure(&context, &options, &failure).await,
    };
    let mut code = 0;
    for (index, url) in options.urls.iter().enumerate() {
        let mut report = Report::new(&options);
        let result =
            transfer(&context, &options, &body, url, options.outputs.get(index), &mut report)
                .await?;
        let failure = result.err();
        if let Some(format) = &options.write_out {
            let (out, err) = report.render(format, failure.as_ref());
            context.stdout.write_all(&out).await?;
            context.stderr.write_all(&err).await?;
        }
        if let Some(failure) = failure {
            code = print_failure(&context, &options, &failure).await?.exit_code;
        }
    }
    Ok(CommandStatus::with_code(code))
}

async fn print_failure(
    context: &CommandContext<'_>,
    options: &Options,
    failure: &Failure,
) -> Result<CommandStatus> {
    if !options.silent || options.show_error {
        let mut message = format!("curl: ({}) {}\n", failure.code, failure.message);
        if failure.code == 2 {
            message = format!(
                "curl: {}\ncurl: try 'curl --help' or 'curl --manual' for more information\n",
                failure.message
            );
        }
        context.stderr.write_all(message.as_bytes()).await?;
    }
    Ok(CommandStatus::with_code(failure.code))
}

/// Transfers one URL, with redirects and retries.
async fn transfer(
    context: &CommandContext<'_>,
    options: &Options,
    body: &Body,
    url: &str,
    output: Option<&Output>,
    report: &mut Report,
) -> Result<std::result::Result<(), Failure>> {
    let mut wait = options.retry_delay.unwrap_or(RETRY_FIRST);
    let mut left = options.retries;
    loop {
        let attempt = attempt(context, options, body, url, output, report);
        let result = match options.max_time {
            Some(limit) => match bashkit::time::timeout(limit, Box::pin(attempt)).await {
                Ok(result) => result?,
                Err(_) => Err(Failure::new(
                    28,
                    format!("Operation timed out after {} milliseconds", limit.as_millis()),
                )),
            },
            None => Box::pin(attempt).await?,
        };
        let transient = match &result {
            Ok(()) => matches!(report.status, 408 | 429 | 500 | 502 | 503 | 504),
            Err(failure) => {
                options.retry_all
                    || matches!(failure.code, 6 | 28)
                    || (failure.code == 7 && options.retry_refused)
                    || (failure.code == 22
                        && matches!(report.status, 408 | 429 | 500 | 502 | 503 | 504))
            }
        };
        if left == 0 || !transient {
            return Ok(result);
        }
        left -= 1;
        hooks::sleep(wait).await;
        if options.retry_delay.is_none() {
            wait = (wait * 2).min(RETRY_LONGEST);
        }
    }
}

async fn attempt(
    context: &CommandContext<'_>,
    options: &Options,
    body: &Body,
    url: &str,
    output: Option<&Output>,
    report: &mut Report,
) -> Result<std::result::Result<(), Failure>> {
    let mut exchange = match Exchange::new(options, body, url) {
        Ok(exchange) => exchange,
        Err(failure) => return Ok(Err(failure)),
    };
    loop {
        if options.verbose {
            context.stderr.write_all(exchange.head().as_bytes()).await?;
        }
        let mut sent = match exchange.send(options).await {
            Ok(sent) => sent,
            Err(failure) => return Ok(Err(failure)),
        };
        report.take(&exchange, &sent);
        if options.verbose {
            context.stderr.write_all(prefixed(&sent.head, "< ").as_bytes()).await?;
        }
        let next = sent.location(&exchange.url);
        report.redirect = next.as_ref().map(Url::to_string);
        let follow = next.filter(|_| options.follow);
        if let Some(path) = &options.dump_header {
            deliver(context, path, sent.head.as_bytes(), report.redirects > 0).await?;
        }
        if options.include || options.head {
            let place = output.unwrap_or(&Output::Stdout);
            if let Err(failure) = save(
                context,
                options,
                place,
                &exchange.url,
                sent.head.as_bytes(),
                report.redirects > 0,
            )
            .await?
            {
                return Ok(Err(failure));
            }
        }
        if let Some(next) = follow {
            if report.redirects >= options.max_redirects {
                return Ok(Err(Failure::new(
                    47,
                    format!("Maximum ({}) redirects followed", options.max_redirects),
                )));
            }
            report.redirects += 1;
            sent.discard().await;
            exchange.redirect(sent.status, next, options);
            continue;
        }
        if options.fail && sent.status >= 400 && !options.fail_with_body {
            return Ok(Err(Failure::new(
                22,
                format!("The requested URL returned error: {}", sent.status),
            )));
        }
        let headers_before = options.include || options.head;
        let received =
            receive(context, options, output, &exchange.url, &mut sent, headers_before, report)
                .await?;
        if received.is_ok() && options.fail_with_body && sent.status >= 400 {
            return Ok(Err(Failure::new(
                22,
                format!("The requested URL returned error: {}", sent.status),
            )));
        }
        return Ok(received);
    }
}

/// Writes the body to its destination as it arrives.
async fn receive(
    context: &CommandContext<'_>,
    options: &Options,
    output: Option<&Output>,
    url: &Url,
    sent: &mut HttpResponse,
    mut append: bool,
    report: &mut Report,
) -> Result<std::result::Result<(), Failure>> {
    let place = output.unwrap_or(&Output::Stdout);
    loop {
        let chunk = match sent.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(failure) => return Ok(Err(failure)),
        };
        report.downloaded += chunk.len() as u64;
        if let Err(failure) = save(context, options, place, url, &chunk, append).await? {
            return Ok(Err(failure));
        }
        append = true;
    }
    // An empty body creates an empty file.
    if !append && !matches!(place, Output::Stdout) {
        return save(context, options, place, url, b"", false).await;
    }
    Ok(Ok(()))
}

async fn save(
    context: &CommandContext<'_>,
    options: &Options,
    place: &Output,
    url: &Url,
    bytes: &[u8],
    append: bool,
) -> Result<std::result::Result<(), Failure>> {
    let file = match place {
        Output::Stdout => {
            return Ok(match context.stdout.write_all(bytes).await {
                Ok(()) => Ok(()),
                Err(bashkit::Error::Io(_)) => {
                    Err(Failure::new(23, "Failure writing output to destination"))
                }
                Err(error) => return Err(error),
            });
        }
        Output::File(name) => PathBuf::from(name),
        Output::RemoteName => match url
            .path_segments()
            .and_then(|mut parts| parts.next_back())
            .filter(|name| !name.is_empty())
        {
            Some(name) => PathBuf::from(name),
            None => return Ok(Err(Failure::new(23, "Remote file name has no length"))),
        },
    };
    let path = context.cwd.join(options.output_dir.as_deref().unwrap_or("")).join(&file);
    if options.create_dirs
        && let Some(folder) = path.parent()
    {
        context.fs.mkdir(folder, true).await.ok();
    }
    let written = if append {
        context.fs.append_file(&path, bytes).await
    } else {
        context.fs.write_file(&path, bytes).await
    };
    Ok(written.map_err(|error| {
        let reason = failure::reason(&error);
        Failure::new(23, format!("Failed to open the file {}: {reason}", file.display()))
    }))
}

async fn deliver(
    context: &CommandContext<'_>,
    path: &str,
    bytes: &[u8],
    append: bool,
) -> Result<()> {
    if path == "-" {
        return context.stdout.write_all(bytes).await;
    }
    let path = context.cwd.join(Path::new(path));
    if append {
        context.fs.append_file(&path, bytes).await
    } else {
        context.fs.write_file(&path, bytes).await
    }
}

fn prefixed(text: &str, mark: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

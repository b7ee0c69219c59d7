//! Names that run python3 with other arguments: `pip install X` becomes `python3 -m pip install X`.

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use send_wrapper::SendWrapper;

use super::{OwnStreams, check_installed, run};

/// `pip`, `pip3`, `uv` and `uvx`.
pub(crate) struct Shim {
    pub(crate) own: OwnStreams,
}

#[async_trait]
impl Command for Shim {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let argv = match context.name {
            "uv" => uv(context.args),
            "uvx" => None,
            _ => Some(python(&["-m", "pip"], context.args)),
        };
        match argv {
            Some(argv) => {
                let status = SendWrapper::new(run(&self.own, &context, argv)).await?;
                check_installed(&context, status).await
            }
            None => {
                let line = [context.name]
                    .into_iter()
                    .chain(context.args.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(" ");
                let message = format!(
                    "{}: `{line}` is not available in the sandbox; `uv run SCRIPT` and `uv pip install PACKAGE` are\n",
                    context.name
                );
                context.stderr.write_all(message.as_bytes()).await?;
                Ok(CommandStatus::with_code(2))
            }
        }
    }
}

fn python(before: &[&str], args: &[String]) -> Vec<String> {
    ["python3"]
        .iter()
        .chain(before)
        .map(|word| (*word).to_owned())
        .chain(args.iter().cloned())
        .collect()
}

/// Options of `uv run` that take a value.
const WITH_VALUE: [&str; 12] = [
    "--with",
    "-w",
    "--python",
    "-p",
    "--extra",
    "--group",
    "--project",
    "--directory",
    "--env-file",
    "--with-requirements",
    "--index-url",
    "--package",
];

fn uv(args: &[String]) -> Option<Vec<String>> {
    let (verb, rest) = args.split_first()?;
    match verb.as_str() {
        "run" => uv_run(rest),
        "pip" => Some(python(&["-m", "pip"], rest)),
        _ => None,
    }
}

fn uv_run(args: &[String]) -> Option<Vec<String>> {
    let mut rest = args;
    let mut script = false;
    while let Some((word, after)) = rest.split_first() {
        match word.as_str() {
            "--" => {
                rest = after;
                break;
            }
            "-m" | "--module" => return Some(python(&["-m"], after)),
            "-s" | "--script" => {
                script = true;
                rest = after;
            }
            option if WITH_VALUE.contains(&option) => rest = after.get(1..)?,
            option if option.starts_with('-') && option.len() > 1 => rest = after,
            _ => break,
        }
    }
    let (program, after) = rest.split_first()?;
    let is_script = script || program.ends_with(".py") || program == "-";
    Some(if is_script {
        python(&[program], after)
    } else {
        std::iter::once(program).chain(after).cloned().collect()
    })
}

//! Programs of the sandbox outside of the shell: python3, node, and the programs of skills.

mod flow;
mod shims;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bashkit::{
    Builtin, Command, CommandContext, CommandResolver, CommandStatus, InputKind, LiveInput, Result,
};
use futures_util::future::{Either, join, select};
use send_wrapper::SendWrapper;

use crate::bindings::skillhost::skill::process::{self, Child, Error, Input, Output, Status};
use crate::session::Outputs;

pub(crate) use shims::Shim;

/// Exit codes of programs that did not run or did not end by themselves.
const DENIED: i32 = 126;
const NOT_FOUND: i32 = 127;
const KILLED: i32 = 137;
const TRAPPED: i32 = 134;

/// The shell's own standard streams, which programs can inherit.
#[derive(Clone)]
pub(crate) struct OwnStreams {
    pub(crate) stdin: LiveInput,
    pub(crate) outputs: SendWrapper<Rc<Outputs>>,
}

/// Runs a program by its name.
pub(crate) struct Program {
    pub(crate) own: OwnStreams,
    /// Whether the shell lists the name (`command -v`). If such a program is not installed, this
    /// command reports that itself.
    pub(crate) known: bool,
}

#[async_trait]
impl Command for Program {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let argv =
            std::iter::once(context.name.to_owned()).chain(context.args.iter().cloned()).collect();
        let status = SendWrapper::new(run(&self.own, &context, argv)).await?;
        if self.known { check_installed(&context, status).await } else { Ok(status) }
    }
}

/// Reports a program that is not installed, and returns the status.
pub(crate) async fn check_installed(
    context: &CommandContext<'_>,
    status: CommandStatus,
) -> Result<CommandStatus> {
    if status.exit_code != bashkit::NOT_HERE {
        return Ok(status);
    }
    say(context, &format!("bash: {}: command not found\n", context.name)).await?;
    Ok(CommandStatus::with_code(NOT_FOUND))
}

/// Resolves a name that the shell does not know to a program of the host, if there is one.
pub(crate) struct HostPrograms {
    pub(crate) own: OwnStreams,
}

impl CommandResolver for HostPrograms {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Builtin>> {
        let own = self.own.clone();
        (!name.is_empty()).then(|| bashkit::command_builtin(name, Program { own, known: false }))
    }
}

/// Starts `argv`, moves the data of its streams and waits for its end.
pub(crate) async fn run(
    own: &OwnStreams,
    context: &CommandContext<'_>,
    argv: Vec<String>,
) -> Result<CommandStatus> {
    let stdin = match context.stdin.kind(&own.stdin).await {
        InputKind::Untouched => Input::Inherit,
        InputKind::Ended => Input::None,
        InputKind::Other => Input::Pipe,
    };
    let stdout = match context.inherited(&context.stdout) {
        _ if context.stdout.is_discarded() => Output::None,
        Some(1) => Output::Inherit,
        _ => Output::Pipe,
    };
    let stderr = match context.inherited(&context.stderr) {
        _ if context.stderr.is_discarded() => Output::None,
        _ if context.stderr.same_as(&context.stdout) && !matches!(stdout, Output::None) => {
            Output::ToStdout
        }
        Some(2) => Output::Inherit,
        _ => Output::Pipe,
    };
    // Output of the shell must precede that of the program.
    own.outputs.flush(|| context.stdout.is_drained() && context.stderr.is_drained()).await;
    let env =
        context.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>();
    let cwd = context.cwd.to_str().map(str::to_owned);
    let child = match process::spawn(&argv, Some(&env), cwd.as_deref(), &stdin, &stdout, &stderr) {
        Ok(child) => child,
        Err(error) => return refused(context, &argv[0], error).await,
    };
    let status = follow(context, &child).await?;
    let (code, why) = match status {
        Status::Exited(code) => (i32::from(code), None),
        Status::Killed => (KILLED, Some("Killed".to_owned())),
        Status::Trapped(why) => (TRAPPED, Some(format!("Aborted: {why}"))),
        Status::Limit(limit) => (KILLED, Some(format!("Killed: over the sandbox's limit {limit}"))),
    };
    if let Some(why) = why {
        say(context, &format!("bash: {}: {why}\n", argv[0])).await?;
    }
    Ok(CommandStatus::with_code(code))
}

async fn refused(context: &CommandContext<'_>, name: &str, error: Error) -> Result<CommandStatus> {
    let why = match error {
        Error::NotFound(_) => return Ok(CommandStatus::with_code(bashkit::NOT_HERE)),
        Error::Denied(why) => format!("Permission denied: {why}"),
        Error::Limit(limit) => {
            format!("Resource temporarily unavailable: the sandbox's limit {limit}")
        }
        Error::Trapped(why) => why,
        Error::Closed | Error::Timeout => "Input/output error".to_owned(),
    };
    say(context, &format!("bash: {name}: {why}\n")).await?;
    Ok(CommandStatus::with_code(DENIED))
}

async fn say(context: &CommandContext<'_>, message: &str) -> Result<()> {
    match context.stderr.write_all(message.as_bytes()).await {
        Err(bashkit::Error::Io(_)) => Ok(()),
        written => written,
    }
}

/// Moves the data of the streams that pass through the shell until the program has ended.
async fn follow(context: &CommandContext<'_>, child: &Child) -> Result<Status> {
    let failed = RefCell::new(None);
    let note = |result: Result<()>| {
        if let Err(error) = result {
            failed.borrow_mut().get_or_insert(error);
        }
    };
    let outputs =
        join(async { note(flow::from_program(child.stdout(), &context.stdout).await) }, async {
            note(flow::from_program(child.stderr(), &context.stderr).await)
        });
    let ended = Box::pin(async {
        outputs.await;
        child.ended().await
    });
    let input = Box::pin(async { note(flow::to_program(child.stdin(), &context.stdin).await) });
    let status = match select(ended, input).await {
        Either::Left((status, _)) => status,
        Either::Right(((), ended)) => ended.await,
    };
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(status),
    }
}

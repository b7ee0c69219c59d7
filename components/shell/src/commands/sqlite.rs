//! `sqlite3`: its command line, by the SQLite that comes with python3.

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use send_wrapper::SendWrapper;

use crate::program::{self, Own};

/// The command line in Python.
const SCRIPT: &str = include_str!("sqlite.py");

pub(super) struct Sqlite {
    pub(super) own: Own,
}

#[async_trait]
impl Command for Sqlite {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let words = ["python3", "-c", SCRIPT].into_iter().map(str::to_owned);
        let argv = words.chain(context.args.iter().cloned()).collect();
        let status = SendWrapper::new(program::run(&self.own, &context, argv)).await?;
        if status.exit_code == bashkit::NOT_HERE {
            context.stderr.write_all(b"bash: sqlite3: command not found: it needs python3, which is not installed here\n").await?;
            return Ok(CommandStatus::with_code(127));
        }
        Ok(status)
    }
}

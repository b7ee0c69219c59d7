//! `sqlite3`: a command line for the SQLite of python3.

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use send_wrapper::SendWrapper;

use crate::program::{self, OwnStreams};

/// The implementation, in Python.
const SCRIPT: &str = include_str!("sqlite.py");

pub(super) struct Sqlite {
    pub(super) own: OwnStreams,
}

#[async_trait]
impl Command for Sqlite {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let words = ["python3", "-c", SCRIPT].into_iter().map(str::to_owned);
        let argv = words.chain(context.args.iter().cloned()).collect();
        let status = SendWrapper::new(program::run(&self.own, &context, argv)).await?;
        program::check_installed(&context, status).await
    }
}

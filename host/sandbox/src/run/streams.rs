//! The standard streams of a run.

use std::sync::Arc;
use std::time::Duration;

use super::finished::OutputError;
use crate::limits::Meter;
use crate::limits::fuel::Cost;
use crate::process::ProgramIo;
use crate::streams::{Input, Out, Outlets, Sink, Stdin};
use skillhost_policy::limits::Limit;

/// The standard streams of a run's first program.
pub(super) struct RunStreams {
    pub(super) stdin: Input,
    pub(super) stdout: Out,
    pub(super) stderr: Out,
}

impl RunStreams {
    /// Opens the streams; those of a deterministic run come with the outlets by which they leave
    /// its thread.
    pub(super) fn open(
        stdin: Stdin,
        stdout: Sink,
        stderr: Sink,
        meter: &Arc<Meter>,
        deterministic: bool,
    ) -> (RunStreams, Option<Outlets>) {
        let mut outlets = deterministic.then(Outlets::new);
        let mut out = |sink, limit| match &mut outlets {
            None => Out::new(sink, limit, meter.clone()),
            Some(outlets) => Out::deterministic(sink, limit, meter.clone(), outlets),
        };
        let (stdout, stderr) = (out(stdout, Limit::Stdout), out(stderr, Limit::Stderr));
        let stdin =
            if deterministic { Input::deterministic(stdin, meter) } else { Input::new(stdin) };
        (RunStreams { stdin, stdout, stderr }, outlets)
    }

    /// Writes what is left of the output of programs that were stopped, if the caller still reads.
    pub(super) async fn finish(&mut self) {
        let rest = async {
            self.stdout.finish().await;
            self.stderr.finish().await;
        };
        // After a second without a reader the rest is lost, as it is when a pipe is closed.
        let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
    }

    /// Returns the first stream of the caller that did not take all output.
    pub(super) fn failure(&self) -> Option<OutputError> {
        [("stdout", &self.stdout), ("stderr", &self.stderr)]
            .into_iter()
            .find_map(|(stream, out)| Some(OutputError { stream, error: out.failure()? }))
    }

    /// Returns what the first program is started with.
    pub(super) fn of_first_program(&self, env: Vec<(String, String)>, cwd: &str) -> ProgramIo {
        ProgramIo {
            stdin: self.stdin.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            env,
            cwd: cwd.to_owned(),
            depth: 0,
            cost: Cost::new(),
            number: 1,
        }
    }
}

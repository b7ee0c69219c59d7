//! Start and end of a component: the panic hook, the result of `main`, and flushing the output.

use std::fmt::Display;
use std::sync::Once;

use crate::io::output::write_separately;
use crate::process::{self, ExitCode};
use crate::stream::{block_on, finish_all};

/// The return types of `main`: `()`, [`ExitCode`], or a `Result` of either with an error type that
/// implements `Display`.
///
/// An error is written to stderr as `error: ...`, and the exit code is 1. The message uses the
/// alternate form (`{:#}`), in which `anyhow` and others include the causes.
///
/// ```no_run
/// use skillhost_guest::{Termination, process::ExitCode};
///
/// fn assert_can_be_returned(_: impl Termination) {}
/// assert_can_be_returned(());
/// assert_can_be_returned(ExitCode::from(3));
/// assert_can_be_returned(Err::<(), _>("no such city"));
/// ```
pub trait Termination {
    /// Reports an error to stderr. `Err` means exit code 1.
    #[doc(hidden)]
    #[allow(async_fn_in_trait, reason = "nothing here is Send")]
    async fn report(self) -> Result<(), ()>;
}

impl Termination for () {
    async fn report(self) -> Result<(), ()> {
        Ok(())
    }
}

impl Termination for ExitCode {
    async fn report(self) -> Result<(), ()> {
        if self == ExitCode::SUCCESS { Ok(()) } else { process::exit(self.into()) }
    }
}

impl<T: Termination, E: Display> Termination for Result<T, E> {
    async fn report(self) -> Result<(), ()> {
        match self {
            Ok(value) => value.report().await,
            Err(error) => {
                print_error(&error).await;
                Err(())
            }
        }
    }
}

/// The body of the exported `wasi:cli/run`.
pub async fn run<T: Termination>(main: impl AsyncFnOnce() -> T) -> Result<(), ()> {
    install_panic_hook();
    let result = main().await;
    // Flushed before the report: on a terminal, an error then follows the output.
    let flushed = finish_all().await;
    let result = result.report().await;
    match flushed {
        Ok(()) => result,
        // A reader that closed stdout wants no more output: that is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => result,
        Err(error) => {
            print_error(&error).await;
            Err(())
        }
    }
}

/// Writes panic messages to stderr. std's own stderr discards them on this target.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    // Native tests have std's stderr.
    if cfg!(not(target_family = "wasm")) {
        return;
    }
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let message = format!("{panic}\n");
            // A panic in here would abort without a message, so errors are ignored.
            block_on(async move {
                finish_all().await.ok();
                write_separately(message.as_bytes()).await.ok();
            });
        }));
    });
}

async fn print_error(error: &dyn Display) {
    // If stderr fails as well, the exit code is the only report.
    write_separately(format!("error: {error:#}\n").as_bytes()).await.ok();
}

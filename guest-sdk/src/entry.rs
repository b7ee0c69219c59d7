//! How a component starts and ends: the panic hook, `main`'s result, and what is flushed when it
//! returns.

use std::fmt::Display;
use std::sync::Once;

use crate::io::output::write_apart;
use crate::process::{self, ExitCode};
use crate::stream::{block_on, finish_all};

/// What `main` may return: nothing, an [`ExitCode`], or a `Result` of one of these with an error
/// that can be shown.
///
/// An error is written to stderr as `error: ...`, with its causes where its type shows them in the
/// alternate form (`{:#}`, as `anyhow` does), and ends the program with exit code 1.
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
    /// Reports; `Err` is exit code 1.
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
                complain(&error).await;
                Err(())
            }
        }
    }
}

/// The body of the exported `wasi:cli/run`.
pub async fn run<T: Termination>(main: impl AsyncFnOnce() -> T) -> Result<(), ()> {
    install_panic_hook();
    let result = main().await;
    // Before the report, so that an error comes after the output on a terminal.
    let flushed = finish_all().await;
    let result = result.report().await;
    match flushed {
        Ok(()) => result,
        // Whoever closed stdout wants no more of it, and no complaint either.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => result,
        Err(error) => {
            complain(&error).await;
            Err(())
        }
    }
}

/// Makes panics visible: std writes them to a stderr that is not there.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    // In a native test there is a stderr.
    if cfg!(not(target_family = "wasm")) {
        return;
    }
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let message = format!("{panic}\n");
            // Panicking in here would abort without a word; there is nobody left to report an error
            // to.
            block_on(async move {
                finish_all().await.ok();
                write_apart(message.as_bytes()).await.ok();
            });
        }));
    });
}

async fn complain(error: &dyn Display) {
    // Where stderr does not work either, the exit code has to do.
    write_apart(format!("error: {error:#}\n").as_bytes()).await.ok();
}

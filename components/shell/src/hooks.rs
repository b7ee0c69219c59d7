//! System functions for the crates below: time, sleeping, randomness and panic messages.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use send_wrapper::SendWrapper;

use crate::bindings::wasi::clocks::{monotonic_clock, system_clock};
use crate::bindings::wasi::random::random::get_random_bytes;
use crate::stdio;

/// Hosts limit the bytes of one request.
const RANDOM_AT_ONCE: usize = 64 * 1024;

/// Fills `bytes` with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let some = get_random_bytes((bytes.len() - filled).min(RANDOM_AT_ONCE) as u64);
        bytes[filled..filled + some.len()].copy_from_slice(&some);
        filled += some.len();
    }
}

/// Sleeps while other futures continue.
pub(crate) async fn sleep(duration: Duration) {
    monotonic_clock::wait_for(duration.as_nanos().try_into().unwrap_or(u64::MAX)).await;
}

/// Writes panic messages to stderr. std's own stderr discards them on this target.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        // wit-bindgen panics when no future waits for the host: then each waits for another one.
        let waits = panic.location().is_some_and(|at| at.file().contains("inter_task_wakeup"));
        let message = if waits {
            "bash: deadlock: every command waits for another to open, write or read a named pipe\n"
                .to_owned()
        } else {
            format!("bash: {panic}\n")
        };
        wit_bindgen::block_on(async move {
            // If stderr fails as well, the trap is the only report.
            stdio::write_separately(message.into_bytes()).await;
        });
    }));
}

#[unsafe(no_mangle)]
extern "Rust" fn __bashkit_host_now_micros() -> u64 {
    let now = system_clock::now();
    u64::try_from(now.seconds).unwrap_or(0) * 1_000_000 + u64::from(now.nanoseconds / 1000)
}

#[unsafe(no_mangle)]
extern "Rust" fn __bashkit_host_sleep(
    duration: Duration,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(SendWrapper::new(sleep(duration)))
}

#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    count: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: getrandom passes `count` writable bytes. They may be uninitialised, so they are
    // zeroed before they become a slice.
    let bytes = unsafe {
        bytes.write_bytes(0, count);
        std::slice::from_raw_parts_mut(bytes, count)
    };
    random(bytes);
    Ok(())
}

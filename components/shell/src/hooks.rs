//! What crates below ask of a system: time, waiting, chance, and where a panic is told.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use send_wrapper::SendWrapper;

use crate::bindings::wasi::clocks::{monotonic_clock, system_clock};
use crate::bindings::wasi::random::random::get_random_bytes;
use crate::stdio;

/// Hosts bound what they give at once.
const RANDOM_AT_ONCE: usize = 64 * 1024;

/// Fills `bytes`.
pub(crate) fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let some = get_random_bytes((bytes.len() - filled).min(RANDOM_AT_ONCE) as u64);
        bytes[filled..filled + some.len()].copy_from_slice(&some);
        filled += some.len();
    }
}

/// Waits without keeping others from running.
pub(crate) async fn sleep(duration: Duration) {
    monotonic_clock::wait_for(duration.as_nanos().try_into().unwrap_or(u64::MAX)).await;
}

/// Panics are told on stderr: std's own stderr is not there.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = format!("bash: {panic}\n");
        wit_bindgen::block_on(async move {
            // Where stderr does not work either, the trap has to do.
            stdio::write_apart(message.into_bytes()).await;
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
    // SAFETY: getrandom passes `count` writable bytes, perhaps uninitialized: hence zeroed before
    // they are a slice.
    let bytes = unsafe {
        bytes.write_bytes(0, count);
        std::slice::from_raw_parts_mut(bytes, count)
    };
    random(bytes);
    Ok(())
}

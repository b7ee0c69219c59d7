//! Ways to end that a host has to handle.

use crate::bindings::new::wasi::cli::exit;
use crate::report::Report;

/// Executes `unreachable`.
pub(crate) async fn trap(_: &[String]) -> Report {
    core::arch::wasm32::unreachable()
}

/// Panics with a message.
pub(crate) async fn panic(_: &[String]) -> Report {
    panic!("a panic of the guest")
}

/// Traps in a destructor, after the report was made, with files and streams open.
pub(crate) async fn trap_in_drop(_: &[String]) -> Report {
    struct Bad(#[expect(dead_code, reason = "held open")] Vec<(crate::files::Folder, String)>);
    impl Drop for Bad {
        fn drop(&mut self) {
            core::arch::wasm32::unreachable()
        }
    }
    let held = crate::files::BOTH.into_iter().flat_map(crate::files::preopens).collect();
    drop(Bad(held));
    Report::default()
}

/// Reads outside of linear memory.
pub(crate) async fn out_of_bounds(_: &[String]) -> Report {
    let end = core::arch::wasm32::memory_size::<0>() << 16;
    // SAFETY: none. The address is outside of linear memory; the test is that the engine traps.
    let byte = unsafe { std::ptr::read_volatile((end + (64 << 10)) as *const u8) };
    let mut report = Report::default();
    report.escape(format!("read {byte}"));
    report
}

/// Exits with the code given as argument. Of codes above 255 only the low byte is visible.
pub(crate) async fn exit(args: &[String]) -> Report {
    let code: u64 = args.first().and_then(|code| code.parse().ok()).unwrap_or(256);
    exit::exit_with_code((code & 0xff) as u8);
    let mut report = Report::default();
    report.escape("went on after exit");
    report
}

/// Writes control sequences of terminals (cursor moves, titles, queries, bells) and bytes that are
/// not text.
pub(crate) async fn control(_: &[String]) -> Report {
    let bytes =
        b"\x1b]0;a title\x07\x1b[2J\x1b[6n\x1b]52;c;c2VjcmV0\x07\x9b31m\xff\xfe\0\x08\x08\r";
    let mut report = Report::default();
    skillhost_guest::io::stdout().write_all(bytes).await.ok();
    skillhost_guest::io::stderr().write_all(bytes).await.ok();
    report.answer("written");
    report
}

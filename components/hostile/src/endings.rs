//! Ways to end that a host has to cope with.

use crate::bindings::new::wasi::cli::exit;
use crate::report::Report;

/// Executes `unreachable`.
pub(crate) async fn trap(_: &[String]) -> Report {
    core::arch::wasm32::unreachable()
}

/// Panics, with a message.
pub(crate) async fn panic(_: &[String]) -> Report {
    panic!("a panic of the guest")
}

/// Traps while values are destroyed: after the report was made, with files and streams open.
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

/// Reads memory that is not there.
pub(crate) async fn out_of_bounds(_: &[String]) -> Report {
    let end = core::arch::wasm32::memory_size::<0>() << 16;
    // SAFETY: none: a wasm memory ends there, and what is attempted is that this is noticed.
    let byte = unsafe { std::ptr::read_volatile((end + (64 << 10)) as *const u8) };
    let mut report = Report::default();
    report.escape(format!("read {byte}"));
    report
}

/// Ends with the code that is the argument; beyond 255 only its low byte can be said.
pub(crate) async fn exit(args: &[String]) -> Report {
    let code: u64 = args.first().and_then(|code| code.parse().ok()).unwrap_or(256);
    exit::exit_with_code((code & 0xff) as u8);
    let mut report = Report::default();
    report.escape("went on after exit");
    report
}

/// Writes what a terminal would obey: moves, titles, answers, bells, and bytes that are no text.
pub(crate) async fn control(_: &[String]) -> Report {
    let bytes =
        b"\x1b]0;a title\x07\x1b[2J\x1b[6n\x1b]52;c;c2VjcmV0\x07\x9b31m\xff\xfe\0\x08\x08\r";
    let mut report = Report::default();
    skillhost_guest::io::stdout().write_all(bytes).await.ok();
    skillhost_guest::io::stderr().write_all(bytes).await.ok();
    report.answer("written");
    report
}

//! A guest's URL from any text: whatever is let through says one host, in one spelling.
//!
//!     cargo +nightly fuzz run address -- -max_len=2048 -timeout=5
#![no_main]

use skillhost::sandbox::http::target::target;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(uri) = text.parse::<http::Uri>() else { return };
    if let Ok(to) = target(&uri) {
        assert!(!to.host.is_empty() && !to.host.contains(['@', '%', '/', '[', ']']) && !to.host.ends_with('.'));
        assert_eq!(to.host, to.host.to_ascii_lowercase());
    }
});

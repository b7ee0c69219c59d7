//! Native modules of wasm-rquickjs that compute and ask nothing of a system.

#![allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    unreachable_pub,
    unused,
    missing_docs,
    reason = "the files are those of wasm-rquickjs"
)]

#[path = "../../../../target/javascript/builtin/base64.rs"]
pub(crate) mod base64;
#[path = "../../../../target/javascript/builtin/encoding.rs"]
pub(crate) mod encoding;
#[path = "../../../../target/javascript/builtin/internal_binding_util.rs"]
pub(crate) mod internal_binding_util;
#[path = "../../../../target/javascript/builtin/intl.rs"]
pub(crate) mod intl;
#[path = "../../../../target/javascript/builtin/string_decoder.rs"]
pub(crate) mod string_decoder;
#[path = "../../../../target/javascript/builtin/url.rs"]
pub(crate) mod url;
#[path = "../../../../target/javascript/builtin/v8.rs"]
pub(crate) mod v8;
#[path = "../../../../target/javascript/builtin/web_crypto.rs"]
pub(crate) mod web_crypto;

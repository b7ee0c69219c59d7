//! Modules of scripts: which file a specifier means, of which kind that file is, and loading it.
//!
//! [`resolve`] and [`package_json`] follow the algorithms of Node's documentation ("Modules:
//! CommonJS modules" and "Modules: ECMAScript modules"). They call nothing of the engine, and see
//! files by a trait, so that their tests need neither. [`loader`] connects them to the engine, and
//! js/module.js has `require`.

pub(crate) mod exports;
pub(crate) mod loader;
pub(crate) mod package_json;
pub(crate) mod resolve;

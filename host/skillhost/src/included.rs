//! What the expansion of [`include_skill!`](crate::include_skill) names.

pub use skillhost_skill::embedded::{EmbeddedCode, EmbeddedContent, EmbeddedSkill};

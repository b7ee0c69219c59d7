//! Where skills come from: archives, folders and repositories, the sources file, the lock file and
//! the store.
//!
//! This crate owns the steps from the text of a source to files in the store that the lock file
//! names. Each step takes plain data and returns plain data: a source is fetched into a private
//! folder ([`staging`]), its skills are selected, their files are imported into the store, and the
//! lock file names their digests. It must not know how a skill runs, and it starts nothing of what
//! it fetches.
//!
//! Start reading at [`staging`] and [`archive`], through which everything that comes from elsewhere
//! passes. [`limits`] has the most that is accepted, and [`error::RefusalRule`] the rules.

pub mod archive;
mod bounded;
pub mod credentials;
pub mod digest;
mod document;
pub mod error;
pub mod fetch;
pub mod git;
pub mod import;
mod journal;
pub mod limits;
pub mod lock;
mod mcp;
mod names;
pub mod network;
pub mod oci;
pub mod pack;
pub mod programs;
pub mod project;
pub mod requires;
pub mod s3;
pub mod scan;
pub mod signature;
pub mod skills;
pub mod source;
pub mod staging;
pub mod store;
pub mod transfer;
pub mod wanted;
mod well_known;

//! Everything that is stored and must survive the process: the audit log, receipts, approvals,
//! usage figures, and the state of skills.
//!
//! This crate owns the files in the state folder and their formats. It must not decide what a run
//! may touch: it records runs, and reports which levels and approvals apply.
//!
//! Start reading at [`audit`], which appends one chained line when a run starts and one when it
//! ends. [`receipt`] is a run in a form that others can verify. [`approval`] keeps levels and
//! approvals, and writes the question that the operator reads. [`state`] is what a skill keeps
//! between runs, [`runs`] the queue and the results of the run API, and [`usage`] counts on this
//! machine. [`database`] opens the SQLite files, which
//! only the operator can use.

pub mod approval;
pub mod audit;
pub mod database;
pub mod receipt;
pub mod runs;
pub mod state;
pub mod usage;

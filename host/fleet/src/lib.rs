//! Workers and API servers on NATS JetStream.
//!
//! A run is a record of one stream ([`types`]), which changes only by compare-and-set, and a message in
//! a work queue, which says that the record waits for a worker. Everything large is a blob, named by its
//! digest. `names` has the streams and subjects, of which every tenant has its own; `streams` creates
//! them.
//!
//! Start reading at [`worker`], which takes messages from the queues (`pull`) and drives each run to its
//! end, and [`front`], which is the queue for API servers. Both write runs through `runs`, over the
//! connection of [`broker`]. [`identity`] is who a process is: its key at the broker, and the key
//! that signs results. [`init`] creates identities, and the brokers' configuration with the
//! permissions of each. `sessions` finds the
//! workers of sessions, and counts, records and loses sessions; requests for them go from server to
//! worker, over connections that `tls` describes. [`dead`] lists the runs that no worker could end, `usage` counts what
//! tenants use in an hour, and [`audit`] verifies the ends of all runs.
//!
//! A message may be delivered twice, and a run may be executed twice; its end is stored once. A
//! worker that stores the end of a run must hold its claim, and a claim is lost when another worker takes the run.

pub mod audit;
pub mod broker;
pub mod dead;
pub mod front;
pub mod identity;
pub mod init;
mod names;
mod pull;
mod runs;
mod sessions;
mod streams;
mod tls;
pub mod types;
mod usage;
pub mod worker;

pub use skillhost_server::api::fleet::FleetError;
pub use streams::FleetSettings;

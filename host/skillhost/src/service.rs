//! Many invocations in one host: so many run at once, skills take turns, memory is promised before
//! it is used, and whoever finds no room is told so at once.
//!
//! An invocation is a future of its caller's: it runs where that one is polled, and dropping it
//! ends it, whether it waits or runs. A guest that computes lets others of its thread run every
//! [`EPOCH`](skillhost_sandbox::EPOCH).

mod queue;

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{Instrument as _, debug_span};

use crate::invoke::{
    ComponentTools, Invocation, LISTING_MEMORY, LoadedSkill, RunError, RunRequest, Runner, Target,
};
use queue::{Queue, Refused, Turn};
use skillhost_policy::diagnostic::error_object;
use skillhost_policy::limits::show_size;
use skillhost_sandbox::Io;

/// Memory is promised in units of a page of WebAssembly.
const PAGE: u64 = 64 << 10;

/// How much a service takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Invocations that run at once; at least 1.
    pub running: usize,
    /// Of those, invocations of one skill: what is left is for others, however long these take. At
    /// least 1.
    pub running_per_skill: usize,
    /// Invocations that wait for their turn.
    pub waiting: usize,
    /// Of those, invocations of one skill.
    pub waiting_per_skill: usize,
    /// Bytes of linear memory that those that run may have together. Each is counted with all that
    /// its limit `memory` allows it, so guests that need little serve more at once under a lower
    /// limit.
    pub memory: u64,
}

impl Default for Capacity {
    /// 64 at once, 32 of a skill; 1,024 that wait, 256 of a skill; 8 GiB, which is 16 invocations
    /// under the default limit.
    fn default() -> Capacity {
        Capacity {
            running: 64,
            running_per_skill: 32,
            waiting: 1_024,
            waiting_per_skill: 256,
            memory: 8 << 30,
        }
    }
}

/// A host that serves many callers. Cheap to clone; all clones share its capacity.
#[derive(Clone)]
pub struct Service {
    runner: Runner,
    capacity: Capacity,
    queue: Arc<Queue>,
    memory: Arc<Semaphore>,
}

/// What a service is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceLoad {
    /// Invocations that have their turn.
    pub running: usize,
    /// Invocations that wait for it.
    pub waiting: usize,
    /// Bytes of memory that are promised.
    pub memory: u64,
}

/// Why a service did not run an invocation to its end. What is refused was not invoked, and leaves
/// no record.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// As many wait as may. Later there is room.
    #[error("busy: {waiting} invocations wait already, which is as many as may; try again later")]
    Busy {
        /// Invocations that wait.
        waiting: usize,
    },
    /// As many of this skill wait as may. Later there is room; for other skills there is now.
    #[error(
        "busy: {waiting} invocations of this skill wait already, which is as many as may; try again later"
    )]
    SkillBusy {
        /// Invocations of the skill that wait.
        waiting: usize,
    },
    /// It may use more memory than the service has for all: it never fits.
    #[error("the invocation may use {}, and the service has {} for all: lower its limit `memory`", show_size(*.needs), show_size(*.capacity))]
    Memory {
        /// Its limit, in bytes.
        needs: u64,
        /// The service's, in bytes.
        capacity: u64,
    },
    /// The service takes no more invocations.
    #[error("the service is shutting down")]
    Closed,
    /// The invocation had its turn and came to no outcome.
    #[error(transparent)]
    Invoke(#[from] RunError),
}

impl Serialize for ServiceError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (code, details) = match self {
            ServiceError::Busy { waiting } => ("busy", json!({ "waiting": waiting })),
            ServiceError::SkillBusy { waiting } => ("skill-busy", json!({ "waiting": waiting })),
            ServiceError::Memory { needs, capacity } => {
                ("memory", json!({ "needs": needs, "capacity": capacity }))
            }
            ServiceError::Closed => ("closed", json!({})),
            ServiceError::Invoke(error) => return error.serialize(serializer),
        };
        error_object(code, self, details).serialize(serializer)
    }
}

impl Service {
    /// Serves with a host.
    pub fn new(runner: Runner, capacity: Capacity) -> Service {
        let pages = usize::try_from(capacity.memory / PAGE)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Service {
            runner,
            capacity,
            queue: Queue::new(capacity),
            memory: Arc::new(Semaphore::new(pages)),
        }
    }

    /// The host.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Runs a skill under a policy when its turn has come and there is memory for it, and records
    /// it.
    ///
    /// Skills take turns, by their folders as they are named; invocations of one skill go first
    /// come first served. Memory is given in the order of turns, so that a large one is not passed
    /// by small ones for ever. Dropping the future ends the invocation.
    ///
    /// # Errors
    /// There is no room to wait in, or there never is memory enough, or the host's own.
    pub async fn invoke(&self, request: RunRequest<'_>) -> Result<Invocation, ServiceError> {
        let _turn = self.turn(request.skill.path).await?;
        let loaded = self.runner.load_for_run(request.skill, request.policy)?;
        self.run(&loaded, &request.target, &request.args, request.io).await
    }

    /// The same for a skill that is loaded. Whoever keeps one asks [`LoadedSkill::is_current`] first.
    ///
    /// # Errors
    /// As [`Service::invoke`].
    pub async fn invoke_loaded(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        io: Io,
    ) -> Result<Invocation, ServiceError> {
        let _turn = self.turn(&loaded.skill.root).await?;
        self.run(loaded, target, args, io).await
    }

    /// Asks the component of a skill for its tools, as a run that waits for its turn and has its
    /// share of memory.
    ///
    /// # Errors
    /// As [`Service::invoke`].
    pub async fn list_tools(
        &self,
        loaded: &LoadedSkill,
    ) -> Result<Result<ComponentTools, String>, ServiceError> {
        let _turn = self.turn(&loaded.skill.root).await?;
        let _memory =
            self.promise(LISTING_MEMORY.min(loaded.grant.capabilities.limits.memory)).await?;
        Ok(self.runner.list_tools(loaded).await?)
    }

    /// What it is doing now.
    pub fn load(&self) -> ServiceLoad {
        let (running, waiting) = self.queue.counts();
        let pages = self.capacity.memory / PAGE;
        ServiceLoad {
            running,
            waiting,
            memory: (pages - (self.memory.available_permits() as u64).min(pages)) * PAGE,
        }
    }

    /// Takes no more invocations, refuses those that wait, and resolves when the last of those that
    /// run has ended.
    pub async fn close(&self) {
        self.queue.close();
        self.queue.idle().await;
    }

    async fn turn(&self, skill: &Path) -> Result<Turn, ServiceError> {
        self.queue.turn(skill).instrument(debug_span!("queue")).await.map_err(|refused| {
            match refused {
                Refused::Full(waiting) => ServiceError::Busy { waiting },
                Refused::FullOfSkill(waiting) => ServiceError::SkillBusy { waiting },
                Refused::Closed => ServiceError::Closed,
            }
        })
    }

    async fn run(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        io: Io,
    ) -> Result<Invocation, ServiceError> {
        let _memory = self.promise(loaded.grant.capabilities.limits.memory).await?;
        let invoked = self.runner.invoke_loaded(loaded, target, args, io).await?;
        if self.runner.has_grown() {
            let runner = self.runner.clone();
            // Not the caller's to wait for.
            tokio::task::spawn_blocking(move || runner.tidy());
        }
        Ok(invoked)
    }

    /// Memory for an invocation, until it is dropped.
    async fn promise(&self, needs: u64) -> Result<SemaphorePermit<'_>, ServiceError> {
        let capacity = self.capacity.memory;
        let never = ServiceError::Memory { needs, capacity };
        let pages = needs.div_ceil(PAGE);
        if pages > capacity / PAGE {
            return Err(never);
        }
        let Ok(pages) = u32::try_from(pages) else { return Err(never) };
        self.memory.acquire_many(pages).await.map_err(|_| ServiceError::Closed)
    }
}

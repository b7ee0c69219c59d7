//! Runs many requests in one host. A bounded number run at once, skills take turns, memory is
//! reserved before a run starts, and a request is refused at once if the queue is full.
//!
//! A run is a future: it makes progress when the caller polls it, and dropping it ends the run,
//! queued or started. A guest that computes yields to other runs on its thread every
//! [`EPOCH`](skillhost_sandbox::EPOCH).

mod queue;

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{Instrument as _, debug_span};

use crate::invoke::{
    ComponentTools, Invocation, LISTING_MEMORY, LoadedRequest, LoadedSkill, RunError, RunRequest,
    Runner, Target,
};
use queue::{Queue, QueueError, Turn};
use skillhost_policy::diagnostic::error_object;
use skillhost_policy::limits::show_size;
use skillhost_sandbox::Io;

/// The unit of memory reservations: a page of WebAssembly.
const PAGE: u64 = 64 << 10;

/// How many runs a service accepts, and how much memory they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Runs at once; at least 1.
    pub running: usize,
    /// Runs of one skill at once; at least 1. The rest stays free for other skills, however long
    /// these runs take.
    pub running_per_skill: usize,
    /// Runs in the queue.
    pub waiting: usize,
    /// Runs of one skill in the queue.
    pub waiting_per_skill: usize,
    /// Linear memory of all runs together, in bytes. Each run counts with its full `memory` limit,
    /// so more runs fit if they have lower limits.
    pub memory: u64,
}

impl Default for Capacity {
    /// 64 runs at once, 32 of one skill; 1,024 in the queue, 256 of one skill; 8 GiB of memory,
    /// which is 16 runs under the default limit.
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

/// A runner that serves many callers. Cheap to clone; all clones share its capacity.
#[derive(Clone)]
pub struct Service {
    runner: Runner,
    capacity: Capacity,
    queue: Arc<Queue>,
    memory: Arc<Semaphore>,
}

/// What a service is doing at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceLoad {
    /// Runs in progress.
    pub running: usize,
    /// Runs in the queue.
    pub waiting: usize,
    /// Reserved memory, in bytes.
    pub memory: u64,
}

/// Why a service did not complete a run. A refused request does not run, and leaves no record.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The queue is full. Try again later.
    #[error("busy: {waiting} runs are waiting, which is the limit; try again later")]
    Busy {
        /// Runs in the queue.
        waiting: usize,
    },
    /// The skill's share of the queue is full. Try again later; other skills still have room.
    #[error("busy: {waiting} runs of this skill are waiting, which is the limit; try again later")]
    SkillBusy {
        /// Runs of the skill in the queue.
        waiting: usize,
    },
    /// The run may use more memory than the service has, so it can never start.
    #[error("the run may use {} of memory, and the service has {} in total: lower the `memory` limit", show_size(*.needs), show_size(*.capacity))]
    Memory {
        /// The run's memory limit, in bytes.
        needs: u64,
        /// The service's memory, in bytes.
        capacity: u64,
    },
    /// The service accepts no more runs.
    #[error("the service is shutting down")]
    Closed,
    /// The run started and has no outcome.
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
    /// Creates a service that runs requests with this runner.
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

    /// Returns the runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Returns a service that runs requests with another runner, within the capacity of this one.
    #[must_use]
    pub fn with_runner(&self, runner: Runner) -> Service {
        Service { runner, ..self.clone() }
    }

    /// Returns how much is accepted.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Runs a skill under a policy as soon as it is its turn and memory is available, and records
    /// the run.
    ///
    /// Skills take turns, identified by the paths of their folders as given; runs of one skill keep
    /// their order. Memory is reserved in the order of turns, so that small runs cannot starve a
    /// large one. Dropping the future ends the run.
    ///
    /// # Errors
    /// The queue is full, the service can never provide enough memory, or the runner returns an
    /// error.
    pub async fn invoke(&self, request: RunRequest<'_>) -> Result<Invocation, ServiceError> {
        let _turn = self.turn(request.skill.path).await?;
        let loaded = self.runner.load_for_run(request.skill, request.policy)?;
        self.run(&loaded, &request.target, &request.args, request.io).await
    }

    /// Runs a loaded skill. If you keep a loaded skill, call [`LoadedSkill::is_current`] first.
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

    /// Runs a loaded skill with a receipt: see [`Runner::invoke_with_receipt`].
    ///
    /// # Errors
    /// As [`Service::invoke`].
    pub async fn invoke_with_receipt(
        &self,
        call: LoadedRequest<'_>,
    ) -> Result<Invocation, ServiceError> {
        let _turn = self.turn(&call.loaded.skill.root).await?;
        let _memory = self.promise(call.loaded.grant.capabilities.limits.host_memory()).await?;
        Ok(self.runner.invoke_with_receipt(call).await?)
    }

    /// Asks the component of a skill for its tools, in a run that is queued and reserves memory.
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

    /// Returns the current load.
    pub fn load(&self) -> ServiceLoad {
        let (running, waiting) = self.queue.counts();
        let pages = self.capacity.memory / PAGE;
        ServiceLoad {
            running,
            waiting,
            memory: (pages - (self.memory.available_permits() as u64).min(pages)) * PAGE,
        }
    }

    /// Accepts no more runs, refuses those in the queue, and resolves when the last running one has
    /// ended.
    pub async fn close(&self) {
        self.queue.close();
        self.queue.idle().await;
    }

    async fn turn(&self, skill: &Path) -> Result<Turn, ServiceError> {
        self.queue.turn(skill).instrument(debug_span!("queue")).await.map_err(|refused| {
            match refused {
                QueueError::Full(waiting) => ServiceError::Busy { waiting },
                QueueError::SkillFull(waiting) => ServiceError::SkillBusy { waiting },
                QueueError::Closed => ServiceError::Closed,
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
        let _memory = self.promise(loaded.grant.capabilities.limits.host_memory()).await?;
        let invoked = self.runner.invoke_loaded(loaded, target, args, io).await?;
        if self.runner.has_grown() {
            let runner = self.runner.clone();
            // The caller does not wait for this.
            tokio::task::spawn_blocking(move || runner.tidy());
        }
        Ok(invoked)
    }

    /// Reserves memory for a run, until the permit is dropped.
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

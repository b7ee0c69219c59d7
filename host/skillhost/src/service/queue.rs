//! The queue: a bounded number of turns, skills in rotation, and the runs of each skill in order.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::Capacity;

/// The turns, and the runs that wait for one.
#[derive(Debug)]
pub(super) struct Queue {
    capacity: Capacity,
    state: Mutex<QueueState>,
    /// Notified whenever a turn ends.
    ended: Notify,
}

/// Why a run cannot be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueError {
    /// The queue is full, with this many runs.
    Full(usize),
    /// The skill's share is full, with this many runs.
    SkillFull(usize),
    Closed,
}

/// A turn. Dropping it passes it on.
#[derive(Debug)]
pub(super) struct Turn {
    queue: Arc<Queue>,
    skill: PathBuf,
}

#[derive(Debug, Default)]
struct QueueState {
    closed: bool,
    running: usize,
    waiting: usize,
    /// Only skills that have runs in progress or in the queue.
    skills: HashMap<PathBuf, Lane>,
    /// The skills that have runs in the queue, in the order of their turns.
    rotation: VecDeque<PathBuf>,
    tickets: u64,
}

/// The runs of one skill.
#[derive(Debug, Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// Notified when it is this run's turn; dropped if that never happens.
    sender: oneshot::Sender<()>,
}

impl Queue {
    pub(super) fn new(capacity: Capacity) -> Arc<Queue> {
        Arc::new(Queue { capacity, state: Mutex::default(), ended: Notify::new() })
    }

    /// Waits for a turn. Dropping the future gives up the place in the queue.
    pub(super) async fn turn(self: &Arc<Self>, skill: &Path) -> Result<Turn, QueueError> {
        let (sender, turn) = oneshot::channel();
        let ticket = self.enter(skill, sender)?;
        let mut place =
            QueuePlace { queue: self.clone(), skill: skill.to_owned(), ticket, turn: Some(turn) };
        let came = match &mut place.turn {
            Some(turn) => turn.await.is_ok(),
            None => false,
        };
        place.turn = None;
        if came {
            Ok(Turn { queue: self.clone(), skill: std::mem::take(&mut place.skill) })
        } else {
            Err(QueueError::Closed)
        }
    }

    /// Returns the number of runs in progress, and in the queue.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.running, state.waiting)
    }

    /// Refuses all waiting runs, and accepts no more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting = 0;
        state.rotation.clear();
        for lane in state.skills.values_mut() {
            lane.waiting.clear();
        }
        state.skills.retain(|_, lane| lane.running > 0);
    }

    /// Resolves when nothing runs.
    pub(super) async fn idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.counts().0 == 0 {
                return;
            }
            ended.await;
        }
    }

    fn enter(&self, skill: &Path, sender: oneshot::Sender<()>) -> Result<u64, QueueError> {
        let mut state = self.state();
        if state.closed {
            return Err(QueueError::Closed);
        }
        let lane = state.skills.get(skill);
        let (running, waiting) = lane.map_or((0, 0), |lane| (lane.running, lane.waiting.len()));
        let free = state.running < self.capacity.running.max(1)
            && running < self.capacity.running_per_skill.max(1)
            && waiting == 0;
        if !free && state.waiting >= self.capacity.waiting {
            return Err(QueueError::Full(state.waiting));
        }
        if !free && waiting >= self.capacity.waiting_per_skill {
            return Err(QueueError::SkillFull(waiting));
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting += 1;
        if waiting == 0 {
            state.rotation.push_back(skill.to_owned());
        }
        state
            .skills
            .entry(skill.to_owned())
            .or_default()
            .waiting
            .push_back(Waiter { ticket, sender });
        state.give(&self.capacity);
        Ok(ticket)
    }

    /// Ends a turn that was taken, or never was.
    fn end(&self, skill: &Path) {
        let mut state = self.state();
        state.running -= 1;
        if let Some(lane) = state.skills.get_mut(skill) {
            lane.running -= 1;
        }
        state.forget_idle(skill);
        state.give(&self.capacity);
        drop(state);
        self.ended.notify_waiters();
    }

    /// Removes a run from the queue, or passes on the turn that it got in the meantime.
    fn leave(&self, skill: &Path, ticket: u64, turn: &mut oneshot::Receiver<()>) {
        let mut state = self.state();
        let left = state.skills.get_mut(skill).and_then(|lane| {
            let at = lane.waiting.iter().position(|waiter| waiter.ticket == ticket)?;
            lane.waiting.remove(at);
            Some(lane.waiting.is_empty())
        });
        match left {
            Some(was_last) => {
                state.waiting -= 1;
                if was_last {
                    state.rotation.retain(|other| other != skill);
                }
                state.forget_idle(skill);
            }
            // Not in the queue: it got its turn, or the queue was closed.
            None => {
                let came = turn.try_recv().is_ok();
                drop(state);
                if came {
                    self.end(skill);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Hands out free turns. Each goes to the first skill of the rotation that has not reached its
    /// share, which then moves to the end.
    fn give(&mut self, capacity: &Capacity) {
        while self.running < capacity.running.max(1) {
            let may = |skill: &PathBuf| {
                self.skills
                    .get(skill)
                    .is_some_and(|lane| lane.running < capacity.running_per_skill.max(1))
            };
            let Some(skill) =
                self.rotation.iter().position(may).and_then(|at| self.rotation.remove(at))
            else {
                return;
            };
            let Some(lane) = self.skills.get_mut(&skill) else { continue };
            let Some(waiter) = lane.waiting.pop_front() else { continue };
            lane.running += 1;
            self.running += 1;
            self.waiting -= 1;
            if !lane.waiting.is_empty() {
                self.rotation.push_back(skill);
            }
            // A receiver that is gone passes the turn on: see `QueuePlace`.
            waiter.sender.send(()).ok();
        }
    }

    fn forget_idle(&mut self, skill: &Path) {
        if self.skills.get(skill).is_some_and(|lane| lane.running == 0 && lane.waiting.is_empty()) {
            self.skills.remove(skill);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.queue.end(&self.skill);
    }
}

/// A place in the queue, until its turn comes.
struct QueuePlace {
    queue: Arc<Queue>,
    skill: PathBuf,
    ticket: u64,
    turn: Option<oneshot::Receiver<()>>,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if let Some(turn) = &mut self.turn {
            self.queue.leave(&self.skill, self.ticket, turn);
        }
    }
}

#[cfg(test)]
mod tests;

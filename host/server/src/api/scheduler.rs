//! Hands out turns to tenants in rotation, weighted by their quotas: a tenant with twice the quota of
//! running runs gets twice as many turns while both have runs in the queue. Within a tenant, runs keep
//! their order.
//!
//! Runs that compute share the cores, and more of them than cores only make each other slower. So a turn
//! comes with a core, until its run waits for something or has computed for a while. A tenant gets a turn
//! when a core is free, or when none of its own runs has one: it need not wait for the runs of others.
//!
//! A tenant floods the queue if many of its runs wait, and more than may run at once: it waits for all of them,
//! and not for this one. Such a tenant gives way, at a lower weight, while there are tenants that do not flood.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// A tenant with no more waiting runs than this does not flood the queue, however few may run at once: a tenant
/// with a large quota may have more that run.
const FEW: usize = 16;
/// How long after its turn a tenant counts as one that does not flood the queue. If all tenants flood, none
/// gives way: a lower weight helps nobody then, and reduces the throughput by a fifth.
const RECENT: Duration = Duration::from_secs(1);

/// The turns of all tenants. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Scheduler(Arc<Mutex<Turns>>);

#[derive(Default)]
struct Turns {
    /// The most turns at once.
    slots: usize,
    running: usize,
    /// The cores, and the turns that hold one.
    cores: usize,
    computing: usize,
    lanes: BTreeMap<String, Lane>,
    tickets: u64,
    /// The tenants that did not flood the queue at their last turn, and when that was.
    modest: BTreeMap<String, Instant>,
}

/// The runs of one tenant.
#[derive(Default)]
struct Lane {
    /// The most turns of the tenant at once, which is also its weight.
    quota: usize,
    running: usize,
    /// The turns of the tenant that hold a core.
    computing: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Given>)>,
    /// How many turns the tenant is owed, in units of all weights together.
    credit: i64,
}

/// How a turn was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    gives_way: bool,
}

/// A turn. Dropping it passes it on.
pub(super) struct Turn {
    core: Core,
    /// `false` while others use its slot: see [`Turn::pause`].
    has_slot: bool,
}

/// The core of a turn. Cheap to clone.
#[derive(Clone)]
pub(super) struct Core(Arc<HeldCore>);

struct HeldCore {
    scheduler: Scheduler,
    tenant: String,
    gives_way: bool,
    /// Changes only while the turns are locked.
    is_held: AtomicBool,
}

/// A place in the queue until the turn comes.
struct Place {
    scheduler: Scheduler,
    tenant: String,
    ticket: u64,
    turn: Option<oneshot::Receiver<Given>>,
}

impl Scheduler {
    pub(super) fn new(slots: usize, cores: usize) -> Scheduler {
        let (slots, cores) = (slots.max(1), cores.max(1));
        Scheduler(Arc::new(Mutex::new(Turns { slots, cores, ..Turns::default() })))
    }

    /// Enters the queue of a tenant now, and returns a future that waits for the turn. Dropping the
    /// future leaves the queue.
    pub(super) fn enter(&self, tenant: &str, quota: usize) -> impl Future<Output = Turn> + use<> {
        self.enter_at(tenant, quota, false)
    }

    fn enter_at(
        &self,
        tenant: &str,
        quota: usize,
        is_first: bool,
    ) -> impl Future<Output = Turn> + use<> {
        let (sender, receiver) = oneshot::channel();
        let mut turns = self.turns();
        turns.tickets += 1;
        let ticket = turns.tickets;
        let lane = turns.lanes.entry(tenant.to_owned()).or_default();
        lane.quota = quota.max(1);
        if is_first {
            lane.waiting.push_front((ticket, sender));
        } else {
            lane.waiting.push_back((ticket, sender));
        }
        turns.give();
        drop(turns);
        let mut place = Place {
            scheduler: self.clone(),
            tenant: tenant.to_owned(),
            ticket,
            turn: Some(receiver),
        };
        async move {
            let given = match &mut place.turn {
                // The sender lives in the queue until it is this run's turn.
                Some(turn) => turn.await.ok(),
                None => None,
            };
            place.turn = None;
            let tenant = std::mem::take(&mut place.tenant);
            Turn::new(place.scheduler.clone(), tenant, given.is_some_and(|given| given.gives_way))
        }
    }

    /// Whether the tenant floods the queue while there are tenants that do not.
    pub(super) fn gives_way(&self, tenant: &str) -> bool {
        let mut turns = self.turns();
        turns.lanes.get(tenant).is_some_and(Lane::floods) && turns.has_modest_besides(tenant)
    }

    fn end(&self, core: &HeldCore, has_slot: bool) {
        let mut turns = self.turns();
        turns.free_core(core);
        turns.running = turns.running.saturating_sub(usize::from(has_slot));
        if let Some(lane) = turns.lanes.get_mut(&core.tenant) {
            lane.running = lane.running.saturating_sub(1);
            if lane.running == 0 && lane.waiting.is_empty() {
                turns.lanes.remove(&core.tenant);
            }
        }
        turns.give();
    }

    fn leave(&self, place: &mut Place) {
        let Some(mut turn) = place.turn.take() else { return };
        let mut turns = self.turns();
        let Some(lane) = turns.lanes.get_mut(&place.tenant) else { return };
        let before = lane.waiting.len();
        lane.waiting.retain(|(ticket, _)| *ticket != place.ticket);
        if lane.waiting.len() < before {
            if lane.running == 0 && lane.waiting.is_empty() {
                turns.lanes.remove(&place.tenant);
            }
            return;
        }
        drop(turns);
        // It was this run's turn already.
        if let Ok(given) = turn.try_recv() {
            let tenant = std::mem::take(&mut place.tenant);
            drop(Turn::new(self.clone(), tenant, given.gives_way));
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    /// Hands out free turns by smooth weighted round-robin: each tenant that could use a turn earns its
    /// weight, the one with the most credit gets the turn and pays the sum of the weights.
    fn give(&mut self) {
        while self.running < self.slots {
            let has_core = self.computing < self.cores;
            let ready = |lane: &Lane| {
                !lane.waiting.is_empty()
                    && lane.running < lane.quota
                    && (has_core || lane.computing == 0)
            };
            let mut total = 0_i64;
            for lane in self.lanes.values_mut().filter(|lane| ready(lane)) {
                let weight = i64::try_from(lane.quota).unwrap_or(i64::MAX / 2);
                lane.credit += weight;
                total += weight;
            }
            let Some((tenant, lane)) = self
                .lanes
                .iter_mut()
                .filter(|(_, lane)| ready(lane))
                .reduce(|best, next| if next.1.credit > best.1.credit { next } else { best })
            else {
                return;
            };
            lane.credit -= total;
            let Some((_, sender)) = lane.waiting.pop_front() else { return };
            lane.running += 1;
            lane.computing += 1;
            let (tenant, floods) = (tenant.clone(), lane.floods());
            self.running += 1;
            self.computing += 1;
            let gives_way = floods && self.has_modest_besides(&tenant);
            if !floods {
                self.modest.insert(tenant, Instant::now());
            }
            // A receiver that is gone passes the turn on: see `Place`.
            sender.send(Given { gives_way }).ok();
        }
    }

    fn has_modest_besides(&mut self, tenant: &str) -> bool {
        self.modest.retain(|_, turn| turn.elapsed() < RECENT);
        self.modest.keys().any(|modest| modest != tenant)
    }

    fn free_core(&mut self, core: &HeldCore) {
        if core.is_held.swap(false, Ordering::Relaxed) {
            self.computing = self.computing.saturating_sub(1);
            if let Some(lane) = self.lanes.get_mut(&core.tenant) {
                lane.computing = lane.computing.saturating_sub(1);
            }
        }
    }
}

impl Lane {
    fn floods(&self) -> bool {
        self.waiting.len() > self.quota.max(FEW)
    }
}

impl Turn {
    fn new(scheduler: Scheduler, tenant: String, gives_way: bool) -> Turn {
        let is_held = AtomicBool::new(true);
        let core = Core(Arc::new(HeldCore { scheduler, tenant, gives_way, is_held }));
        Turn { core, has_slot: true }
    }

    pub(super) fn core(&self) -> Core {
        self.core.clone()
    }

    /// Lends the slot to runs of other tenants. The run still counts for its own tenant, so that no
    /// more runs of it wait for something than may run at once.
    pub(super) fn pause(&mut self) {
        if std::mem::take(&mut self.has_slot) {
            let mut turns = self.core.0.scheduler.turns();
            turns.free_core(&self.core.0);
            turns.running = turns.running.saturating_sub(1);
            turns.give();
        }
    }

    /// Waits for a slot, before the other runs of the tenant. The turn that it gets holds no core: the thread of
    /// the run watches the first one, and would not leave another.
    pub(super) async fn resume(self, quota: usize) -> Turn {
        if self.has_slot {
            return self;
        }
        let next = self.core.0.scheduler.enter_at(&self.core.0.tenant, quota, true);
        drop(self);
        let turn = next.await;
        turn.core().leave();
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.core.0.scheduler.end(&self.core.0, self.has_slot);
    }
}

impl Core {
    /// Whether the run leaves more of the processor to others, since its tenant floods the queue and another
    /// does not.
    pub(super) fn gives_way(&self) -> bool {
        self.0.gives_way
    }

    /// Leaves the core to other runs. The turn goes on.
    pub(super) fn leave(&self) {
        if self.0.is_held.load(Ordering::Relaxed) {
            let mut turns = self.0.scheduler.turns();
            turns.free_core(&self.0);
            turns.give();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let scheduler = self.scheduler.clone();
        scheduler.leave(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    /// Enters this many runs of each tenant, and returns the order of their turns, one at a time.
    fn order(tenants: &[(&str, usize, usize)]) -> String {
        let scheduler = Scheduler::new(1, 1);
        let first = scheduler.enter("first", 1).now_or_never();
        let mut waiting = Vec::new();
        for (tenant, quota, runs) in tenants {
            for _ in 0..*runs {
                waiting.push((*tenant, Box::pin(scheduler.enter(tenant, *quota))));
            }
        }
        drop(first);
        let mut order = String::new();
        while !waiting.is_empty() {
            let next = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, turn))| turn.as_mut().now_or_never().map(|turn| (at, turn)));
            let (at, turn) = next.expect("a turn is always given");
            order += waiting.remove(at).0;
            drop(turn);
        }
        order
    }

    #[test]
    fn a_flooding_tenant_does_not_delay_another() {
        assert_eq!(order(&[("a", 4, 6), ("b", 4, 2)]), "ababaaaa");
    }

    #[test]
    fn turns_are_weighted_by_quota() {
        let order = order(&[("a", 6, 12), ("b", 2, 4)]);
        let early = &order[..8];
        assert_eq!(early.matches('a').count(), 6, "{order}");
    }

    #[test]
    fn a_tenant_keeps_to_its_quota_and_leaves_room_for_others() {
        let scheduler = Scheduler::new(8, 2);
        let one = scheduler.enter("a", 1).now_or_never();
        let mut two = Box::pin(scheduler.enter("a", 1));
        assert!(one.is_some() && two.as_mut().now_or_never().is_none());
        assert!(scheduler.enter("b", 1).now_or_never().is_some());
        drop(one);
        assert!(two.as_mut().now_or_never().is_some());
    }

    #[test]
    fn a_tenant_with_a_core_waits_for_another_and_others_do_not() {
        let scheduler = Scheduler::new(8, 2);
        let enter = |tenant: &str| Box::pin(scheduler.enter(tenant, 4));
        let first = enter("a").now_or_never().unwrap();
        let second = enter("a").now_or_never().unwrap();
        let (mut third, mut fourth) = (enter("a"), enter("a"));
        assert!(third.as_mut().now_or_never().is_none(), "both cores are held");
        let other = enter("b").now_or_never().unwrap();
        let mut more = enter("b");
        assert!(more.as_mut().now_or_never().is_none());
        drop(other);
        assert!(more.as_mut().now_or_never().is_some());
        // A run that waits leaves its core once.
        first.core().leave();
        first.core().leave();
        let third = third.as_mut().now_or_never().unwrap();
        assert!(fourth.as_mut().now_or_never().is_none());
        drop((second, first));
        assert!(fourth.as_mut().now_or_never().is_some());
        drop(third);
        let turns = scheduler.turns();
        assert_eq!((turns.running, turns.computing, turns.lanes.len()), (0, 0, 0));
    }

    #[test]
    fn a_tenant_that_floods_the_queue_gives_way_to_one_that_does_not() {
        let scheduler = Scheduler::new(8, 1);
        let enter = |tenant: &str| Box::pin(scheduler.enter(tenant, 2));
        let gives_way = |turn: &Turn| turn.core().gives_way();
        let mut turn = enter("flood").now_or_never().unwrap();
        let mut flood: VecDeque<_> = (0..FEW + 6).map(|_| enter("flood")).collect();
        let mut next = |turn: &mut Turn| {
            turn.core().leave();
            *turn = flood.pop_front().unwrap().now_or_never().unwrap();
            gives_way(turn)
        };
        assert!(!next(&mut turn) && !scheduler.gives_way("flood"), "there is no other");
        let modest = enter("modest").now_or_never().unwrap();
        assert!(!gives_way(&modest) && scheduler.gives_way("flood"));
        assert!(!scheduler.gives_way("modest") && !scheduler.gives_way("unknown"));
        modest.core().leave();
        assert!(next(&mut turn));
        for last in scheduler.turns().modest.values_mut() {
            *last -= RECENT;
        }
        assert!(!next(&mut turn) && !scheduler.gives_way("flood"), "the other is gone");
        drop(enter("modest").now_or_never().unwrap());
        let waiting = scheduler.turns().lanes["flood"].waiting.len();
        for _ in FEW..waiting {
            assert!(scheduler.gives_way("flood"));
            next(&mut turn);
        }
        assert!(!scheduler.gives_way("flood"), "few wait");
    }

    #[test]
    fn a_paused_turn_is_for_other_tenants_and_continues_first() {
        let scheduler = Scheduler::new(1, 1);
        let mut paused = scheduler.enter("a", 1).now_or_never().unwrap();
        let mut own = Box::pin(scheduler.enter("a", 1));
        let mut other = Box::pin(scheduler.enter("b", 1));
        paused.pause();
        assert!(own.as_mut().now_or_never().is_none(), "the tenant keeps to its quota");
        let other = other.as_mut().now_or_never();
        let mut resumed = Box::pin(paused.resume(1));
        assert!(other.is_some() && resumed.as_mut().now_or_never().is_none());
        drop(other);
        let resumed = resumed.as_mut().now_or_never();
        assert_eq!(scheduler.turns().computing, 0);
        assert!(resumed.is_some() && own.as_mut().now_or_never().is_none());
        drop(resumed);
        assert!(own.as_mut().now_or_never().is_some());
        drop(own);
        assert!(scheduler.turns().lanes.is_empty() && scheduler.turns().running == 0);
    }

    #[test]
    fn runs_that_leave_the_queue_pass_their_turn_on() {
        let scheduler = Scheduler::new(1, 1);
        let held = scheduler.enter("a", 1).now_or_never();
        let (left, mut stays) = (scheduler.enter("a", 1), Box::pin(scheduler.enter("a", 1)));
        // Its turn comes before it is dropped.
        drop(held);
        drop(left);
        assert!(stays.as_mut().now_or_never().is_some());
        let last = scheduler.enter("a", 1);
        drop(last);
        drop(stays);
        assert!(scheduler.turns().lanes.is_empty() && scheduler.turns().running == 0);
    }
}

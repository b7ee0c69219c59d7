//! A service with a real host: which run starts when, which are refused as busy, and that a
//! disconnected caller leaves nothing behind.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::{join_all, select_all};
use skillhost::invoke::{Invocation, RunRequest, Target};
use skillhost::service::{Capacity, Service, ServiceError, ServiceLoad};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;

use crate::hostile_host::{Fixture, HANG_TIMEOUT};

const IDLE: ServiceLoad = ServiceLoad { running: 0, waiting: 0, memory: 0 };

/// A service with two skills, `hostile` and `other`, which both have the hostile component.
struct Place {
    fixture: Fixture,
    service: Service,
    skills: [PathBuf; 2],
}

impl Place {
    fn new(capacity: Capacity) -> Place {
        let fixture = Fixture::new();
        let other = fixture.path("skills/other");
        std::fs::create_dir(&other).unwrap();
        let manifest = std::fs::read_to_string(fixture.path("skills/hostile/SKILL.md")).unwrap();
        std::fs::write(other.join("SKILL.md"), manifest.replace("name: hostile", "name: other"))
            .unwrap();
        std::fs::copy(fixture.path("skills/hostile/hostile.wasm"), other.join("hostile.wasm"))
            .unwrap();
        // Compiled before anything is timed or counted.
        fixture.assert_alive();
        std::fs::remove_file(fixture.path("audit.jsonl")).unwrap();
        Place {
            service: Service::new(fixture.host.clone(), capacity),
            skills: [fixture.path("skills/hostile"), other],
            fixture,
        }
    }

    async fn invoke(
        &self,
        skill: usize,
        limits: &[(Limit, u64)],
        args: &[&str],
    ) -> Result<Invocation, ServiceError> {
        let policy = Policy::builtin()
            .with_command_line(Overrides { limits: limits.to_vec(), ..Overrides::default() })
            .unwrap();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let request = RunRequest {
            skill: (&self.skills[skill]).into(),
            policy: &policy,
            target: Target::Main,
            args,
            io: Io::default(),
        };
        self.service.invoke(request).await
    }

    async fn serves(&self, skill: usize) {
        let status = self
            .invoke(skill, &[(Limit::Memory, 64 << 20)], &["burn", "1000"])
            .await
            .unwrap()
            .finished
            .outcome
            .status;
        assert_eq!(status, Status::Exited { code: 0 });
    }

    /// Waits until the service has this load.
    async fn becomes(&self, load: ServiceLoad) {
        let started = Instant::now();
        while self.service.load() != load {
            assert!(started.elapsed() < HANG_TIMEOUT, "{:?}, not {load:?}", self.service.load());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asserts that nothing of the runs is left.
    fn assert_clean(&self) {
        assert_eq!(self.service.load(), IDLE);
        let started = Instant::now();
        loop {
            let remaining: Vec<_> = std::fs::read_dir(self.fixture.path("scratch"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            if remaining == ["outside"] {
                return;
            }
            assert!(started.elapsed() < HANG_TIMEOUT, "{remaining:?} remain");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn statuses(&self) -> Vec<(String, String)> {
        let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        self.fixture
            .audit()
            .iter()
            .map(|record| (word(&record["skill"]["name"]), word(&record["status"]["kind"])))
            .collect()
    }
}

fn on_one_thread(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        tokio::time::timeout(HANG_TIMEOUT, work).await.expect("the service ends");
    });
}

fn is_busy(result: &Result<Invocation, ServiceError>) -> bool {
    matches!(result, Err(ServiceError::Busy { .. } | ServiceError::SkillBusy { .. }))
}

#[test]
fn runs_of_different_skills_take_turns() {
    let place = Place::new(Capacity { running: 1, ..Capacity::default() });
    let order = Mutex::new(Vec::new());
    on_one_thread(async {
        let one = |skill| {
            let (place, order) = (&place, &order);
            async move {
                place.serves(skill).await;
                order.lock().unwrap().push(skill);
            }
        };
        let mut first = Box::pin(place.invoke(0, &[(Limit::Timeout, 200)], &["sleep"]));
        assert!(futures::poll!(&mut first).is_pending());
        // Polled in this order: five runs of one skill are queued before the other comes.
        let (first, _) = tokio::join!(first, join_all([0, 0, 0, 0, 0, 1, 1].map(one)));
        assert!(first.is_ok());
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 0, 1, 0, 0, 0]);
    place.assert_clean();
}

#[test]
fn a_full_service_is_busy_until_a_run_ends() {
    let place = Place::new(Capacity {
        running: 1,
        running_per_skill: 1,
        waiting: 2,
        waiting_per_skill: 1,
        ..Capacity::default()
    });
    on_one_thread(async {
        let mut first = Box::pin(place.invoke(0, &[], &["sleep"]));
        let mut second = Box::pin(place.invoke(0, &[], &["burn", "1000"]));
        let mut third = Box::pin(place.invoke(1, &[], &["burn", "1000"]));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(futures::poll!(waiting).is_pending());
        }
        let of_skill = place.invoke(0, &[], &["burn", "1"]).await;
        assert!(matches!(of_skill, Err(ServiceError::Busy { waiting: 2 })), "{:?}", of_skill.err());
        drop(third);
        let of_skill = place.invoke(0, &[], &["burn", "1"]).await;
        assert!(
            matches!(of_skill, Err(ServiceError::SkillBusy { waiting: 1 })),
            "{:?}",
            of_skill.as_ref().err()
        );
        assert!(of_skill.err().unwrap().to_string().starts_with("busy: "));
        // The first is dropped, so the second gets its turn.
        drop(first);
        assert_eq!(second.await.unwrap().finished.outcome.status, Status::Exited { code: 0 });
        place.serves(1).await;
    });
    // A refused request did not run.
    assert_eq!(
        place.statuses(),
        [("hostile", "interrupted"), ("hostile", "exited"), ("other", "exited")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    place.assert_clean();
}

#[test]
fn memory_is_reserved_before_a_run() {
    let place = Place::new(Capacity { memory: 100 << 20, ..Capacity::default() });
    let of = |mib: u64| [(Limit::Memory, mib << 20)];
    on_one_thread(async {
        let (large, small) = (of(64), of(32));
        let mut first = Box::pin(place.invoke(0, &large, &["sleep"]));
        assert!(futures::poll!(&mut first).is_pending());
        assert_eq!(place.service.load(), ServiceLoad { running: 1, waiting: 0, memory: 64 << 20 });
        let mut second = Box::pin(place.invoke(0, &large, &["burn", "1000"]));
        let mut third = Box::pin(place.invoke(1, &small, &["burn", "1000"]));
        assert!(
            futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending()
        );
        let waited = tokio::time::timeout(
            Duration::from_millis(300),
            futures::future::select(&mut second, &mut third),
        )
        .await;
        assert!(
            waited.is_err(),
            "neither starts: the second does not fit into memory, and the third must wait for it"
        );
        drop(first);
        assert_eq!(second.await.unwrap().finished.outcome.status, Status::Exited { code: 0 });
        assert_eq!(third.await.unwrap().finished.outcome.status, Status::Exited { code: 0 });
        // A run that needs all the memory is served; a larger one never is.
        assert!(place.invoke(0, &of(100), &["burn", "1"]).await.is_ok());
        let never = place.invoke(0, &of(101), &["burn", "1"]).await;
        assert!(
            matches!(never, Err(ServiceError::Memory { needs, capacity }) if needs == 101 << 20 && capacity == 100 << 20)
        );
    });
    assert_eq!(place.statuses().len(), 4);
    place.assert_clean();
}

#[test]
fn spinning_guests_do_not_block_others() {
    let place = Place::new(Capacity { running: 4, running_per_skill: 3, ..Capacity::default() });
    on_one_thread(async {
        // More runs than may start: the rest waits without taking turns from the other skill.
        let mut spinning = select_all(
            (0..6).map(|_| Box::pin(place.invoke(0, &[(Limit::Timeout, 100_000)], &["spin"]))),
        );
        assert!(futures::poll!(&mut spinning).is_pending());
        assert_eq!((place.service.load().running, place.service.load().waiting), (3, 3));
        let mut served = pin!(async {
            for _ in 0..5 {
                place.serves(1).await;
            }
        });
        tokio::select! {
            biased;
            (spun, ..) = &mut spinning => panic!("the other was not served before {:?}", spun.map(|spun| spun.finished.outcome.status)),
            () = &mut served => {}
        }
    });
    assert_eq!(place.statuses().iter().filter(|(name, _)| name == "other").count(), 5);
    place.assert_clean();
}

#[test]
fn dropped_requests_are_cleaned_up() {
    let place = Place::new(Capacity {
        running: 3,
        running_per_skill: 3,
        memory: 128 << 20,
        ..Capacity::default()
    });
    on_one_thread(async {
        let limits = [(Limit::Memory, 64 << 20)];
        for args in [&["sleep"][..], &["spin"], &["start", "1", "sleep"], &["files", "/tmp"]] {
            // Two run, one waits for memory, two for a turn.
            let mut all = select_all((0..5).map(|_| Box::pin(place.invoke(0, &limits, args))));
            tokio::select! {
                biased;
                (result, ..) = &mut all => panic!("{args:?}: {:?}", result.map(|finished| finished.finished.outcome.status)),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            assert_eq!(
                place.service.load(),
                ServiceLoad { running: 3, waiting: 2, memory: 128 << 20 }
            );
            drop(all);
            assert_eq!(place.service.load(), IDLE);
        }
        place.serves(0).await;
        // A started guest ends at its next epoch.
        let started = Instant::now();
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            assert!(started.elapsed() < HANG_TIMEOUT, "tasks remain");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let statuses = place.statuses();
    assert_eq!(
        statuses.iter().filter(|(_, kind)| kind == "interrupted").count(),
        4 * 2,
        "only started runs are recorded: {statuses:?}"
    );
    place.assert_clean();
}

#[test]
fn a_closing_service_waits_for_runs_and_refuses_more() {
    let place = Place::new(Capacity { running: 1, running_per_skill: 1, ..Capacity::default() });
    on_one_thread(async {
        let mut running = Box::pin(place.invoke(0, &[(Limit::Timeout, 500)], &["sleep"]));
        let mut waiting = Box::pin(place.invoke(0, &[], &["burn", "1000"]));
        assert!(
            futures::poll!(&mut running).is_pending() && futures::poll!(&mut waiting).is_pending()
        );
        let (finished, refused, ()) = tokio::join!(running, waiting, place.service.close());
        assert!(
            matches!(finished.unwrap().finished.outcome.status, Status::LimitHit(hit) if hit.limit == Limit::Timeout)
        );
        assert!(matches!(refused, Err(ServiceError::Closed)));
        assert!(matches!(place.invoke(1, &[], &["burn", "1"]).await, Err(ServiceError::Closed)));
        place.becomes(IDLE).await;
    });
    assert_eq!(place.statuses().len(), 1);
}

#[test]
fn many_callers_are_all_served_or_refused() {
    let place = Place::new(Capacity {
        running: 3,
        running_per_skill: 2,
        waiting: 20,
        waiting_per_skill: 15,
        memory: 1 << 30,
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let attacks: [&[&str]; 5] =
        [&["burn", "1000"], &["trap"], &["spin"], &["sleep"], &["exit", "3"]];
    let results = runtime.block_on(async {
        let one = |number: usize| {
            place.invoke(
                number % 2,
                &[(Limit::Timeout, 100), (Limit::Memory, 64 << 20)],
                attacks[number % attacks.len()],
            )
        };
        tokio::time::timeout(HANG_TIMEOUT, join_all((0..60).map(one))).await.expect("all runs end")
    });
    let busy = results.iter().filter(|result| is_busy(result)).count();
    assert!(busy > 0 && busy < 60, "{busy} were refused");
    let ran = results.into_iter().filter_map(Result::ok).count();
    assert_eq!(ran + busy, 60);
    assert_eq!(place.statuses().len(), ran);
    place.assert_clean();
    // Its memory and its turns are available again.
    runtime.block_on(place.serves(0));
}

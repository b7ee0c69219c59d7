//! Tests of turns without real runs.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::*;

fn queue(running: usize, per_skill: usize, waiting: usize, waiting_per_skill: usize) -> Arc<Queue> {
    let capacity =
        Capacity { running, running_per_skill: per_skill, waiting, waiting_per_skill, memory: 0 };
    Queue::new(capacity)
}

fn wait(queue: &Arc<Queue>, skill: &'static str) -> BoxFuture<'static, Result<Turn, QueueError>> {
    let queue = queue.clone();
    let mut turn = async move { queue.turn(Path::new(skill)).await }.boxed();
    assert!((&mut turn).now_or_never().is_none(), "{skill} had to wait");
    turn
}

fn at_once(queue: &Arc<Queue>, skill: &str) -> Result<Turn, QueueError> {
    queue.turn(Path::new(skill)).now_or_never().expect("the turn is decided immediately")
}

#[test]
fn skills_take_turns_whatever_the_order_of_arrival() {
    let queue = queue(1, 1, 100, 100);
    let first = at_once(&queue, "a").unwrap();
    let mut waiting: Vec<_> = ["a", "a", "a", "b", "b", "c"]
        .into_iter()
        .map(|skill| (skill, wait(&queue, skill)))
        .collect();
    assert_eq!(queue.counts(), (1, 6));
    let mut order = Vec::new();
    let mut running = Some(first);
    while !waiting.is_empty() {
        drop(running.take());
        let ready = waiting
            .iter_mut()
            .enumerate()
            .find_map(|(at, (_, turn))| turn.now_or_never().map(|turn| (at, turn.unwrap())));
        let (at, turn) = ready.expect("one run has its turn");
        order.push(waiting.remove(at).0);
        running = Some(turn);
        assert_eq!(queue.counts().0, 1);
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    drop(running);
    assert_eq!(queue.counts(), (0, 0));
    assert!(queue.state().skills.is_empty() && queue.state().rotation.is_empty());
}

#[test]
fn one_skill_never_gets_all_turns() {
    let queue = queue(4, 3, 100, 100);
    let mut held: Vec<_> = (0..3).map(|_| at_once(&queue, "greedy").unwrap()).collect();
    let mut more = wait(&queue, "greedy");
    let other = at_once(&queue, "other").unwrap();
    drop(other);
    assert!((&mut more).now_or_never().is_none(), "what another gave back is not for it");
    held.pop();
    assert!(more.now_or_never().unwrap().is_ok());
}

#[test]
fn a_full_queue_refuses_at_once() {
    let queue = queue(1, 1, 3, 2);
    let running = at_once(&queue, "a").unwrap();
    let _of_a = [wait(&queue, "a"), wait(&queue, "a")];
    assert_eq!(at_once(&queue, "a").unwrap_err(), QueueError::SkillFull(2));
    let of_b = wait(&queue, "b");
    assert_eq!(at_once(&queue, "b").unwrap_err(), QueueError::Full(3));
    // A run that ends makes room.
    drop(of_b);
    let _of_c = wait(&queue, "c");
    drop(running);
    assert_eq!(queue.counts(), (1, 2));
    // No run waits if none may.
    let none = self::queue(1, 1, 0, 0);
    let _turn = at_once(&none, "a").unwrap();
    assert_eq!(at_once(&none, "a").unwrap_err(), QueueError::Full(0));
}

#[test]
fn leaving_the_queue_returns_an_unclaimed_turn() {
    let queue = queue(1, 1, 10, 10);
    let running = at_once(&queue, "a").unwrap();
    let (second, third) = (wait(&queue, "a"), wait(&queue, "b"));
    drop(running);
    // It has its turn but was not polled.
    drop(second);
    assert!(third.now_or_never().unwrap().is_ok());
    assert_eq!(queue.counts(), (0, 0));
}

#[tokio::test]
async fn a_closed_queue_refuses_and_waits_for_the_last_turn() {
    let queue = queue(1, 1, 10, 10);
    let running = at_once(&queue, "a").unwrap();
    let (first, second) = (wait(&queue, "a"), wait(&queue, "b"));
    drop(running);
    queue.close();
    assert_eq!(second.await.unwrap_err(), QueueError::Closed);
    assert_eq!(at_once(&queue, "a").unwrap_err(), QueueError::Closed);
    assert_eq!(queue.counts(), (1, 0), "one run already has its turn");
    let idle = tokio::spawn({
        let queue = queue.clone();
        async move { queue.idle().await }
    });
    tokio::task::yield_now().await;
    assert!(!idle.is_finished());
    drop(first);
    tokio::time::timeout(Duration::from_secs(60), idle).await.unwrap().unwrap();
    assert_eq!(queue.counts(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_turn_is_returned() {
    let queue = queue(3, 2, 50, 20);
    let tasks: Vec<_> = (0..400u64)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let skill = ["a", "b", "c", "d"][(number % 4) as usize];
                let wait = queue.turn(Path::new(skill));
                // A third times out, some exactly at their turn.
                let turn = match number % 3 {
                    0 => tokio::time::timeout(Duration::from_micros(number), wait).await.ok(),
                    _ => Some(wait.await),
                };
                if let Some(Ok(turn)) = turn {
                    assert!(queue.counts().0 <= 3);
                    tokio::task::yield_now().await;
                    drop(turn);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(queue.counts(), (0, 0));
    assert!(queue.state().skills.is_empty() && queue.state().rotation.is_empty());
}

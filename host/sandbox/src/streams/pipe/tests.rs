//! Tests of pipes.

use std::task::Waker;

use super::*;
use skillhost_policy::limits::Limits;

fn made() -> (Reader, Writer) {
    pipe(&Meter::new(Limits::default(), false)).unwrap()
}

fn put(writer: &mut Writer, bytes: &[u8]) -> Poll<Result<usize, io::ErrorKind>> {
    writer.poll_write(&Context::from_waker(Waker::noop()), bytes).map_err(|error| error.kind())
}

fn take(reader: &mut Reader, max: usize) -> Poll<Vec<u8>> {
    reader.poll_read(&Context::from_waker(Waker::noop()), max)
}

#[test]
fn data_is_read_in_order_until_the_writer_closes() {
    let (mut reader, mut writer) = made();
    assert_eq!(take(&mut reader, 10), Poll::Pending);
    assert_eq!(put(&mut writer, b"one"), Poll::Ready(Ok(3)));
    assert_eq!(put(&mut writer, b"two"), Poll::Ready(Ok(3)));
    assert_eq!(take(&mut reader, 4), Poll::Ready(b"onet".to_vec()));
    let second = writer.clone();
    drop(writer);
    assert_eq!(take(&mut reader, 4), Poll::Ready(b"wo".to_vec()));
    assert_eq!(take(&mut reader, 4), Poll::Pending);
    drop(second);
    assert_eq!(take(&mut reader, 4), Poll::Ready(Vec::new()));
}

#[test]
fn full_pipe_blocks_and_short_writes_are_atomic() {
    let (mut reader, mut writer) = made();
    assert_eq!(put(&mut writer, &vec![1; 2 * CAPACITY]), Poll::Ready(Ok(CAPACITY)));
    assert_eq!(put(&mut writer, b"x"), Poll::Pending);
    assert_eq!(take(&mut reader, 100), Poll::Ready(vec![1; 100]));
    assert_eq!(put(&mut writer, &[2; 101]), Poll::Pending);
    assert_eq!(put(&mut writer, &[2; 100]), Poll::Ready(Ok(100)));
    assert_eq!(writer.room().unwrap(), 0);
}

#[test]
fn writing_without_a_reader_is_a_broken_pipe() {
    let (reader, mut writer) = made();
    drop(reader.clone());
    assert_eq!(put(&mut writer, b"x"), Poll::Ready(Ok(1)));
    drop(reader);
    assert_eq!(put(&mut writer, b"x"), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
}

#[test]
fn pipe_counts_as_memory_until_both_ends_are_closed() {
    let meter = Meter::new(Limits { memory: 2 * CAPACITY as u64, ..Limits::default() }, false);
    let (reader, _writer) = pipe(&meter).unwrap();
    let other = pipe(&meter).unwrap();
    assert!(pipe(&meter).is_none());
    drop(reader);
    assert!(pipe(&meter).is_none());
    drop(other);
    assert!(pipe(&meter).is_some());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn all_waiters_are_woken_and_dropped_ones_are_forgotten() {
    let (reader, mut writer) = made();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut waiting: Vec<Reader> = (0..3).map(|_| reader.clone()).collect();
    for reader in &mut waiting {
        assert!(reader.poll_read(&Context::from_waker(&waker), 1).is_pending());
        assert!(reader.poll_ready(&Context::from_waker(&waker)).is_pending());
    }
    waiting.pop();
    // One for each waiter, and the waker here.
    assert_eq!(Arc::strong_count(&count), 2 + 2);
    assert_eq!(put(&mut writer, b"x"), Poll::Ready(Ok(1)));
    assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(Arc::strong_count(&count), 2);
}

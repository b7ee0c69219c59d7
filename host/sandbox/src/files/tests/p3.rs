//! Streams of WASI 0.3 in a real store, with the host in the guest's role.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use wasmtime::component::{
    Access, FutureConsumer, FutureReader, Lift, Resource, ResourceTable, Source, StreamConsumer,
    StreamReader, StreamResult,
};
use wasmtime::{Config, Engine, Store, StoreContextMut};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    DirectoryEntry, ErrorCode, HostDescriptorWithStore,
};

use super::support::*;
use super::*;
use skillhost_policy::limits::Limits;

struct State {
    vfs: Arc<Vfs>,
    table: ResourceTable,
}

type Slot<T> = Arc<Mutex<Vec<T>>>;

/// Collects all items.
struct Collect<T>(Slot<T>);

impl<D, T: Lift + Send + 'static> StreamConsumer<D> for Collect<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut items = Vec::with_capacity(source.remaining(&mut store));
        source.read(&mut store, &mut items)?;
        lock(&self.0).extend(items);
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl<D, T: Lift + Send + 'static> FutureConsumer<D> for Collect<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut items = Vec::with_capacity(1);
        source.read(&mut store, &mut items)?;
        lock(&self.0).extend(items);
        Poll::Ready(Ok(()))
    }
}

type Ended = Result<(), ErrorCode>;

/// Calls `act` with the descriptor of `path`, and waits for the future that it returns.
async fn run(
    guest: &Guest,
    path: &str,
    options: OpenOptions,
    act: impl FnOnce(
        &mut Access<'_, State, Files>,
        Resource<Descriptor>,
    ) -> wasmtime::Result<FutureReader<Ended>>,
) -> Ended {
    let mut config = Config::new();
    config.wasm_component_model_async(true);
    let engine = Engine::new(&config).unwrap();
    let mut store =
        Store::new(&engine, State { vfs: guest.vfs.clone(), table: ResourceTable::new() });
    let handle = guest.open(path, options).unwrap();
    let ended = Slot::<Ended>::default();
    let run = store.run_concurrent(async |accessor| {
        let accessor = accessor
            .with_getter::<Files>(|state| FsView { vfs: &state.vfs, table: &mut state.table });
        accessor.with(|mut access| {
            let fd = access.get().push(handle).unwrap();
            let future = act(&mut access, fd).unwrap();
            future.pipe(&mut access, Collect(ended.clone())).unwrap();
        });
        while lock(&ended).is_empty() {
            tokio::task::yield_now().await;
        }
    });
    tokio::time::timeout(std::time::Duration::from_secs(20), run).await.unwrap().unwrap();
    let mut ended = lock(&ended);
    ended.remove(0)
}

/// Reborrows the access, which the bindings take by value.
fn again<'a>(access: &'a mut Access<'_, State, Files>) -> Access<'a, State, Files> {
    use wasmtime::AsContextMut;
    Access::new(access.as_context_mut(), |state| FsView {
        vfs: &state.vfs,
        table: &mut state.table,
    })
}

async fn write(guest: &Guest, path: &str, bytes: Vec<u8>, offset: Option<u64>) -> Ended {
    run(guest, path, OpenOptions { truncate: false, ..WRITE }, |access, fd| {
        let data = StreamReader::new(&mut *access, bytes)?;
        match offset {
            Some(offset) => Files::write_via_stream(again(access), fd, data, offset),
            None => Files::append_via_stream(again(access), fd, data),
        }
    })
    .await
}

#[tokio::test]
async fn stream_writes_reach_the_file() {
    let guest = Grant::default().guest(|_| {});
    write(&guest, "/workspace/f", b"hello".to_vec(), Some(0)).await.unwrap();
    write(&guest, "/workspace/f", b" world".to_vec(), None).await.unwrap();
    write(&guest, "/workspace/f", b"J".to_vec(), Some(0)).await.unwrap();
    assert_eq!(guest.read("/workspace/f").unwrap(), "Jello world");
}

#[tokio::test]
async fn streams_read_a_file_to_its_end() {
    let guest = Grant::default().guest(|_| {});
    let text = "0123456789".repeat(50_000);
    guest.write("/workspace/f", &text).unwrap();
    let got = Slot::<u8>::default();
    let ended = run(&guest, "/workspace/f", READ, |access, fd| {
        let (stream, ended) = Files::read_via_stream(again(access), fd, 3)?;
        stream.pipe(&mut *access, Collect(got.clone()))?;
        Ok(ended)
    });
    ended.await.unwrap();
    assert_eq!(*lock(&got), text.as_bytes()[3..]);
}

#[tokio::test]
async fn streams_over_the_quota_end_with_insufficient_space() {
    let guest = Grant { limits: Limits { disk: 10, ..Limits::default() }, ..Grant::default() }
        .guest(|_| {});
    let ended = write(&guest, "/workspace/f", vec![b'x'; 100], Some(0)).await;
    assert!(matches!(ended, Err(ErrorCode::InsufficientSpace)), "{ended:?}");
    assert_eq!(guest.read("/workspace/f").unwrap(), "x".repeat(10));
    assert_eq!(guest.vfs.hit(), Some(Limit::Disk));
}

#[tokio::test]
async fn streams_on_unsuitable_handles_end_with_an_error() {
    let guest = Grant::default().guest(|_| {});
    guest.write("/workspace/f", "x").unwrap();
    let ended = run(&guest, "/workspace/f", READ, |access, fd| {
        let data = StreamReader::new(&mut *access, b"y".to_vec())?;
        Files::write_via_stream(again(access), fd, data, 0)
    });
    assert!(matches!(ended.await, Err(ErrorCode::BadDescriptor)));
    let ended = run(&guest, "/workspace/f", UPDATE, |access, fd| {
        Ok(Files::read_directory(again(access), fd)?.1)
    });
    assert!(matches!(ended.await, Err(ErrorCode::NotDirectory)));
    assert_eq!(guest.read("/workspace/f").unwrap(), "x");
}

#[tokio::test]
async fn large_folders_are_listed_completely_and_sorted() {
    let guest = Grant::default().guest(|_| {});
    let names: BTreeMap<String, ()> = (0..700).map(|i| (format!("f{i}"), ())).collect();
    for name in names.keys() {
        guest.write(&format!("/workspace/{name}"), "").unwrap();
    }
    let got = Slot::<DirectoryEntry>::default();
    let ended = run(&guest, "/workspace", FOLDER, |access, fd| {
        let (stream, ended) = Files::read_directory(again(access), fd)?;
        stream.pipe(&mut *access, Collect(got.clone()))?;
        Ok(ended)
    });
    ended.await.unwrap();
    assert!(lock(&got).iter().map(|entry| &entry.name).eq(names.keys()));
}

#[tokio::test]
async fn devices_work_through_streams() {
    let guest =
        Grant { limits: Limits { disk: 0, ..Limits::default() }, ..Grant::default() }.guest(|_| {});
    write(&guest, "/dev/null", vec![b'x'; 1 << 20], Some(0)).await.unwrap();
    let got = Slot::<u8>::default();
    let ended = run(&guest, "/dev/null", READ, |access, fd| {
        let (stream, ended) = Files::read_via_stream(again(access), fd, 0)?;
        stream.pipe(&mut *access, Collect(got.clone()))?;
        Ok(ended)
    });
    ended.await.unwrap();
    assert_eq!(*lock(&got), b"");
    assert_eq!(guest.vfs.hit(), None);
}

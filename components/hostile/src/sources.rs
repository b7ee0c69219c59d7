//! Everything that can differ between runs, through both versions of WASI. A deterministic host
//! returns the same values each time.

use std::hint::black_box;

use crate::bindings::{new, old};
use crate::loads::done;
use crate::report::Report;

/// Prints random bytes and words, secure and insecure, and seeds.
pub(crate) async fn randomness(_: &[String]) -> Report {
    let mut report = done("asked");
    for turn in 0..3 {
        let new = (
            new::wasi::random::random::get_random_bytes(5 + turn),
            new::wasi::random::random::get_random_u64(),
            new::wasi::random::insecure::get_insecure_random_bytes(3),
            new::wasi::random::insecure::get_insecure_random_u64(),
            new::wasi::random::insecure_seed::get_insecure_seed(),
        );
        let old = (
            old::wasi::random::random::get_random_bytes(5 + turn),
            old::wasi::random::random::get_random_u64(),
            old::wasi::random::insecure::get_insecure_random_bytes(3),
            old::wasi::random::insecure::get_insecure_random_u64(),
            old::wasi::random::insecure_seed::insecure_seed(),
        );
        report.answer(format!("{turn}: 0.3 {new:?}, 0.2 {old:?}"));
    }
    report
}

/// Prints the clocks before and after waits of hours, through both versions alternately.
pub(crate) async fn clocks(_: &[String]) -> Report {
    use new::wasi::clocks::{monotonic_clock, system_clock};
    use old::wasi::clocks::{monotonic_clock as old_monotonic, wall_clock};
    const HOUR: u64 = 3_600_000_000_000;
    let mut report = done("asked");
    let mut look = |when: &str| {
        let steps = (
            system_clock::get_resolution(),
            monotonic_clock::get_resolution(),
            wall_clock::resolution(),
            old_monotonic::resolution(),
        );
        let now =
            (system_clock::now(), monotonic_clock::now(), wall_clock::now(), old_monotonic::now());
        report.answer(format!("{when}: {now:?} {steps:?}"));
    };
    look("1 first");
    monotonic_clock::wait_for(HOUR).await;
    look("2 after an hour");
    old_monotonic::subscribe_duration(HOUR).block();
    look("3 after another");
    monotonic_clock::wait_until(monotonic_clock::now() + HOUR).await;
    look("4 after a third");
    old_monotonic::subscribe_instant(old_monotonic::now() + HOUR).block();
    look("5 after a fourth");
    monotonic_clock::wait_for(0).await;
    old_monotonic::subscribe_instant(0).block();
    look("6 after none");
    // Waits that are due at the same time are listed in order; later ones are not listed.
    let alarms = [7, 3, 3, 9].map(|hours| old_monotonic::subscribe_duration(hours * HOUR));
    let ready = old::wasi::io::poll::poll(&alarms.iter().collect::<Vec<_>>());
    look("7 after the shortest");
    report.answer(format!("ready: {ready:?}"));
    report
}

/// Waits concurrently. The durations determine which wait ends first.
pub(crate) async fn waits(_: &[String]) -> Report {
    use new::wasi::clocks::monotonic_clock::{now, wait_for};
    let order = std::cell::RefCell::new(Vec::new());
    let wait = async |name: &'static str, times: u64, nanos: u64| {
        for turn in 0..times {
            wait_for(nanos).await;
            order.borrow_mut().push(format!("{name}{turn} at {}", now()));
        }
    };
    crate::together::all(
        [
            wait("a", 5, 7_000_000),
            wait("b", 3, 11_000_000),
            wait("c", 9, 5_000_000),
            wait("d", 4, 0),
        ]
        .map(Box::pin),
    )
    .await;
    done(order.borrow().join(", "))
}

/// Prints listings of folders and the metadata of each file: identity and times, by handle and by
/// path, before and after a change.
pub(crate) async fn files(args: &[String]) -> Report {
    use new::wasi::filesystem::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags};
    let folder = args.first().map_or("/workspace", String::as_str);
    let mut report = done("asked");
    for (base, name) in new::wasi::filesystem::preopens::get_directories() {
        report.answer(format!("{name}: {:?} {:?}", base.stat().await, base.metadata_hash().await));
        if name != folder {
            continue;
        }
        let (entries, _) = base.read_directory();
        let entries = entries.collect().await;
        report.answer(format!("{name} holds {entries:?}"));
        for entry in &entries {
            let path = entry.name.clone();
            let stat = base.stat_at(PathFlags::empty(), path.clone()).await;
            report.answer(format!(
                "{name}/{path}: {stat:?} {:?}",
                base.metadata_hash_at(PathFlags::empty(), path.clone()).await
            ));
        }
        let made = base
            .open_at(
                PathFlags::empty(),
                "made".into(),
                OpenFlags::CREATE,
                DescriptorFlags::WRITE | DescriptorFlags::READ,
            )
            .await;
        let Ok(made) = made else { continue };
        report.answer(format!("made: {:?} {:?}", made.stat().await, made.metadata_hash().await));
        new::wasi::clocks::monotonic_clock::wait_for(1_000_000_000).await;
        report.answer(format!(
            "cut a second later: {:?} {:?}",
            made.set_size(10).await,
            made.stat().await
        ));
        new::wasi::clocks::monotonic_clock::wait_for(1_000_000_000).await;
        let touched = made.set_times(NewTimestamp::NoChange, NewTimestamp::Now).await;
        report.answer(format!(
            "touched a second later: {touched:?} {:?} {:?}",
            made.stat().await,
            base.stat().await
        ));
    }
    for (base, name) in old::wasi::filesystem::preopens::get_directories() {
        report.answer(format!("0.2 {name}: {:?} {:?}", base.stat(), base.metadata_hash()));
        if let (true, Ok(entries)) = (name == folder, base.read_directory()) {
            let names: Vec<_> =
                std::iter::from_fn(|| entries.read_directory_entry().ok().flatten()).collect();
            report.answer(format!("0.2 {name} holds {names:?}"));
        }
    }
    report
}

/// Prints the bits of NaN results.
#[expect(clippy::eq_op, reason = "each operation that yields NaN")]
pub(crate) async fn floats(_: &[String]) -> Report {
    let (zero, infinity, quiet) = (
        black_box(0.0_f64),
        black_box(f64::INFINITY),
        black_box(f64::from_bits(0xfff8_dead_beef_0001)),
    );
    let doubles = [
        zero / zero,
        infinity - infinity,
        zero * infinity,
        quiet + 1.0,
        1.0 - quiet,
        quiet * quiet,
        quiet.min(1.0),
        (-1.0 - zero).sqrt(),
    ];
    let (zero, infinity, quiet) =
        (black_box(0.0_f32), black_box(f32::INFINITY), black_box(f32::from_bits(0xffc1_2345)));
    let floats = [
        zero / zero,
        infinity - infinity,
        zero * infinity,
        quiet + 1.0,
        1.0 - quiet,
        quiet * quiet,
        quiet.max(1.0),
        (-1.0 - zero).sqrt(),
    ];
    let turned = [
        f64::from(quiet).to_bits(),
        u64::from((f64::from_bits(0x7ff8_0000_0000_1234) as f32).to_bits()),
    ];
    let (doubles, floats) = (doubles.map(f64::to_bits), floats.map(f32::to_bits));
    done(format!("{doubles:x?} {floats:x?} {turned:x?}"))
}

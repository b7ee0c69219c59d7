//! One process, measured from outside: wall time, CPU time of it and of all that it waited for, and
//! the memory of its tree.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_toolchain::Error;
use wait4::Wait4 as _;

/// What one run took, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) wall: u64,
    pub(crate) cpu: u64,
}

/// Runs a command to its end. Its output goes nowhere: what reads it would run on its cores.
///
/// # Errors
/// It does not start, or does not end with 0.
pub(crate) fn run(command: &mut Command) -> Result<Sample, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().map_err(Error::context(shown(command)))?;
    let used = child.wait4().map_err(Error::context(shown(command)))?;
    let wall = nanoseconds(start.elapsed());
    if !used.status.success() {
        return Err(Error::new(format!("{}: {}", shown(command), used.status)));
    }
    Ok(Sample { wall, cpu: nanoseconds(used.rusage.utime + used.rusage.stime) })
}

/// Runs a command to its end, and returns what it printed.
///
/// # Errors
/// It does not start, or does not end with 0; with what it said.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(Error::context(shown(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        let said = text(&output.stderr);
        let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        return Err(Error::new(format!("{}: {}: {said}", shown(command), output.status)));
    }
    Ok(text(&output.stdout))
}

/// Runs a command and returns the resident memory of its processes at its peak, in bytes, as far as
/// it can be told by looking often.
///
/// The kernel's own answer, `ru_maxrss`, is of no use: it counts what the parent had when it
/// started the child.
pub(crate) fn memory(command: &mut Command) -> Result<u64, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(Error::context(shown(command)))?;
    let mut peak = 0;
    while child.try_wait().map_err(Error::context(shown(command)))?.is_none() {
        let tree = tree(child.id());
        let status = tree.iter().map(|pid| status(*pid)).collect::<Vec<_>>();
        let at_once = status.iter().map(|fields| fields.get("VmRSS").copied().unwrap_or(0)).sum();
        let largest =
            status.iter().filter_map(|fields| fields.get("VmHWM").copied()).max().unwrap_or(0);
        peak = peak.max(at_once).max(largest);
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(peak)
}

/// A process and its descendants, those of other namespaces included.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Memory that belongs to this process alone, in bytes.
pub(crate) fn private(pid: u32) -> u64 {
    let fields = fields(&read(&format!("/proc/{pid}/smaps_rollup")));
    ["Private_Clean", "Private_Dirty"].iter().filter_map(|key| fields.get(*key)).sum()
}

/// Resident memory of a process and its descendants, in bytes.
pub(crate) fn resident(root: u32) -> u64 {
    tree(root).into_iter().filter_map(|pid| status(pid).get("VmRSS").copied()).sum()
}

fn status(pid: u32) -> BTreeMap<String, u64> {
    fields(&read(&format!("/proc/{pid}/status")))
}

/// The lines `Key:  N kB` of a file of /proc, in bytes.
pub(crate) fn fields(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let value: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((key.to_owned(), value * 1024))
    };
    text.lines().filter_map(line).collect()
}

/// Of a process that has just ended there is nothing.
fn read(path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(path) {
        drop(file.read_to_string(&mut text));
    }
    text
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    program.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_measured_and_a_failure_says_why() {
        let sample = run(Command::new("/bin/sh")
            .args(["-c", "while [ $((i = ${i:-0} + 1)) -lt 20000 ]; do :; done"]))
        .unwrap();
        assert!(sample.cpu > 0 && sample.wall > 0);
        assert!(run(Command::new("/bin/sh").args(["-c", "exit 3"])).is_err());
        let error = output(Command::new("/bin/sh").args(["-c", "echo no such thing >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no such thing"), "{error}");
    }

    #[test]
    fn memory_is_that_of_the_processes_that_are_alive_at_once() {
        let one = memory(Command::new("/bin/sh").args(["-c", "sleep 0.2"])).unwrap();
        let five = memory(
            Command::new("/bin/sh")
                .args(["-c", "sleep 0.4 & sleep 0.4 & sleep 0.4 & sleep 0.4 & wait"]),
        )
        .unwrap();
        assert!(one > 256 << 10 && five > one, "{one} {five}");
    }

    #[test]
    fn fields_of_proc_are_bytes() {
        let read = fields("Name:\tx\nVmHWM:\t    12 kB\nThreads: 1\nPrivate_Dirty:   3 kB\n");
        assert_eq!(
            read,
            BTreeMap::from([
                ("VmHWM".to_owned(), 12 * 1024),
                ("Private_Dirty".to_owned(), 3 * 1024)
            ])
        );
    }
}

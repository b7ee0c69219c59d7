//! Measures a process from outside: its wall time, the CPU time of it and of the children that it
//! waited for, and the memory of its process tree.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_toolchain::Error;
use wait4::Wait4 as _;

/// The times of one run, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) wall: u64,
    pub(crate) cpu: u64,
}

/// Runs a command and measures it. Discards its output, because a reader would use its cores.
///
/// # Errors
/// Returns an error if the command does not start or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<Sample, Error> {
    let start = Instant::now();
    let mut child = spawn_silent(command)?;
    let used = child.wait4().map_err(Error::context(program(command)))?;
    let wall = nanoseconds(start);
    if !used.status.success() {
        return Err(Error::new(format!("{}: {}", program(command), used.status)));
    }
    let cpu = used.rusage.utime + used.rusage.stime;
    Ok(Sample { wall, cpu: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX) })
}

/// Runs a command, and returns its stdout.
///
/// # Errors
/// Returns an error if the command does not start or does not succeed. It contains the last line of
/// stderr.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(Error::context(program(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = stderr.lines().rfind(|line| !line.trim().is_empty());
        let line = line.unwrap_or("no error message");
        return Err(Error::new(format!("{}: {}: {line}", program(command), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, and returns the sampled peak of the resident memory of its processes, in bytes.
///
/// The kernel's `ru_maxrss` is not usable: it includes the memory that the parent had when it
/// started the child.
pub(crate) fn memory(command: &mut Command) -> Result<u64, Error> {
    let mut child = spawn_silent(command)?;
    let mut peak = 0u64;
    while child.try_wait().map_err(Error::context(program(command)))?.is_none() {
        let status: Vec<_> =
            tree(child.id()).into_iter().map(|pid| fields(pid, "status")).collect();
        let of =
            |key: &'static str| status.iter().filter_map(move |fields| fields.get(key).copied());
        peak = peak.max(of("VmRSS").sum()).max(of("VmHWM").max().unwrap_or(0));
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(peak)
}

fn spawn_silent(command: &mut Command) -> Result<Child, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(Error::context(program(command)))
}

/// Returns a process and its descendants, including those in other namespaces.
fn tree(root: u32) -> Vec<u32> {
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

/// Returns the private memory of a process and its descendants, in bytes.
pub(crate) fn private(root: u32) -> u64 {
    sum(root, "smaps_rollup", &["Private_Clean", "Private_Dirty"])
}

/// Returns the resident memory of a process and its descendants, in bytes.
pub(crate) fn resident(root: u32) -> u64 {
    sum(root, "status", &["VmRSS"])
}

fn sum(root: u32, file: &str, keys: &[&str]) -> u64 {
    let of = |pid| {
        let fields = fields(pid, file);
        keys.iter().filter_map(|key| fields.get(*key)).sum::<u64>()
    };
    tree(root).into_iter().map(of).sum()
}

/// Returns the sizes in a /proc file of a process, in bytes. A process that has ended has none.
fn fields(pid: u32, file: &str) -> BTreeMap<String, u64> {
    sizes(&std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default())
}

/// Parses the sizes in a /proc file, whose lines are `Key:  N kB`, to bytes.
pub fn sizes(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let value: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((key.to_owned(), value * 1024))
    };
    text.lines().filter_map(line).collect()
}

/// Refuses a measurement that may need more than half of the free memory, so that nothing is
/// swapped.
pub(crate) fn check_room(bytes: u64) -> Result<(), Error> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = sizes(&text).get("MemAvailable").copied().unwrap_or(0);
    if bytes > free / 2 {
        return Err(Error::new(format!(
            "it may need more than half of the free memory, {} MiB",
            free >> 20
        )));
    }
    Ok(())
}

/// Returns the nanoseconds since an instant.
pub fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the name of a command's program.
pub(crate) fn program(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    program.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn runs_are_measured_and_failures_have_a_reason() {
        let sample =
            run(&mut shell("while [ $((i = ${i:-0} + 1)) -lt 20000 ]; do :; done")).unwrap();
        assert!(sample.cpu > 0 && sample.wall > 0);
        assert!(run(&mut shell("exit 3")).is_err());
        let error = output(&mut shell("echo no such thing >&2; exit 3")).unwrap_err().to_string();
        assert!(error.contains("no such thing"), "{error}");
    }

    #[test]
    fn memory_includes_concurrent_processes() {
        let one = memory(&mut shell("sleep 0.2")).unwrap();
        let five =
            memory(&mut shell("sleep 0.4 & sleep 0.4 & sleep 0.4 & sleep 0.4 & wait")).unwrap();
        assert!(one > 256 << 10 && five > one, "{one} {five}");
    }

    #[test]
    fn sizes_of_proc_are_bytes() {
        let found = sizes("Name:\tx\nVmHWM:\t    12 kB\nThreads: 1\nPrivate_Dirty:   3 kB\n");
        let expected = [("VmHWM", 12 * 1024), ("Private_Dirty", 3 * 1024)];
        assert_eq!(found, expected.map(|(key, size)| (key.to_owned(), size)).into());
    }

    #[test]
    fn measurement_that_does_not_fit_into_memory_is_refused() {
        assert!(check_room(1).is_ok());
        assert!(check_room(u64::MAX).unwrap_err().to_string().contains("more than half"));
    }
}

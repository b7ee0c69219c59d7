//! Confines a worker process before it reads untrusted input.
//!
//! A worker is this binary in another role: it reads bytes from stdin, computes, and writes bytes
//! to stdout. A bug in its code must not affect more than those streams. There are three
//! independent layers: process limits, Landlock, and a seccomp filter.

use std::collections::BTreeMap;
use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::SeccompCmpArgLen::Qword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};

/// What a worker may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Milliseconds of processor time, rounded up to seconds.
    pub(crate) millis: u64,
    /// Bytes of address space, and of output.
    pub(crate) memory: u64,
}

/// Confines this process permanently: no new privileges, no files, no network, no other processes,
/// and limits on time and memory.
///
/// Call it first, while the process has one thread: later threads inherit the restrictions.
///
/// # Errors
/// A limit or the system call filter cannot be set. The caller must then read nothing untrusted. A
/// kernel without Landlock is not an error: the filter refuses the same calls.
pub(crate) fn confine(bounds: Bounds) -> io::Result<()> {
    let status = restrict_access()?;
    if status == RulesetStatus::NotEnforced {
        tracing::debug!("this kernel has no Landlock; the worker relies on its system call filter");
    }
    limit_resources(bounds)?;
    filter_system_calls()
}

/// Applies Landlock without exceptions: nothing can be opened, connected to or signalled. Also sets
/// `no_new_privs`.
fn restrict_access() -> io::Result<RulesetStatus> {
    // Older kernels enforce the subset that they support.
    let known = ABI::V6;
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(known))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(known)))
        .and_then(|rules| rules.scope(Scope::from_all(known)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    restricted.map(|status| status.ruleset).map_err(io::Error::other)
}

/// How much of the Landlock rules the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LandlockSupport {
    /// All of them.
    Full,
    /// Those that it knows.
    Partial,
    /// None.
    Missing,
}

/// Checks whether the kernel enforces Landlock rules, on a thread that ends.
pub(crate) fn has_landlock() -> LandlockSupport {
    on_a_thread(|| {
        let support = match restrict_access() {
            Ok(RulesetStatus::FullyEnforced) => LandlockSupport::Full,
            Ok(RulesetStatus::PartiallyEnforced) => LandlockSupport::Partial,
            Ok(RulesetStatus::NotEnforced) | Err(_) => return None,
        };
        (open_root() == Err(Errno::ACCESS)).then_some(support)
    })
    .unwrap_or(LandlockSupport::Missing)
}

/// Checks whether the kernel applies the system call filter, on a thread that ends.
pub(crate) fn has_seccomp() -> bool {
    on_a_thread(|| {
        filter_system_calls().ok()?;
        (open_root() == Err(Errno::NOSYS)).then_some(())
    })
    .is_some()
}

/// Runs a probe on a thread of its own: restrictions apply to the thread that sets them.
fn on_a_thread<T: Send + 'static>(probe: fn() -> Option<T>) -> Option<T> {
    std::thread::Builder::new().spawn(probe).ok()?.join().ok()?
}

fn open_root() -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map(drop)
}

fn limit_resources(Bounds { millis, memory }: Bounds) -> rustix::io::Result<()> {
    let seconds = millis.div_ceil(1_000).max(1);
    lower(Resource::Cpu, seconds, seconds + 1)?;
    lower(Resource::As, memory, memory)?;
    lower(Resource::Core, 0, 0)?;
    lower(Resource::Fsize, memory, memory)?;
    // The three standard streams.
    lower(Resource::Nofile, 3, 3)
}

/// Sets a limit, unless that of this process is lower already, which it may not raise.
fn lower(resource: Resource, current: u64, maximum: u64) -> rustix::io::Result<()> {
    let most = getrlimit(resource).maximum;
    let least = |value: u64| Some(most.map_or(value, |most| most.min(value)));
    setrlimit(resource, Rlimit { current: least(current), maximum: least(maximum) })
}

/// System calls that are allowed with any arguments: for streams, memory, threads and their
/// signals, time, randomness, and exit.
const ALLOWED: [libc::c_long; 32] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_set_tid_address,
];

/// Installs the filter, and sets `no_new_privs`, which the kernel requires for it.
///
/// A refused call fails with `ENOSYS`, for which the C library has fallbacks: if `clone3` is
/// refused, it starts threads with `clone`, whose flags a filter can check.
fn filter_system_calls() -> io::Result<()> {
    let flag = |value: libc::c_int| u64::from(value.cast_unsigned());
    let only = |argument, op, value| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        Ok(vec![SeccompRule::new(vec![SeccompCondition::new(argument, Qword, op, value)?])?])
    };
    let build = || -> Result<BpfProgram, seccompiler::BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
        // Threads, but no processes.
        rules.insert(
            libc::SYS_clone,
            only(0, MaskedEq(flag(libc::CLONE_THREAD)), flag(libc::CLONE_THREAD))?,
        );
        // No executable memory: a worker compiles code and does not run it.
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, only(2, MaskedEq(flag(libc::PROT_EXEC)), 0)?);
        }
        // Only to itself: that is how `abort` works.
        rules.insert(libc::SYS_tgkill, only(0, Eq, u64::from(std::process::id()))?);
        // Thread names.
        rules.insert(libc::SYS_prctl, only(0, Eq, flag(libc::PR_SET_NAME))?);
        let refuse = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        SeccompFilter::new(rules, refuse, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?
            .try_into()
    };
    let filter = build().map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests attempt what is refused")]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    /// Runs attempts on a thread of their own: filters and Landlock apply to the calling thread and
    /// the threads it starts.
    fn confined<T: Send + 'static>(
        confine: fn() -> io::Result<T>,
        attempts: impl FnOnce(T) + Send + 'static,
    ) {
        let thread = std::thread::spawn(move || attempts(confine().unwrap()));
        thread.join().unwrap();
    }

    #[track_caller]
    fn refused<T>(result: io::Result<T>) {
        assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(libc::ENOSYS));
    }

    #[test]
    fn a_worker_opens_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        File::open(&path).unwrap();
        confined(filter_system_calls, move |()| {
            refused(File::open(&path));
            refused(
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path.with_extension("new")),
            );
            refused(std::fs::remove_file(&path));
            refused(std::fs::rename(&path, path.with_extension("new")));
            refused(std::fs::read_dir("/"));
            refused(File::open("/dev/null"));
        });
    }

    #[test]
    fn a_worker_opens_no_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        TcpStream::connect(address).unwrap();
        confined(filter_system_calls, move |()| {
            refused(TcpStream::connect(address));
            refused(TcpListener::bind("127.0.0.1:0"));
            refused(UdpSocket::bind("127.0.0.1:0"));
            refused(std::os::unix::net::UnixStream::pair());
        });
    }

    #[test]
    fn a_worker_starts_threads_and_no_process() {
        confined(filter_system_calls, |()| {
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
            refused(Command::new("/bin/true").spawn());
            // If it were allowed, it would fail because the file does not exist.
            refused::<()>(Err(Command::new("/nowhere").exec()));
            refused(fork());
        });
    }

    /// Starts a process that exits at once.
    #[expect(unsafe_code, reason = "the standard library can only start programs")]
    fn fork() -> io::Result<()> {
        // SAFETY: the new process only calls `_exit`, which is allowed after a fork of a process
        // with several threads.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            _ => Ok(()),
        }
    }

    #[test]
    fn a_worker_does_not_trace_or_signal_other_processes() {
        use rustix::process::{Pid, Signal, getppid, kill_process, pidfd_open, test_kill_process};
        let parent = getppid().unwrap_or(Pid::INIT);
        confined(filter_system_calls, move |()| {
            refused(ptrace(parent));
            refused(signal_thread(parent));
            refused(test_kill_process(parent).map_err(Into::into));
            refused(kill_process(rustix::process::getpid(), Signal::WINCH).map_err(Into::into));
            refused(pidfd_open(parent, rustix::process::PidfdFlags::empty()).map_err(Into::into));
        });
    }

    #[expect(unsafe_code, reason = "no dependency of this crate has a safe wrapper")]
    fn ptrace(pid: rustix::process::Pid) -> io::Result<()> {
        // SAFETY: the request takes no pointers.
        let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid.as_raw_nonzero().get(), 0, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Checks whether a thread of another process can be signalled.
    #[expect(unsafe_code, reason = "no dependency of this crate has a safe wrapper")]
    fn signal_thread(pid: rustix::process::Pid) -> io::Result<()> {
        let pid = pid.as_raw_nonzero().get();
        // SAFETY: the call takes no pointers, and signal 0 does nothing.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    #[test]
    fn a_worker_makes_no_executable_memory() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        #[expect(unsafe_code, reason = "a mapping that is never used")]
        let map = |prot| {
            // SAFETY: the kernel chooses an address that is free.
            unsafe { mmap_anonymous(std::ptr::null_mut(), 4_096, prot, MapFlags::PRIVATE) }
                .map(drop)
        };
        confined(filter_system_calls, move |()| {
            refused(map(ProtFlags::READ | ProtFlags::EXEC).map_err(Into::into));
            map(ProtFlags::READ | ProtFlags::WRITE).unwrap();
        });
    }

    #[test]
    fn a_worker_gains_no_privileges() {
        assert!(!status_line("NoNewPrivs:").ends_with('1'), "only confined threads have it");
        let (ready, wait) = std::sync::mpsc::channel();
        let (done, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let id = std::fs::read_link("/proc/thread-self").unwrap();
            filter_system_calls().unwrap();
            ready.send(id).unwrap();
            end.recv().unwrap_err();
        });
        // Read from outside: the thread itself can no longer open the file.
        let id = wait.recv().unwrap();
        let status =
            std::fs::read_to_string(std::path::Path::new("/proc").join(id).join("status")).unwrap();
        assert!(
            status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"),
            "{status}"
        );
        drop(done);
        thread.join().unwrap();
    }

    fn status_line(name: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    }

    #[test]
    fn landlock_alone_refuses_files_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        confined(restrict_access, move |status| {
            if status == RulesetStatus::NotEnforced {
                return;
            }
            for result in [File::open(&path), File::create(path.with_extension("new"))] {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
            let run = Command::new("/bin/true").spawn();
            assert_eq!(run.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            if status == RulesetStatus::FullyEnforced {
                assert_eq!(
                    TcpStream::connect(address).unwrap_err().kind(),
                    io::ErrorKind::PermissionDenied
                );
            }
        });
    }
}

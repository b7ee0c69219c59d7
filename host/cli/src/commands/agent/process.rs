//! The agent's process: started, waited for, and sent the signals that this process gets.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};

use crate::error::CliError;

/// The signals that are passed on.
const PASSED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// `si_code` of a signal that the kernel sent, such as Ctrl-C at the terminal.
const SI_KERNEL: i32 = 0x80;

/// Receives the signals instead of ending by them. Must be called before another thread starts, which
/// would get them.
pub(super) fn catch_signals() -> Result<SignalFd, CliError> {
    let mut set = SigSet::empty();
    PASSED.into_iter().for_each(|signal| set.add(signal));
    let failed = |error: nix::errno::Errno| CliError::io("catch signals", error);
    set.thread_block().map_err(failed)?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    SignalFd::with_flags(&set, flags).map_err(failed)
}

/// Runs a command to its end.
pub(super) fn run(mut command: Command, signals: &SignalFd) -> Result<ExitStatus, CliError> {
    let name = command.get_program().to_string_lossy().into_owned();
    unblock_signals(&mut command);
    let mut child = command.spawn().map_err(|error| {
        let message = format!("cannot start {name}: {error}");
        CliError::usage(message).fix("name a program of $PATH, or its path, after `--`")
    })?;
    let waited = wait(&mut child, signals);
    waited.map_err(|error| CliError::io(format_args!("wait for {name}"), error))
}

/// Lets the command get the signals that are blocked here: a new process inherits that.
#[expect(unsafe_code, reason = "only a function in the new process can change what it inherits")]
fn unblock_signals(command: &mut Command) {
    let none = SigSet::empty();
    // SAFETY: the function only calls pthread_sigmask(3), which is async-signal-safe, and allocates
    // nothing.
    unsafe { command.pre_exec(move || Ok(none.thread_set_mask()?)) };
}

fn wait(child: &mut Child, signals: &SignalFd) -> io::Result<ExitStatus> {
    // Until it is waited for, its number is not given to another process.
    let id = Pid::from_child(child);
    let ended = pidfd_open(id, PidfdFlags::empty())?;
    loop {
        let mut ready = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let has_ended = !ready[0].revents().is_empty();
        while let Some(signal) = signals.read_signal()? {
            // A terminal has sent it to the command too, which is in the same process group.
            if signal.ssi_code != SI_KERNEL
                && let Some(signal) =
                    rustix::process::Signal::from_named_raw(signal.ssi_signo as i32)
            {
                kill_process(id, signal)?;
            }
        }
        if has_ended {
            return child.wait();
        }
    }
}

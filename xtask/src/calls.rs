//! Which functions a program calls, in the order in which it calls each first: by ptrace(2), with a
//! breakpoint at every function that goes when it is met. A run takes as many stops as it has
//! functions, a few thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use skillhost_toolchain::Error;

/// `int3`.
const BREAKPOINT: u8 = 0xcc;

/// Runs it to its end, which must be a good one, with `command`'s arguments and environment; what
/// it prints is lost. The program has its symbols, and lies where it was linked to. It starts no
/// other program.
pub(crate) fn called(program: &Path, command: &Command) -> Result<Vec<String>, Error> {
    let bytes = fs::read(program).map_err(Error::context(program.display()))?;
    let functions = Functions::of(&bytes).map_err(Error::context(program.display()))?;
    // It waits in front of the program until there is someone to trace it.
    let mut waiting = Command::new("sh");
    waiting.args(["-c", "read -r go; exec \"$0\" \"$@\""]).arg(program).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        waiting.current_dir(folder);
    }
    waiting.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = waiting
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(Error::context("sh"))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let traced = trace(pid, &functions, || {
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(b"go\n"))
    });
    if traced.is_err() {
        drop(child.kill());
        drop(child.wait());
    }
    traced.map_err(Error::context(program.display()))
}

fn trace(
    pid: Pid,
    functions: &Functions,
    go: impl FnOnce() -> std::io::Result<()>,
) -> std::io::Result<Vec<String>> {
    ptrace::seize(
        pid,
        Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL,
    )?;
    go()?;
    let (mut called, mut met) = (Vec::new(), BTreeSet::new());
    let mut memory = None;
    loop {
        // Of this thread: others of this program may wait for children of theirs.
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))? {
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == nix::libc::PTRACE_EVENT_EXEC {
                    let file =
                        File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
                    file.write_all_at(&functions.with_breakpoints(), functions.start)?;
                    memory = Some(file);
                }
                ptrace::cont(thread, None)?;
            }
            WaitStatus::Stopped(thread, Signal::SIGTRAP) => {
                let mut registers = ptrace::getregs(thread)?;
                let at = registers.rip - 1;
                if let (Some(names), Some(memory)) = (functions.names.get(&at), &memory) {
                    // A thread that met it at the same time comes here when it is gone already.
                    if met.insert(at) {
                        called.extend(names.iter().cloned());
                        memory.write_all_at(&[functions.byte(at)], at)?;
                    }
                    registers.rip = at;
                    ptrace::setregs(thread, registers)?;
                    ptrace::cont(thread, None)?;
                } else {
                    ptrace::cont(thread, Signal::SIGTRAP)?;
                }
            }
            WaitStatus::Stopped(thread, Signal::SIGSTOP) => ptrace::cont(thread, None)?,
            WaitStatus::Stopped(thread, signal) => ptrace::cont(thread, signal)?,
            WaitStatus::Exited(process, 0) if process == pid => break,
            WaitStatus::Exited(process, code) if process == pid => {
                return Err(std::io::Error::other(format!("it ended with {code}")));
            }
            WaitStatus::Signaled(process, signal, _) if process == pid => {
                return Err(std::io::Error::other(format!("it died of {signal}")));
            }
            _ => {}
        }
    }
    Ok(called)
}

/// The code of a program, and where in it which functions begin.
struct Functions {
    start: u64,
    code: Vec<u8>,
    names: BTreeMap<u64, Vec<String>>,
}

impl Functions {
    fn of(program: &[u8]) -> std::io::Result<Functions> {
        let file = object::File::parse(program).map_err(std::io::Error::other)?;
        let text =
            file.section_by_name(".text").ok_or_else(|| std::io::Error::other("it has no code"))?;
        let (start, code) = (text.address(), text.data().map_err(std::io::Error::other)?.to_vec());
        let mut names = BTreeMap::<u64, Vec<String>>::new();
        let is_in = |at: u64| (start..start + text.size()).contains(&at);
        for symbol in file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && is_in(symbol.address()))
        {
            names
                .entry(symbol.address())
                .or_default()
                .push(symbol.name().map_err(std::io::Error::other)?.to_owned());
        }
        Ok(Functions { start, code, names })
    }

    fn with_breakpoints(&self) -> Vec<u8> {
        let mut code = self.code.clone();
        for at in self.names.keys() {
            code[self.offset(*at)] = BREAKPOINT;
        }
        code
    }

    fn byte(&self, at: u64) -> u8 {
        self.code[self.offset(at)]
    }

    fn offset(&self, at: u64) -> usize {
        usize::try_from(at - self.start).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_called_functions_are_listed_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        let text = "int never(void) { return 1; }\nint second(int n) { return n; }\nint first(int n) { return second(n) + second(n); }\n
            int main(int argc, char **argv) { return argc == 2 ? first(0) : 7; }\n";
        fs::write(&source, text).unwrap();
        assert!(
            Command::new("cc")
                .args(["-O0", "-no-pie", "-o"])
                .arg(&program)
                .arg(&source)
                .status()
                .unwrap()
                .success()
        );
        let own = ["main", "first", "second", "never"];
        let of = |args: &[&str]| {
            let mut command = Command::new(&program);
            called(&program, command.args(args)).map(|names| {
                names.into_iter().filter(|name| own.contains(&name.as_str())).collect::<Vec<_>>()
            })
        };
        let found = match of(&["x"]) {
            Err(error) if error.to_string().contains("EPERM") => {
                return drop(writeln!(std::io::stderr(), "left out: ptrace is forbidden here"));
            }
            found => found.unwrap(),
        };
        assert_eq!(found, ["main", "first", "second"]);
        let error = of(&[]).unwrap_err().to_string();
        assert!(error.contains("ended with 7"), "{error}");
    }
}

//! Records the functions that a program calls, in the order of their first calls. It uses ptrace(2)
//! and sets a breakpoint at every function, which it removes at the first hit. So a run stops once
//! per called function, a few thousand times.

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

/// Runs `program` with the arguments and environment of `command`, and returns the functions that
/// it calls. Discards its output. The program must have symbols, must not start other programs, and
/// must succeed.
pub(crate) fn called(program: &Path, command: &Command) -> Result<Vec<String>, Error> {
    let bytes = fs::read(program).map_err(Error::context(program.display()))?;
    let functions = Functions::of(&bytes).map_err(Error::context(program.display()))?;
    // The shell waits until it is traced, and then becomes the program.
    let mut shell = Command::new("sh");
    shell.args(["-c", "read -r go; exec \"$0\" \"$@\""]).arg(program).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = shell
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
    let (mut called, mut hit) = (Vec::new(), BTreeSet::new());
    let mut memory = None;
    // The load bias: the distance between addresses in the process and in the file.
    let mut bias = 0;
    loop {
        // Waits only for children of this thread: other threads may wait for theirs.
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))? {
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == nix::libc::PTRACE_EVENT_EXEC {
                    let file =
                        File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
                    bias = entry_point(pid)?.wrapping_sub(functions.entry);
                    let start = functions.start.wrapping_add(bias);
                    file.write_all_at(&functions.with_breakpoints(), start)?;
                    memory = Some(file);
                }
                ptrace::cont(thread, None)?;
            }
            WaitStatus::Stopped(thread, Signal::SIGTRAP) => {
                let mut registers = ptrace::getregs(thread)?;
                let at = registers.rip - 1;
                let known = functions.names.get(&at.wrapping_sub(bias));
                if let (Some(names), Some(memory)) = (known, &memory) {
                    // Two threads can hit a breakpoint before it is removed.
                    if hit.insert(at) {
                        called.extend(names.iter().cloned());
                        memory.write_all_at(&[functions.byte(at.wrapping_sub(bias))], at)?;
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
                return Err(std::io::Error::other(format!("the program exited with {code}")));
            }
            WaitStatus::Signaled(process, signal, _) if process == pid => {
                return Err(std::io::Error::other(format!("the program was killed by {signal}")));
            }
            _ => {}
        }
    }
    Ok(called)
}

/// Reads the entry point of a process from its auxiliary vector (proc(5)), which consists of pairs
/// of type and value.
fn entry_point(pid: Pid) -> std::io::Result<u64> {
    let vector = fs::read(format!("/proc/{pid}/auxv"))?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    let entry = words.chunks_exact(2).find(|pair| pair[0] == nix::libc::AT_ENTRY);
    entry
        .map(|pair| pair[1])
        .ok_or_else(|| std::io::Error::other("the auxiliary vector has no entry point"))
}

/// The code of a program, and the names of the functions that begin at each address. Addresses are
/// those of the file.
struct Functions {
    entry: u64,
    start: u64,
    code: Vec<u8>,
    names: BTreeMap<u64, Vec<String>>,
}

impl Functions {
    fn of(program: &[u8]) -> std::io::Result<Functions> {
        let file = object::File::parse(program).map_err(std::io::Error::other)?;
        let text = file
            .section_by_name(".text")
            .ok_or_else(|| std::io::Error::other("the program has no .text section"))?;
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
        Ok(Functions { entry: file.entry(), start, code, names })
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
        for link in ["-no-pie", "-static-pie"] {
            lists_called_functions(link);
        }
    }

    fn lists_called_functions(link: &str) {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        let text = "int never(void) { return 1; }
            int second(int n) { return n; }
            int first(int n) { return second(n) + second(n); }
            int main(int argc, char **argv) { return argc == 2 ? first(0) : 7; }";
        fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O0", "-fPIE", link, "-o"]).arg(&program).arg(&source);
        assert!(cc.status().unwrap().success());
        let own = ["main", "first", "second", "never"];
        let run = |args: &[&str]| {
            let mut command = Command::new(&program);
            called(&program, command.args(args)).map(|names| {
                names.into_iter().filter(|name| own.contains(&name.as_str())).collect::<Vec<_>>()
            })
        };
        let found = match run(&["x"]) {
            Err(error) if error.to_string().contains("EPERM") => {
                return drop(writeln!(std::io::stderr(), "skipped: ptrace is not permitted"));
            }
            found => found.unwrap(),
        };
        assert_eq!(found, ["main", "first", "second"], "{link}");
        let error = run(&[]).unwrap_err().to_string();
        assert!(error.contains("exited with 7"), "{error}");
    }
}

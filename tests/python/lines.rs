//! Lines that Python prints reach the host without a call each, and none is lost.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::Place;
use crate::cli::text;

/// More than the buffer holds at once.
const LINES: usize = 20_000;

fn numbers(count: usize) -> String {
    (0..count).map(|number| format!("{number}\n")).collect()
}

#[test]
fn programs_that_are_stopped_lose_no_line() {
    let print = format!("import time\nfor n in range({LINES}): print(n)\nprint('end')\n");
    let expected = format!("{}end\n", numbers(LINES));
    let limit = &["main", "--timeout", "10s"][..];
    for (last, arguments, code) in [
        ("while True: pass", &["main", "--timeout", "3s"][..], 124),
        ("time.sleep(100)", &["main", "--timeout", "3s"], 124),
        ("while True: pass", &["main", "--fuel", "9000000000"], 125),
        ("x = [b'x' * (1 << 20) for _ in range(1 << 20)]", &["main", "--memory", "128MiB"], 125),
        ("import os; os._exit(3)", limit, 3),
        ("raise SystemExit(4)", limit, 4),
        // Ends in a trap of the engine: the stack is full.
        ("m = iter(())\nfor _ in range(1500000): m = map(str, m)\nnext(m, None)", limit, 125),
    ] {
        let run = Place::new(&format!("{print}{last}")).run(arguments);
        let found = (run.status.code(), text(&run.stdout) == expected);
        assert_eq!(found, (Some(code), true), "{last}: {}", text(&run.stderr));
    }
}

#[test]
fn lines_appear_while_the_program_computes_or_waits() {
    for last in ["while True: pass", "import time; time.sleep(1000)"] {
        let place = Place::new(&format!("print('first')\n{last}"));
        assert_eq!(place.run(&["main", "--explain"]).status.code(), Some(0));
        let mut child = place.command(&["main"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it is still running");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(line, "first\n");
    }
}

#[test]
fn an_interrupted_program_loses_no_line() {
    let script = format!("for n in range({LINES}): print(n)\nprint('end')\nwhile True: pass");
    let place = Place::new(&script);
    assert_eq!(place.run(&["main", "--explain"]).status.code(), Some(0));
    let mut child = place.command(&["main"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut all = vec![0];
    stdout.read_exact(&mut all).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let begun = Instant::now();
    stdout.read_to_end(&mut all).unwrap();
    child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    // However far it came, each line is complete and in order.
    let all = text(&all);
    assert!(format!("{}end\n", numbers(LINES)).starts_with(&all) && all.ends_with('\n'));
}

#[test]
fn output_limit_ends_the_program_at_the_same_byte() {
    let place = Place::new(&format!("for n in range({LINES}): print(n)\nwhile True: pass"));
    std::fs::write(place.user.work().join("policy.yaml"), "limits: { stdout: 70001B }\n").unwrap();
    let run = place.run(&["main", "--policy", "policy.yaml", "--timeout", "20s"]);
    assert_eq!(text(&run.stdout), numbers(LINES)[..70_001]);
    assert_eq!(run.status.code(), Some(125), "{}", text(&run.stderr));
}

#[test]
fn stdout_keeps_its_order_with_stderr_input_and_other_programs() {
    let script = "\
import os, subprocess, sys
print('1')
print('2', file=sys.stderr)
print('3')
subprocess.run(['echo', '4'])
print('5')
os.write(2, b'6\\n')
print('7')
os.write(1, b'8\\n')
print(input('9\\n'))
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
print('11')
child.communicate(b'12\\n')
sys.stdout.buffer.write(b'13' + b'x' * 200_000 + b'\\n')
sys.stdout.flush()
print('14', file=sys.stderr)
subprocess.run([sys.executable, '-c', 'print(15)'])
print('16')
";
    let place = Place::new(script);
    let all = tempfile::NamedTempFile::new().unwrap();
    // Both streams append to one file.
    let open = || std::fs::OpenOptions::new().append(true).open(all.path()).unwrap();
    std::fs::write(place.user.work().join("stdin"), "10\n").unwrap();
    let stdin = std::fs::File::open(place.user.work().join("stdin")).unwrap();
    place.run(&["main", "--explain"]);
    let code = place
        .command(&["main"])
        .stdin(stdin)
        .stdout(open())
        .stderr(open())
        .status()
        .unwrap()
        .code();
    let found = std::fs::read_to_string(all.path()).unwrap().replace(&"x".repeat(200_000), "");
    let expected: String = (1..=16).map(|number| format!("{number}\n")).collect();
    assert_eq!((found, code), (expected, Some(0)));
}

#[test]
fn output_that_nobody_reads_ends_a_program_as_in_python3() {
    let place = Place::new(
        "import os, subprocess, sys
for script in [
    'for n in range(10 ** 5): print(n)',
    'print(1)',
    'import sys, os; print(1); os.write(2, b\"err\"); print(2)',
    'import sys; sys.stdout.write(str(1))',
]:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, '-c', script], stdout=writer, stderr=subprocess.PIPE, text=True)
    print(done.returncode, done.stderr.split('\\n')[-2:-1])
",
    );
    let broken = "['BrokenPipeError: [Errno 32] Broken pipe']";
    assert_eq!(place.prints(&["main"]), format!("120 {broken}\n120 []\n120 {broken}\n120 []\n"));
}

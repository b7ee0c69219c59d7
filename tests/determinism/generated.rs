//! Scripts that are composed at random from common commands have the same result each time too.

use std::fmt::Write as _;

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::conditions::{Conditions, Environment};
use super::programs::Program;
use super::run_all;

/// Commands of a shell script. `N` stands for a random digit. Each command may be placed in a loop, a
/// subshell, the background or a pipeline.
const SHELL: &[&str] = &[
    "echo $RANDOM N",
    "date +%s",
    "sleep N",
    "mktemp",
    "ls -la /workspace | tail -N",
    "echo N >> /workspace/log",
    "for k in 1 2 N; do echo $k; done",
    "head -c N /dev/urandom | sha256sum",
    "printf '%s\\n' c b a N | sort",
    "find /workspace -newer /workspace/doc.json",
    "cat /workspace/many/*",
    "echo $SECONDS $EPOCHSECONDS",
    "shuf -i 1-N0 -n 3",
    "read -r line && echo \"$line\"",
    "stat -c %Y /workspace/*",
    "seq N00 | awk '{ s += $1 } END { print s, rand() }'",
    "timeout 0.N sleep N",
    "python3 -c 'import random, time; print(random.random(), time.time(), {\"a\", \"b\", \"N\"})'",
];

/// Statements of a Python script. `N` stands for a random digit.
const PYTHON: &[&str] = &[
    "print(random.random(), random.sample(range(100), N))",
    "print(time.time(), time.monotonic_ns())",
    "time.sleep(N / 7)",
    "print({str(k) for k in range(N)}, hash('N'))",
    "print(os.urandom(N).hex(), uuid.uuid4())",
    "print(os.listdir('/workspace'), [e.stat().st_mtime for e in os.scandir('/workspace')])",
    "open(f'/workspace/made{random.randrange(N + 1)}', 'a').write(str(time.time()))",
    "print(tempfile.mkstemp())",
    "print(subprocess.run('echo $RANDOM; sleep 0.N; date +%s', shell=True, capture_output=True))",
    "threading.Thread(target=lambda: (time.sleep(N / 100), print('thread', N))).start()",
    "children.append(subprocess.Popen([sys.executable, '-c', 'import time, random; time.sleep(0.N); print(random.random(), N)']))",
    "children and print(children.pop().wait())",
    "print(sum(math.sin(k) for k in range(N * 1000)), math.inf - math.inf)",
    "print(object(), datetime.datetime.now())",
    "print(sys.stdin.readline())",
];

/// Statements of a JavaScript module. `N` stands for a random digit.
const JAVASCRIPT: &[&str] = &[
    "console.log(Math.random(), crypto.randomUUID())",
    "console.log(Date.now(), performance.now(), process.hrtime.bigint())",
    "await sleep(N00)",
    "setTimeout(() => console.log('timer', N), N0)",
    "setImmediate(() => console.log('immediate', N))",
    "process.nextTick(() => console.log('tick', N))",
    "console.log(fs.readdirSync('/workspace'), fs.statSync('/workspace/doc.json').mtimeMs)",
    "fs.appendFileSync(`/workspace/made${Math.floor(Math.random() * N)}`, String(Date.now()))",
    "fs.readFile('/workspace/doc.json', (error, data) => console.log(data.length, N))",
    "exec('echo $RANDOM; sleep 0.N; date +%s', (error, stdout) => console.log(stdout))",
    "console.log(execFileSync('python3', ['-c', 'import random; print(random.random(), N)']).toString())",
    "await Promise.race([sleep(N0).then(() => 1), sleep(5N).then(() => 2)]).then(console.log)",
    "console.log(fs.mkdtempSync('/tmp/N-'), process.pid, new Error('N').stack)",
    "console.log(Array.from({ length: N }, (_, n) => Math.sin(n * N)), 0 / 0)",
    "queueMicrotask(() => console.log('microtask', N, process.memoryUsage().rss))",
];

fn line(rng: &mut TestRng, of: &[&str]) -> String {
    let line = of[rng.next_u32() as usize % of.len()];
    line.replace('N', &(1 + rng.next_u32() % 9).to_string())
}

fn shell(rng: &mut TestRng) -> String {
    let mut text = String::from("echo start\n");
    for _ in 0..3 + rng.next_u32() % 8 {
        let (one, two) = (line(rng, SHELL), line(rng, SHELL));
        match rng.next_u32() % 6 {
            0 => writeln!(text, "({one}; {two}) &").unwrap(),
            1 => writeln!(text, "( {one} ) | cat").unwrap(),
            2 => writeln!(text, "for n in 1 2; do {one}; done").unwrap(),
            3 => writeln!(text, "echo \"$({one})\"").unwrap(),
            _ => writeln!(text, "{one}").unwrap(),
        }
    }
    text + "wait\nexit 0\n"
}

fn python(rng: &mut TestRng) -> String {
    let modules = "datetime, math, os, random, subprocess, sys, tempfile, threading, time, uuid";
    let mut text = format!("import {modules}\nchildren = []\nprint('start', flush=True)\n");
    for _ in 0..3 + rng.next_u32() % 8 {
        writeln!(text, "{}\nsys.stdout.flush()", line(rng, PYTHON)).unwrap();
    }
    text + "for child in children: print(child.wait())\n"
}

fn javascript(rng: &mut TestRng) -> String {
    let mut text = String::from(
        "import fs from 'node:fs';\nimport { exec, execFileSync } from 'node:child_process';\nimport { setTimeout as sleep } from 'node:timers/promises';\nconsole.log('start');\n",
    );
    for _ in 0..3 + rng.next_u32() % 8 {
        writeln!(text, "{};", line(rng, JAVASCRIPT)).unwrap();
    }
    text
}

#[test]
fn random_scripts_have_the_same_result() {
    // The variable `SEED` selects other scripts. A failure is repeatable with its seed.
    let seed: u64 =
        std::env::var("SEED").ok().map_or(1, |text| text.parse().expect("SEED is a number"));
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let count = 9 * super::repeat();
    let scripts: Vec<(String, String)> = (0..count)
        .map(|n| match n % 3 {
            0 => (format!("generated{n}.sh"), shell(&mut rng)),
            1 => (format!("generated{n}.py"), python(&mut rng)),
            _ => (format!("generated{n}.mjs"), javascript(&mut rng)),
        })
        .collect();
    let programs: Vec<Program> =
        scripts.iter().map(|(name, _)| Program::generated(name.clone())).collect();
    let results = [0, 2].map(|turn| {
        let conditions = Conditions::of(turn);
        let environment = Environment::new(&conditions);
        scripts.iter().for_each(|(name, text)| environment.add_script(name, text));
        run_all(&programs, &environment, &conditions)
    });
    let mut errors = String::new();
    for (index, (name, text)) in scripts.iter().enumerate() {
        errors += &programs[index].check(&results[0][index]);
        if let Some(difference) = results[0][index].difference(&results[1][index]) {
            write!(errors, "==> {name} of SEED={seed} differs: {difference}\n{text}\n").unwrap();
        }
    }
    assert!(errors.is_empty(), "{errors}");
}

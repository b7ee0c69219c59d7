//! Python scripts of a skill, in the real runtime.

mod compiled;
mod http;
mod lines;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use crate::cli::{User, repository, text};

/// A user with a skill `py` that has one script.
struct Place {
    user: User,
}

/// Runs once before the others, so that concurrent tests do not all compile the runtime.
static READY: LazyLock<()> = LazyLock::new(|| {
    let wasm = repository("target").join("components/python.wasm");
    assert!(wasm.is_file(), "{} is missing: run `cargo xtask components` first", wasm.display());
    let place = Place::new("print('hi')");
    let run = place.command(&[]).output().unwrap();
    assert_eq!((text(&run.stdout).as_str(), text(&run.stderr).as_str()), ("hi\n", ""));
});

impl Place {
    fn new(script: &str) -> Place {
        let place = Place { user: User::new() };
        place.write("SKILL.md", "---\nname: py\ndescription: Tests Python. Use to test.\n---\n");
        place.write("scripts/main.py", script);
        place
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.user.work().join("py").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        // Compiled once for all runs of the tests.
        command
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")))
            .args(["run", "./py"])
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        LazyLock::force(&READY);
        self.command(args).output().unwrap()
    }

    /// Returns the run's stdout, and asserts that it exited with 0 and an empty stderr.
    fn prints(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(
            (run.status.code(), text(&run.stderr).as_str()),
            (Some(0), ""),
            "{}",
            text(&run.stdout)
        );
        text(&run.stdout)
    }
}

#[test]
fn arguments_and_names_match_python3() {
    let place = Place::new(
        "import sys\nfrom helper import name\nprint(sys.argv, __file__, __name__, name, sys.path[0])",
    );
    place.write("scripts/helper.py", "name = __name__");
    let printed = "['/skill/scripts/main.py', '-v', 'a b', ''] /skill/scripts/main.py __main__ helper /skill/scripts\n";
    assert_eq!(place.prints(&["scripts/main.py", "--", "-v", "a b", ""]), printed);
    for name in [
        "main.py",
        "main",
        "{baseDir}/scripts/main.py",
        "${CLAUDE_SKILL_DIR}/scripts/main.py",
        "skills/py/scripts/main.py",
    ] {
        assert_eq!(place.prints(&[name, "--", "-v", "a b", ""]), printed, "{name}");
    }
}

#[test]
fn scripts_read_the_callers_stdin() {
    let place = Place::new(
        "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])",
    );
    LazyLock::force(&READY);
    let mut child =
        place.command(&["main"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
    let run = child.wait_with_output().unwrap();
    assert!(run.status.success() && run.stdout.iter().eq(bytes.iter().rev()));
    assert_eq!(place.prints(&["main"]), "", "stdin is empty by default");
}

#[test]
fn exit_codes_and_tracebacks_come_from_the_script() {
    for (script, code, words) in [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("raise SystemExit", 0, ""),
        (
            "import argparse; argparse.ArgumentParser().parse_args(['-x'])",
            2,
            "unrecognized arguments: -x",
        ),
        (
            "def f():\n    return 1 / 0\nf()",
            1,
            "    return 1 / 0\n           ~~^~~\nZeroDivisionError: division by zero\n",
        ),
        ("open('/none')", 1, "FileNotFoundError: [Errno 2] No such file or directory: '/none'"),
    ] {
        let run = Place::new(script).run(&["main"]);
        assert!(
            run.status.code() == Some(code) && text(&run.stderr).contains(words),
            "{script}: {run:?}"
        );
    }
}

#[test]
fn python_raises_its_own_recursion_and_memory_errors() {
    let deep = "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as error:\n    print(error)";
    assert!(Place::new(deep).prints(&["main"]).starts_with("maximum recursion depth exceeded"));
    let nested = "import json\nx = []\nfor _ in range(100000): x = [x]\ntry:\n    json.dumps(x)\nexcept RecursionError:\n    print('caught')";
    assert_eq!(Place::new(nested).prints(&["main"]), "caught\n");
    let large = "try:\n    x = bytearray(300 << 20)\nexcept MemoryError:\n    print('caught')";
    assert_eq!(Place::new(large).prints(&["main", "--memory", "256MiB"]), "caught\n");
    assert_eq!(Place::new(large).prints(&["main", "--memory", "1GiB"]), "");
}

#[test]
fn a_lack_of_memory_is_explained() {
    let explained =
        "the limit `memory` of 256 MiB, set by `--memory`, was hit; raise it by `--memory VALUE`";
    let place = Place::new("x = [0] * 10 ** 9");
    let run = place.run(&["main", "--memory", "256MiB"]);
    assert!(run.status.code() == Some(125) && text(&run.stderr).contains(explained), "{run:?}");
    let pipeline = "python3 -c 'x = bytearray(1 << 30)' | wc -l";
    let run = place.run(&["--command", pipeline, "--memory", "256MiB"]);
    let stderr = text(&run.stderr);
    assert!(
        run.status.code() == Some(0)
            && stderr.contains(&format!("a started program failed: {explained}")),
        "{run:?}"
    );
}

#[test]
fn bombs_end_at_the_limits() {
    let place = Place::new(
        "import bz2, lzma, sys, tempfile, shutil, zipfile
from compression import zstd
zeros, name = bytes(1 << 20), sys.argv[1]
if name == 'lzma-header':
    # A dictionary of 4 GiB, in a header of 13 bytes.
    lzma.decompress(bytes.fromhex('5dffffffff') + b'\\xff' * 8 + bytes(20))
elif name == 'zip':
    with zipfile.ZipFile('/tmp/bomb.zip', 'w', zipfile.ZIP_BZIP2) as archive:
        for number in range(4):
            with archive.open(f'zeros{number}', 'w') as file:
                for _ in range(20): file.write(zeros)
    with zipfile.ZipFile('/tmp/bomb.zip') as archive: archive.extractall('/tmp/out')
else:
    make = {'bz2': bz2.BZ2Compressor, 'lzma': lzma.LZMACompressor, 'zstd': zstd.ZstdCompressor}[name]()
    bomb = b''.join(make.compress(zeros) for _ in range(200)) + make.flush()
    print(len(bomb) < 1 << 20)
    {'bz2': bz2, 'lzma': lzma, 'zstd': zstd}[name].decompress(bomb)
",
    );
    let policy = "limits: { memory: 160MiB, disk: 50MiB, timeout: 5m }\n";
    std::fs::write(place.user.work().join("policy.yaml"), policy).unwrap();
    for name in ["bz2", "lzma", "zstd", "lzma-header", "zip"] {
        let options = ["main", "--policy", "policy.yaml", "--workspace", ".", "--", name];
        let run = place.run(&options);
        let stderr = text(&run.stderr);
        let (limit, error) =
            if name == "zip" { ("disk", "OSError") } else { ("memory", "MemoryError") };
        assert!(
            run.status.code() == Some(125)
                && stderr.contains(error)
                && stderr.contains(&format!("the limit `{limit}` of ")),
            "{name}: {run:?}"
        );
    }
}

#[test]
fn permission_bits_are_those_of_the_other_languages() {
    let place = Place::new(
        "import os, subprocess, sys
open('/tmp/tool', 'w').write('#!/bin/sh\\necho from the tool\\n')
os.chmod('/tmp/tool', 0o751)
print(oct(os.stat('/tmp/tool').st_mode))
for command in ['stat -c %a /tmp/tool', '/tmp/tool', 'chmod 640 /tmp/tool; [ -x /tmp/tool ] || echo not executable']:
    print(subprocess.run(command, shell=True, capture_output=True, text=True).stdout, end='')
print(oct(os.stat('/tmp/tool').st_mode))
js = 'const fs = require(\"fs\"); console.log(fs.statSync(\"/tmp/tool\").mode.toString(8)); fs.chmodSync(\"/tmp/tool\", 0o444)'
print(subprocess.run(['node', '-e', js], capture_output=True, text=True).stdout, end='')
print(oct(os.stat('/tmp/tool').st_mode), os.access('/tmp/tool', os.X_OK))",
    );
    assert_eq!(
        place.prints(&["main"]),
        "0o100751\n751\nfrom the tool\nnot executable\n0o100640\n100640\n0o100444 False\n"
    );
}

#[test]
fn a_large_skill_runs_if_the_operator_raises_its_size() {
    let place = Place::new("import os; print(len(os.listdir('/tmp/.claude/skills/py/data')))");
    place.write("data/large", &"x".repeat(11 << 20));
    let refused = place.run(&["main"]);
    assert!(
        refused.status.code() == Some(65) && text(&refused.stderr).contains("`--skill-size SIZE`"),
        "{refused:?}"
    );
    assert_eq!(place.prints(&["main", "--skill-size", "12MiB"]), "1\n");
    std::fs::write(place.user.work().join("policy.yaml"), "skill-size: 12MiB\n").unwrap();
    assert_eq!(place.prints(&["main", "--policy", "policy.yaml"]), "1\n");
    let beyond = place.run(&["main", "--skill-size", "1GiB"]);
    assert!(text(&beyond.stderr).contains("not between 1 and 256 MiB"), "{beyond:?}");
}

#[test]
fn a_lower_stack_limit_of_the_operator_applies() {
    let place = Place::new("import json\nx = []\nfor _ in range(100000): x = [x]\njson.dumps(x)");
    std::fs::write(place.user.work().join("policy.yaml"), "limits: { stack: 256KiB }\n").unwrap();
    let explained = place.prints(&["main", "--policy", "policy.yaml", "--explain"]);
    assert!(
        explained.contains("it needs 128 MiB of stack and the limit `stack` is 256 KiB"),
        "{explained}"
    );
    let run = place.run(&["main", "--policy", "policy.yaml"]);
    assert!(
        run.status.code() == Some(125)
            && text(&run.stderr).contains("the limit `stack` of 256 KiB, set by `limits` at "),
        "{run:?}"
    );
    assert!(place.prints(&["main", "--explain"]).contains("stack 128 MiB"));
}

#[test]
fn output_before_a_timeout_is_kept() {
    let place =
        Place::new("print('begun')\nprint('unfinished', end='', flush=True)\nwhile True: pass");
    let run = place.run(&["main", "--timeout", "3s", "--json"]);
    let outcome: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(
        (&outcome["stdout"], run.status.code()),
        (&"begun\nunfinished".into(), Some(124)),
        "{outcome:#}"
    );
}

#[test]
fn the_root_and_the_devices_exist() {
    let place = Place::new(
        "import os, stat, subprocess, shutil
print(os.listdir('/'), os.listdir('/dev'), os.listdir('/tmp/.claude/skills/py'))
with open(os.devnull, 'w') as null: null.write('x' * 100000)
print(repr(open('/dev/null').read()), open('/dev/zero', 'rb').read(3), len(set(open('/dev/urandom', 'rb').read(64))) > 9)
print(stat.S_ISCHR(os.stat('/dev/null').st_mode), os.path.isdir('/'), os.path.exists('/etc/passwd'), shutil.which('python3'))
print(open(os.path.expanduser('~/.claude/skills/py/scripts/main.py')).readline(), end='')
for path in ['/x', '/etc/passwd', '/dev/x', '/tmp/.claude/skills/py/x']:
    try: open(path, 'w')
    except OSError as error: print(error.errno)",
    );
    let run = place.run(&["main"]);
    let expected = "\
['dev', 'etc', 'skill', 'tmp', 'usr'] ['null', 'random', 'urandom', 'zero'] ['SKILL.md', 'scripts']
'' b'\\x00\\x00\\x00' True
True True True /usr/bin/python3
import os, stat, subprocess, shutil
30
30
30
30
";
    assert_eq!(text(&run.stdout), expected, "{}", text(&run.stderr));
}

#[test]
fn a_folder_of_packages_is_mounted_read_only_and_reported() {
    let place = Place::new(
        "import os\nfolder = os.environ['SKILLHOST_SITE_PACKAGES']\nprint(folder, os.listdir(folder))\nopen(folder + '/x', 'w')",
    );
    std::fs::create_dir(place.user.work().join("packages")).unwrap();
    std::fs::write(place.user.work().join("packages/own.py"), "").unwrap();
    let run = place.run(&["main", "--site-packages", "packages"]);
    assert_eq!(text(&run.stdout), "/usr/local/lib/site-packages/1 ['own.py']\n");
    assert!(text(&run.stderr).contains("Read-only file system"), "{run:?}");
    let explained = place.prints(&["main", "--site-packages", "packages", "--explain"]);
    let folder = place.user.work().join("packages").canonicalize().unwrap();
    assert!(
        explained.contains(&format!("/usr/local/lib/site-packages/1 = {}", folder.display())),
        "{explained}"
    );
    let record = place.user.records().pop().unwrap();
    assert_eq!(record["capabilities"]["packages"][0]["host"], folder.to_str().unwrap());
    let denied =
        place.run(&["main", "--site-packages", "packages", "--deny", "Read(/usr/local/**)"]);
    assert!(text(&denied.stderr).contains("FileNotFoundError"), "{denied:?}");
    let refused = place.run(&["main", "--site-packages", "../home/."]);
    assert!(
        refused.status.code() == Some(77)
            && text(&refused.stderr).contains("help: --site-packages /"),
        "{refused:?}"
    );
}

#[test]
fn the_record_names_the_program_and_the_script() {
    let place = Place::new("print(1)");
    place.prints(&["main", "--", "secret"]);
    let record = place.user.records().pop().unwrap();
    let script = std::fs::read(place.user.work().join("py/scripts/main.py")).unwrap();
    let program = &record["program"];
    assert_eq!(
        (&program["name"], &program["script"]["path"]),
        (&"python3".into(), &"scripts/main.py".into())
    );
    assert_eq!(program["script"]["digest"], skillhost_skill::runtime::digest(&script));
    assert!(program["version"].as_str().unwrap().starts_with("3.14"), "{record:#}");
    assert!(!record.to_string().contains("secret"));
}

#[test]
fn the_shells_commands_are_started_by_name() {
    let place = Place::new(
        "import shutil, subprocess
def run(*argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, **more)
    print(argv[0], done.returncode, repr(done.stdout))
run('jq', '-c', '.a', input='{\"a\": [1]}')
run('/usr/bin/sort', '-r', input='a\\nb\\n')
run('sleep', '0.01')
run('grep', 'x', input='a')
run('test', '1', '=', '2')
run('echo', 'a b', '$x', '*', \"'\")
run('find', '.', '-name', '*.txt', '-exec', 'cat', '{}', '+', cwd='/skill/texts')
run('cat', stdin=subprocess.DEVNULL)
yes = subprocess.Popen(['yes'], stdout=subprocess.PIPE)
head = subprocess.Popen(['head', '-n', '2'], stdin=yes.stdout, stdout=subprocess.PIPE)
yes.stdout.close()
print(head.communicate()[0], yes.wait() != 0, shutil.which('awk'))
try: subprocess.run(['./sort'])
except FileNotFoundError as error: print(error.filename)
try: subprocess.run(['cp', 'a', 'b'])
except PermissionError as error: print(error.filename)",
    );
    let tools = ["jq", "sort", "sleep", "grep", "test", "echo", "find", "cat", "yes", "head"]
        .map(|name| format!("Bash({name}:*)"));
    place.write(
        "SKILL.md",
        &format!(
            "---\nname: py\ndescription: Tests Python. Use to test.\nallowed-tools: {}\n---\n",
            tools.join(" ")
        ),
    );
    place.write("texts/a b.txt", "text\n");
    let allow: Vec<&str> = tools.iter().flat_map(|tool| ["--allow", tool]).collect();
    let run = place.run(&[&["main"], &allow[..]].concat());
    let expected = "\
jq 0 '[1]\\n'
/usr/bin/sort 0 'b\\na\\n'
sleep 0 ''
grep 1 ''
test 1 ''
echo 0 \"a b $x * '\\n\"
find 0 'text\\n'
cat 0 ''
b'y\\ny\\n' True /usr/bin/awk
./sort
cp
";
    assert_eq!(text(&run.stdout), expected, "{}", text(&run.stderr));
}

#[test]
fn command_entries_do_not_allow_files_of_the_same_name() {
    let place = Place::new(
        "import subprocess
for argv in ['jq', '-n', '1'], ['/skill/scripts/jq'], ['./jq']:
    try: print(subprocess.run(argv, capture_output=True, text=True, cwd='/skill/scripts').stdout)
    except OSError as error: print(type(error).__name__)",
    );
    place.write("scripts/jq", "#!/bin/sh\necho own\n");
    let run = |tools: &str| {
        place.write("SKILL.md", &format!("---\nname: py\ndescription: Tests Python. Use to test.\nallowed-tools: {tools}\n---\n"));
        let allow: Vec<&str> = tools.split(' ').flat_map(|tool| ["--allow", tool]).collect();
        text(&place.run(&[&["main"], &allow[..]].concat()).stdout)
    };
    assert_eq!(run("Bash(jq:*)"), "1\n\nPermissionError\nPermissionError\n");
    assert_eq!(run("Bash(jq:*) Bash(sh:*)"), "1\n\nown\n\nown\n\n");
}

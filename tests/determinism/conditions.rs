//! The conditions of a run: everything on the host that could influence a guest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tempfile::TempDir;

use super::RunResult;
use super::programs::{self, Program, Target, files};
use crate::cli::repository;
use crate::hostile_host::hostile;

/// The conditions of one turn, in which each program runs once.
#[derive(Debug, Clone)]
pub struct Conditions {
    turn: usize,
    /// The number of programs that run at the same time.
    pub at_once: usize,
    /// The number of threads that keep the processors busy.
    pub load: usize,
    timezone: &'static str,
    language: &'static str,
    /// Whether the runs are those of the user `nobody`. Requires root.
    other_user: bool,
    /// Whether the cache of compiled components is empty.
    fresh_cache: bool,
    /// Whether the runs are not deterministic.
    live: bool,
    /// Whether the runs have receipts. Then the host reads stdin before the run, and not during it.
    has_receipts: bool,
    /// The processor, if it is not this machine's.
    processor: Option<Processor>,
}

/// An emulated processor.
#[derive(Debug, Clone)]
pub struct Processor {
    pub emulator: PathBuf,
    /// The model and its features, as qemu names them.
    pub model: String,
    /// The cache of components that were compiled for it.
    pub cache: PathBuf,
}

impl Processor {
    /// Returns a command that starts the host on this processor.
    pub fn host(&self) -> Command {
        let mut command = Command::new(&self.emulator);
        command.args(["-cpu", &self.model, env!("CARGO_BIN_EXE_skillhost")]);
        command
    }
}

impl Conditions {
    /// Returns the conditions of a turn. Turn 0 has the usual ones; turn 1 changes all except
    /// the cache and the load.
    pub fn of(turn: usize) -> Conditions {
        let pick = |values: &[&'static str]| values[turn % values.len()];
        Conditions {
            turn,
            at_once: if turn == 0 { 1 } else { 2 + turn % 3 },
            load: turn / 2 % 3,
            timezone: pick(&["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Chatham"]),
            language: pick(&["C", "de_DE.UTF-8", "tr_TR.UTF-8"]),
            other_user: turn % 4 == 1,
            fresh_cache: turn % 16 == 3,
            live: false,
            has_receipts: false,
            processor: None,
        }
    }

    /// The conditions of runs with receipts on a processor: `None` is this machine's.
    pub fn on(processor: Option<&Processor>) -> Conditions {
        let processor = processor.cloned();
        Conditions { at_once: 2, has_receipts: true, processor, ..Conditions::of(0) }
    }

    /// The conditions of runs that are not deterministic.
    pub fn live() -> Conditions {
        Conditions { live: true, ..Conditions::of(0) }
    }
}

/// The folders and the user of a turn.
pub struct Environment {
    conditions: Conditions,
    folder: TempDir,
    cache: PathBuf,
    user: Option<u32>,
}

/// The number of the user without rights.
const NOBODY: u32 = 65_534;

impl Environment {
    #[expect(clippy::print_stderr, reason = "reports a part that this machine cannot test")]
    pub fn new(conditions: &Conditions) -> Environment {
        // Each turn has another folder, with a longer name.
        let name = format!("turn{}{}-", conditions.turn, "x".repeat(conditions.turn * 7 % 40));
        let folder = tempfile::Builder::new().prefix(&name).tempdir().unwrap();
        open_to_all(folder.path());
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("determinism");
        let user =
            conditions.other_user.then_some(NOBODY).filter(|user| can_run_as(*user, folder.path()));
        if conditions.other_user && user.is_none() {
            eprintln!(
                "not tested: another user, which requires root and a repository that all users can read"
            );
        }
        let cache = match (&conditions.processor, user, conditions.fresh_cache) {
            (Some(processor), ..) => processor.cache.clone(),
            (None, None, false) => shared.clone(),
            _ => folder.path().join("cache"),
        };
        let environment = Environment { conditions: conditions.clone(), cache, user, folder };
        environment.create_skills();
        if user.is_some() && !conditions.fresh_cache {
            copy_cache(&shared, &environment.cache);
        }
        fs::create_dir_all(&environment.cache).unwrap();
        give_to(&environment.cache, environment.user);
        environment
    }

    /// Creates the skills, each time in another folder and with the files in another order.
    fn create_skills(&self) {
        let mut rng = self.rng(0);
        let skills = self.folder.path().join("skills");
        copy_shuffled(
            &programs::folder().join("scripts"),
            &skills.join("determinism/scripts"),
            &mut rng,
        );
        fs::copy(programs::folder().join("SKILL.md"), skills.join("determinism/SKILL.md")).unwrap();
        fs::create_dir_all(skills.join("hostile")).unwrap();
        fs::write(skills.join("hostile/hostile.wasm"), hostile()).unwrap();
        let manifest = "---\nname: hostile\ndescription: Attacks. Use to test.\nmetadata:\n  component: hostile.wasm\n---\n";
        fs::write(skills.join("hostile/SKILL.md"), manifest).unwrap();
    }

    /// Adds a script to the skill.
    pub fn add_script(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join("skills/determinism/scripts").join(name), text).unwrap();
    }

    /// Runs a program in a folder of its own.
    pub fn run(&self, program: &Program, number: u64) -> RunResult {
        let mut rng = self.rng(number + 1);
        let own_folder =
            self.folder.path().join(format!("{number}{}", "y".repeat(self.conditions.turn % 5)));
        let at = |name: &str| own_folder.join(name);
        for name in ["home", "tmp", "one", "two", "here"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        copy_shuffled(&programs::folder().join("workspace"), &at("workspace"), &mut rng);
        fs::write(at("one/x"), "x").unwrap();
        fs::write(at("two/y"), "y").unwrap();
        fs::write(at("policy.yaml"), self.policy(&own_folder)).unwrap();
        give_to(&own_folder, self.user);
        let result = self.start(program, &own_folder, &mut rng);
        fs::remove_dir_all(&own_folder).unwrap();
        result
    }

    fn policy(&self, folder: &Path) -> String {
        let mut mounts = ["one", "two"].map(|name| {
            format!("{{ host: {}, guest: /data/{name} }}", folder.join(name).display())
        });
        if self.conditions.turn % 2 == 1 {
            mounts.reverse();
        }
        let start = format!(
            "deterministic: {}\nseed: 42\nstart-time: 2027-05-06T07:08:09Z\n",
            !self.conditions.live
        );
        let allow = "Read, Write, Bash, \"WebFetch(domain:api.example.com)\"";
        format!("{start}default:\n  allow: [{allow}]\n  mounts: [{}]\n", mounts.join(", "))
    }

    fn start(&self, program: &Program, folder: &Path, rng: &mut TestRng) -> RunResult {
        let at = |name: &str| folder.join(name);
        let mut command = match &self.conditions.processor {
            Some(processor) => processor.host(),
            None => Command::new(env!("CARGO_BIN_EXE_skillhost")),
        };
        let skill = |name: &str| self.folder.path().join("skills").join(name);
        command.arg("run");
        match &program.target {
            Target::Script(name) => {
                command.arg(skill("determinism")).arg(format!("scripts/{name}"))
            }
            Target::Component(_) => command.arg(skill("hostile")),
        };
        command
            .arg("--policy")
            .arg(at("policy.yaml"))
            .arg("--workspace")
            .arg(at("workspace"))
            .arg("--audit")
            .arg(at("audit"));
        // However busy the machine is, only the program itself ends the run.
        command.arg("--timeout").arg("20m").arg("--programs").arg(repository("target/components"));
        if self.conditions.has_receipts {
            command.arg("--receipt").arg(at("receipt"));
        }
        command.args(program.fuel.iter().flat_map(|fuel| ["--fuel".to_owned(), fuel.to_string()]));
        if let Target::Component(args) = &program.target {
            command.arg("--").args(args);
        }
        command
            .env_clear()
            .env("HOME", at("home"))
            .env("TMPDIR", at("tmp"))
            .env("XDG_CACHE_HOME", &self.cache);
        command
            .env("TZ", self.conditions.timezone)
            .env("LANG", self.conditions.language)
            .env("LC_ALL", self.conditions.language);
        command
            .env("PYTHONHASHSEED", rng.next_u32().to_string())
            .env("RANDOM", rng.next_u32().to_string());
        command
            .env(format!("NOISE_{}", self.conditions.turn), "n".repeat(self.conditions.turn * 100))
            .env("USER", "somebody");
        command.current_dir(if self.conditions.turn.is_multiple_of(2) {
            at("here")
        } else {
            folder.to_owned()
        });
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        // Digests in a record are keyed. By default each log generates its key.
        fs::write(at("audit.key"), "5a".repeat(32)).unwrap();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let pieces = pieces(&fs::read(programs::folder().join("stdin.txt")).unwrap(), rng);
        let feed = std::thread::spawn(move || feed(stdin, &pieces));
        let output = child.wait_with_output().unwrap();
        feed.join().unwrap();
        let record = fs::read_to_string(at("audit"))
            .unwrap_or_else(|e| panic!("{}: {e}: {output:?}", program.name));
        let mut record = crate::cli::ends(&record).remove(0);
        // The position in the chain, the digest, which covers the times, and the operator.
        ["run", "sequence", "previous", "digest", "user"]
            .into_iter()
            .for_each(|key| drop(record.as_object_mut().unwrap().remove(key)));
        scrub(&mut record);
        let mut tree = BTreeMap::new();
        read_tree(&at("workspace"), &at("workspace"), &mut tree);
        RunResult {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr.clone(),
            tree,
            record,
            receipt: self.conditions.has_receipts.then(|| {
                fs::read_to_string(at("receipt")).unwrap_or_else(|e| {
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    panic!("{} has no receipt: {e}: {stderr}", program.name)
                })
            }),
        }
    }

    fn rng(&self, number: u64) -> TestRng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(self.conditions.turn as u64).to_le_bytes());
        seed[8..16].copy_from_slice(&number.to_le_bytes());
        TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
    }
}

/// Removes times, durations and host paths.
fn scrub(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            ["time", "wall_ms", "host", "device", "inode"]
                .into_iter()
                .for_each(|key| drop(map.remove(key)));
            map.values_mut().for_each(scrub);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(scrub),
        _ => {}
    }
}

/// Splits bytes into pieces of random sizes.
fn pieces(bytes: &[u8], rng: &mut TestRng) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(1 + rng.next_u32() as usize % 20));
        pieces.push(piece.to_vec());
        rest = more;
    }
    pieces
}

/// Writes the pieces. Stops if the program ends without reading, which breaks the pipe.
fn feed(mut stdin: std::process::ChildStdin, pieces: &[Vec<u8>]) {
    for piece in pieces {
        if stdin.write_all(piece).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies a folder. Creates its files in random order, with random times.
fn copy_shuffled(from: &Path, to: &Path, rng: &mut TestRng) {
    fs::create_dir_all(to).unwrap();
    let mut paths = files(from);
    for at in (1..paths.len()).rev() {
        paths.swap(at, rng.next_u32() as usize % (at + 1));
    }
    for path in paths {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_shuffled(&path, &copy, rng);
        } else {
            fs::write(&copy, fs::read(&path).unwrap()).unwrap();
            let age = Duration::from_secs(u64::from(rng.next_u32()));
            File::options()
                .append(true)
                .open(&copy)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH + age)
                .unwrap();
        }
    }
}

fn read_tree(root: &Path, folder: &Path, tree: &mut BTreeMap<String, Vec<u8>>) {
    for path in files(folder) {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            tree.insert(format!("{name}/"), Vec::new());
            read_tree(root, &path, tree);
        } else {
            tree.insert(name, fs::read(&path).unwrap());
        }
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Checks whether a user can start the host and read the runtimes.
fn can_run_as(user: u32, folder: &Path) -> bool {
    let sees = Command::new("test")
        .arg("-r")
        .arg(repository("target/components/python.wasm"))
        .uid(user)
        .gid(user)
        .status();
    let starts = Command::new(env!("CARGO_BIN_EXE_skillhost"))
        .arg("--version")
        .current_dir(folder)
        .uid(user)
        .gid(user)
        .output();
    sees.is_ok_and(|status| status.success()) && starts.is_ok_and(|output| output.status.success())
}

/// Copies a cache of compiled components, which identifies them by their contents.
pub fn copy_cache(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in files(from) {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_cache(&path, &copy);
        } else if !path.to_string_lossy().ends_with(".tmp") {
            // Parallel tests remove entries.
            fs::copy(&path, &copy).ok();
        }
    }
}

/// Makes a user the owner of a folder and its contents.
fn give_to(path: &Path, user: Option<u32>) {
    let Some(user) = user else { return };
    if path.exists() {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    }
    if path.is_dir() {
        files(path).iter().for_each(|path| give_to(path, Some(user)));
    }
}

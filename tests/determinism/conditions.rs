//! What is different around a run: everything that a host could let through.

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

use super::Came;
use super::programs::{self, Program, Runs, files};
use crate::cli::repository;
use crate::hostile_host::hostile;

/// The conditions of one turn.
#[derive(Debug, Clone)]
pub struct Around {
    turn: usize,
    /// Programs that run at the same time.
    pub at_once: usize,
    /// Threads that keep the processors busy meanwhile.
    pub load: usize,
    timezone: &'static str,
    language: &'static str,
    /// Nobody, where this is root.
    other_user: bool,
    /// Everything is compiled anew.
    fresh_cache: bool,
    /// Not deterministic at all.
    live: bool,
}

impl Around {
    /// The first turn is the plain one.
    pub fn of(turn: usize) -> Around {
        let pick = |of: &[&'static str]| of[turn % of.len()];
        Around {
            turn,
            at_once: if turn == 0 { 1 } else { 2 + turn % 3 },
            load: turn % 3,
            timezone: pick(&["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Chatham"]),
            language: pick(&["C", "de_DE.UTF-8", "tr_TR.UTF-8"]),
            other_user: turn % 4 == 2,
            fresh_cache: turn % 16 == 1,
            live: false,
        }
    }

    /// A turn of runs that are not deterministic.
    pub fn live() -> Around {
        Around { live: true, ..Around::of(0) }
    }
}

/// Where the runs of a turn take place.
pub struct Place {
    around: Around,
    folder: TempDir,
    cache: PathBuf,
    user: Option<u32>,
}

/// Who has no rights.
const NOBODY: u32 = 65_534;

impl Place {
    #[expect(clippy::print_stderr, reason = "a test that does less must not pass in silence")]
    pub fn new(around: &Around) -> Place {
        // Longer and longer names, in another folder each time.
        let name = format!("turn{}{}-", around.turn, "x".repeat(around.turn * 7 % 40));
        let folder = tempfile::Builder::new().prefix(&name).tempdir().unwrap();
        open_to_all(folder.path());
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("determinism");
        let user = around.other_user.then_some(NOBODY).filter(|user| can_be(*user, folder.path()));
        if around.other_user && user.is_none() {
            eprintln!(
                "not tested: another user; that takes root, and a repository that all may read"
            );
        }
        let cache = match (user, around.fresh_cache) {
            (None, false) => shared.clone(),
            _ => folder.path().join("cache"),
        };
        let place = Place { around: around.clone(), cache, user, folder };
        place.fill_skills();
        if user.is_some() && !around.fresh_cache {
            copy_cache(&shared, &place.cache);
        }
        own(&place.cache, place.user);
        place
    }

    /// The skills, as other folders with their files made in another order.
    fn fill_skills(&self) {
        let mut chance = self.chance(0);
        let skills = self.folder.path().join("skills");
        copy_shuffled(
            &programs::folder().join("scripts"),
            &skills.join("determinism/scripts"),
            &mut chance,
        );
        fs::copy(programs::folder().join("SKILL.md"), skills.join("determinism/SKILL.md")).unwrap();
        fs::create_dir_all(skills.join("hostile")).unwrap();
        fs::write(skills.join("hostile/hostile.wasm"), hostile()).unwrap();
        let manifest = "---\nname: hostile\ndescription: Asks. Use to test.\nmetadata:\n  component: hostile.wasm\n---\n";
        fs::write(skills.join("hostile/SKILL.md"), manifest).unwrap();
    }

    /// One more script of the skill.
    pub fn add_script(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join("skills/determinism/scripts").join(name), text).unwrap();
    }

    /// Runs a program in a folder of its own.
    pub fn run(&self, program: &Program, number: u64) -> Came {
        let mut chance = self.chance(number + 1);
        let own_folder =
            self.folder.path().join(format!("{number}{}", "y".repeat(self.around.turn % 5)));
        let at = |name: &str| own_folder.join(name);
        for name in ["home", "tmp", "one", "two", "here"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        copy_shuffled(&programs::folder().join("workspace"), &at("workspace"), &mut chance);
        fs::write(at("one/x"), "x").unwrap();
        fs::write(at("two/y"), "y").unwrap();
        fs::write(at("policy.yaml"), self.policy(&own_folder)).unwrap();
        own(&own_folder, self.user);
        let came = self.start(program, &own_folder, &mut chance);
        fs::remove_dir_all(&own_folder).unwrap();
        came
    }

    fn policy(&self, folder: &Path) -> String {
        let mut mounts = ["one", "two"].map(|name| {
            format!("{{ host: {}, guest: /data/{name} }}", folder.join(name).display())
        });
        if self.around.turn % 2 == 1 {
            mounts.reverse();
        }
        let start = format!(
            "deterministic: {}\nseed: 42\nstart-time: 2027-05-06T07:08:09Z\n",
            !self.around.live
        );
        let allow = "Read, Write, Bash, \"WebFetch(domain:api.example.com)\"";
        format!("{start}default:\n  allow: [{allow}]\n  mounts: [{}]\n", mounts.join(", "))
    }

    fn start(&self, program: &Program, folder: &Path, chance: &mut TestRng) -> Came {
        let at = |name: &str| folder.join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
        let skill = |name: &str| self.folder.path().join("skills").join(name);
        command.arg("run");
        match &program.runs {
            Runs::Script(name) => command.arg(skill("determinism")).arg(format!("scripts/{name}")),
            Runs::Component(_) => command.arg(skill("hostile")),
        };
        command
            .arg("--policy")
            .arg(at("policy.yaml"))
            .arg("--workspace")
            .arg(at("workspace"))
            .arg("--audit")
            .arg(at("audit"));
        // Nothing but the program itself is to end it, however busy the machine is.
        command.arg("--timeout").arg("20m").arg("--programs").arg(repository("target/components"));
        command.args(program.fuel.iter().flat_map(|fuel| ["--fuel".to_owned(), fuel.to_string()]));
        if let Runs::Component(args) = &program.runs {
            command.arg("--").args(args);
        }
        command
            .env_clear()
            .env("HOME", at("home"))
            .env("TMPDIR", at("tmp"))
            .env("XDG_CACHE_HOME", &self.cache);
        command
            .env("TZ", self.around.timezone)
            .env("LANG", self.around.language)
            .env("LC_ALL", self.around.language);
        command
            .env("PYTHONHASHSEED", chance.next_u32().to_string())
            .env("RANDOM", chance.next_u32().to_string());
        command
            .env(format!("NOISE_{}", self.around.turn), "n".repeat(self.around.turn * 100))
            .env("USER", "somebody");
        command.current_dir(if self.around.turn.is_multiple_of(2) {
            at("here")
        } else {
            folder.to_owned()
        });
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        // The digests of a record are keyed, and each log has a key of its own.
        fs::write(at("audit.key"), "5a".repeat(32)).unwrap();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let pieces = pieces(&fs::read(programs::folder().join("stdin.txt")).unwrap(), chance);
        let feed = std::thread::spawn(move || feed(stdin, &pieces));
        let output = child.wait_with_output().unwrap();
        feed.join().unwrap();
        let record = fs::read_to_string(at("audit"))
            .unwrap_or_else(|e| panic!("{}: {e}: {output:?}", program.name));
        let mut record = crate::cli::ends(&record).remove(0);
        // Where it stands in the chain; the digest is over the times too.
        ["run", "sequence", "previous", "digest"]
            .into_iter()
            .for_each(|key| drop(record.as_object_mut().unwrap().remove(key)));
        scrub(&mut record);
        let mut tree = BTreeMap::new();
        read_tree(&at("workspace"), &at("workspace"), &mut tree);
        Came {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr,
            tree,
            record,
        }
    }

    fn chance(&self, number: u64) -> TestRng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(self.around.turn as u64).to_le_bytes());
        seed[8..16].copy_from_slice(&number.to_le_bytes());
        TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
    }
}

/// What says when and where, and how long it took.
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

/// The same bytes in pieces of other sizes.
fn pieces(bytes: &[u8], chance: &mut TestRng) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(1 + chance.next_u32() as usize % 20));
        pieces.push(piece.to_vec());
        rest = more;
    }
    pieces
}

/// One that ends without reading breaks the pipe.
fn feed(mut stdin: std::process::ChildStdin, pieces: &[Vec<u8>]) {
    for piece in pieces {
        if stdin.write_all(piece).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies a folder; its files are made in another order, and are of another age.
fn copy_shuffled(from: &Path, to: &Path, chance: &mut TestRng) {
    fs::create_dir_all(to).unwrap();
    let mut paths = files(from);
    for at in (1..paths.len()).rev() {
        paths.swap(at, chance.next_u32() as usize % (at + 1));
    }
    for path in paths {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_shuffled(&path, &copy, chance);
        } else {
            fs::write(&copy, fs::read(&path).unwrap()).unwrap();
            let age = Duration::from_secs(u64::from(chance.next_u32()));
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

/// Whether another user can start the host, and read what it stands on.
fn can_be(user: u32, folder: &Path) -> bool {
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

/// Compiled components stay usable where they are copied whole: their bytes decide.
fn copy_cache(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in files(from) {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_cache(&path, &copy);
        } else if !path.to_string_lossy().ends_with(".tmp") {
            // Another test's may be gone again.
            fs::copy(&path, &copy).ok();
        }
    }
}

/// Gives a folder with all in it to a user.
fn own(path: &Path, user: Option<u32>) {
    let Some(user) = user else { return };
    if path.exists() {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    }
    if path.is_dir() {
        files(path).iter().for_each(|path| own(path, Some(user)));
    }
}

//! A script with its environment, and the result of running it, natively and in the sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use skillhost_policy::case::CaseTarget;
use skillhost_skill::cases::SkillCase;
use tempfile::TempDir;

use super::api::Api;
use crate::cli::{pinned, repository};

/// The file `case.yaml` of these tests.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Relative to the skill's folder.
    pub script: String,
    /// The name of an example skill [default: the folder `skill` of the case].
    #[serde(default, rename = "skill")]
    skill_name: Option<String>,
    /// In these and in the values of `env`, `{skill}` is the skill's folder and `{api}` the address
    /// of the test's server.
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The exit code natively.
    #[serde(default)]
    pub exit: i32,
    #[serde(skip)]
    pub folder: PathBuf,
    #[serde(skip)]
    pub skill: PathBuf,
    /// The case of `skillhost test` that this is.
    #[serde(skip)]
    own: Option<SkillCase>,
}

/// The result of a run.
pub struct RunResult {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub files: Files,
}

/// The files of the workspace by path; folders end with `/`.
type Files = BTreeMap<String, Vec<u8>>;

/// The machine's own interpreters.
pub struct Machine {
    /// The folder of python3, then the system's folders.
    path: String,
    /// A copy of the packages that the sandbox has. The machine's Python may have startup hooks
    /// that change packages in place (such as those that add a company's certificates to
    /// `certifi`), and the packages' content is part of each receipt.
    packages: TempDir,
}

/// The scratch folders of one run.
struct Place {
    // Dropping it removes the folders.
    _folder: TempDir,
    root: PathBuf,
}

impl Case {
    pub fn read(folder: &Path) -> Case {
        let file = folder.join("case.yaml");
        let text = fs::read_to_string(&file).unwrap();
        let case: Case = serde_saphyr::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let skill = match &case.skill_name {
            Some(name) => repository("skills").join(name),
            None => folder.join("skill"),
        };
        Case { folder: folder.to_owned(), skill, ..case }
    }

    /// Reads the cases of an example skill that run a script. Nothing is denied natively, so cases
    /// of denials are left out.
    pub fn of_skill(name: &str) -> Vec<Case> {
        let skill = repository("skills").join(name);
        let cases =
            skillhost_skill::cases::read(&skill).unwrap_or_else(|error| panic!("{error:?}"));
        let read = |own: SkillCase| {
            let CaseTarget::Script(script) = own.case.target.clone() else { return None };
            if !own.case.expect.denials.is_empty() {
                return None;
            }
            Some(Case {
                script,
                args: own.case.args.clone(),
                exit: own.case.expect.exit.into(),
                folder: own.path.parent().unwrap().to_owned(),
                skill: skill.clone(),
                own: Some(own),
                ..Case::default()
            })
        };
        cases.into_iter().filter_map(read).collect()
    }

    /// Checks that a native run gives what the case of `skillhost test` expects.
    pub fn check(&self, native: &RunResult) -> Result<(), String> {
        let Some(own) = &self.own else {
            return pinned(&self.folder.join("expected"), &native.text());
        };
        match own.case.expect.stdout.matches(&native.stdout) {
            true => Ok(()),
            false => Err(format!("natively it prints\n{}", native.text())),
        }
    }

    pub fn name(&self) -> String {
        self.folder.strip_prefix(repository("")).unwrap().display().to_string()
    }

    /// The files at the start of a run.
    pub fn initial_files(&self) -> Files {
        let mut files = Files::new();
        let folder = self.folder.join("workspace");
        if folder.is_dir() {
            list(&folder, &folder, &mut files);
        }
        for (path, text) in self.own.iter().flat_map(|own| &own.case.workspace) {
            files.insert(path.clone(), text.clone().into_bytes());
        }
        files
    }

    pub fn run_natively(&self, machine: &Machine, api: &Api) -> RunResult {
        let place = Place::new(self);
        let (skill, tmp) = (place.root.join("skill"), place.root.join("tmp"));
        let interpreter = if self.script.ends_with(".py") { "python3" } else { "bash" };
        let mut command = Command::new("/usr/bin/env");
        command
            .arg(interpreter)
            .arg(skill.join(&self.script))
            .args(self.args.iter().map(|arg| {
                // A case of `skillhost test` names the skill's files as the sandbox does.
                match arg.strip_prefix("/skill/").filter(|_| self.own.is_some()) {
                    Some(rest) => skill.join(rest).to_str().unwrap().to_owned(),
                    None => filled(arg, skill.to_str().unwrap(), api),
                }
            }))
            .env_clear()
            .envs(
                self.env
                    .iter()
                    .map(|(name, value)| (name, filled(value, skill.to_str().unwrap(), api))),
            )
            .env("PATH", &machine.path)
            .env("HOME", &tmp)
            .env("TMPDIR", &tmp)
            .env("CLAUDE_SKILL_DIR", &skill)
            .env("CLAUDE_PLUGIN_ROOT", &skill)
            // Matches the sandbox: UTF-8, UTC, the package set, and no compiled modules beside the
            // scripts.
            .envs([
                ("LC_ALL", "C.UTF-8"),
                ("PYTHONUTF8", "1"),
                ("TZ", "UTC"),
                ("PYTHONDONTWRITEBYTECODE", "1"),
            ])
            .env("PYTHONPATH", machine.packages.path());
        self.finish(command, &place, api)
    }

    pub fn run_sandboxed(&self, api: &Api) -> RunResult {
        let place = Place::new(self);
        let policy = place.root.join("policy.yaml");
        let allow = format!("[Read, Write, Bash, \"WebFetch({})\"]", api.url());
        // A debug build on a loaded machine is slow, and these tests do not measure speed.
        fs::write(&policy, format!("limits: {{ timeout: 5m }}\ndefault:\n  allow: {allow}\n"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
        command
            .arg("run")
            .args([place.root.join("skill").as_path(), Path::new(&self.script)])
            .arg("--policy")
            .arg(&policy)
            .arg("--workspace")
            .arg(place.root.join("workspace"))
            .arg("--audit")
            .arg(place.root.join("audit.jsonl"));
        for (name, value) in &self.env {
            command.arg("--env").arg(format!("{name}={}", filled(value, "/skill", api)));
        }
        command
            .arg("--")
            .args(self.args.iter().map(|arg| filled(arg, "/skill", api)))
            // Kept between runs, so that the runtimes are compiled once.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("TMPDIR", place.root.join("tmp"));
        self.finish(command, &place, api)
    }

    fn finish(&self, mut command: Command, place: &Place, api: &Api) -> RunResult {
        let mut file = self.folder.join("stdin");
        if let Some(own) = &self.own {
            file = place.root.join("stdin");
            fs::write(&file, own.stdin().unwrap()).unwrap();
        }
        let stdin = fs::File::open(file).map_or_else(|_| Stdio::null(), Stdio::from);
        let output =
            command.current_dir(place.root.join("workspace")).stdin(stdin).output().unwrap();
        let mut files = Files::new();
        list(&place.root.join("workspace"), &place.root.join("workspace"), &mut files);
        let normal = |bytes: Vec<u8>| place.normal(bytes, api);
        RunResult {
            code: output.status.code().unwrap_or(-1),
            stdout: normal(output.stdout),
            stderr: String::from_utf8_lossy(&normal(output.stderr)).into_owned(),
            files: files.into_iter().map(|(path, bytes)| (path, normal(bytes))).collect(),
        }
    }
}

impl RunResult {
    /// The exit code and the output.
    pub fn text(&self) -> String {
        format!("exit {}\n{}", self.code, String::from_utf8(self.stdout.clone()).unwrap())
    }
}

impl Machine {
    pub fn find() -> Machine {
        let output =
            Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let output = output.unwrap_or_else(|error| {
            panic!("python3 3.11 or later is needed to compare with: {error}")
        });
        let python = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", python.parent().unwrap().display());
        for tool in ["bash", "jq", "curl", "zip", "unzip"] {
            let there = path.split(':').any(|folder| Path::new(folder).join(tool).is_file());
            assert!(
                there,
                "{tool} is needed to compare with: `apt install bash jq curl zip unzip`"
            );
        }
        let packages = tempfile::tempdir().unwrap();
        copy(&repository("target/components/python-packages"), packages.path());
        Machine { path, packages }
    }
}

impl Place {
    fn new(case: &Case) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        copy(&case.skill, &root.join("skill"));
        if !root.join("skill/SKILL.md").exists() {
            let text =
                "---\nname: skill\ndescription: A script of the tests. Use to compare.\n---\n";
            fs::write(root.join("skill/SKILL.md"), text).unwrap();
        }
        fs::create_dir(root.join("tmp")).unwrap();
        fs::create_dir(root.join("workspace")).unwrap();
        if case.folder.join("workspace").is_dir() {
            copy(&case.folder.join("workspace"), &root.join("workspace"));
        }
        for (path, text) in case.own.iter().flat_map(|own| &own.case.workspace) {
            let file = root.join("workspace").join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Place { _folder: folder, root }
    }

    /// Replaces the scratch folders' paths and the server's address with the names that the sandbox
    /// uses.
    fn normal(&self, bytes: Vec<u8>, api: &Api) -> Vec<u8> {
        // Archives and databases contain no such paths.
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return error.into_bytes(),
        };
        for name in ["skill", "workspace", "tmp"] {
            text = text.replace(self.root.join(name).to_str().unwrap(), &format!("/{name}"));
        }
        text.replace(&format!("127.0.0.1:{}", api.port()), "[api]").into_bytes()
    }
}

fn filled(text: &str, skill: &str, api: &Api) -> String {
    text.replace("{skill}", skill).replace("{api}", &api.url())
}

fn list(root: &Path, at: &Path, files: &mut Files) {
    for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if entry.file_type().unwrap().is_dir() {
            files.insert(name + "/", Vec::new());
            list(root, &path, files);
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

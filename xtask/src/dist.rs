//! `cargo xtask dist`: builds everything that is distributed into `target/dist`.
//!
//! In reading order: [`run`] builds the program and its runtimes, installs them into a stage for each
//! architecture, lets the program load the runtimes' compiled code (`shipped`), adds what goes with it (`notices` has
//! licences and the bill of materials), packs the stage (`tools/dist`), and signs the result.
//! `verify` installs each artifact as its users do.

mod notices;
mod shipped;
mod verify;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use skillhost_toolchain::{Error, Progress, Step};

use crate::machine::{Architecture, Machine};
use crate::{components, host, install, print_line, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sign with this Ed25519 key, in PEM [default: a key for tests, made once in target/dist-key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Then install each artifact in a clean place, and run skills and a server there
    #[arg(long)]
    verify: bool,
    /// Verify the artifacts that are in target/dist, instead of building them
    #[arg(long, requires = "verify", conflicts_with_all = ["key", "skillhost", "aarch64"])]
    built: bool,
    /// Also build the artifacts for 64-bit Arm
    #[arg(long)]
    aarch64: bool,
    /// Pack this program instead of building one
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
}

/// The artifacts' folder, and what is needed on the way.
struct Places {
    root: PathBuf,
    /// Where the artifacts go.
    out: PathBuf,
    /// A home folder for the program, so that the user's policy and skills do not matter.
    home: PathBuf,
}

pub(crate) fn run(options: &Options, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let out = root.join("target/dist");
    if options.built {
        return verify::run(&root, &out, progress);
    }
    let places = Places { home: root.join("target/dist-home"), out, root };
    components::run(progress)?;
    for folder in [&places.out, &places.home] {
        drop(fs::remove_dir_all(folder));
        fs::create_dir_all(folder).map_err(Error::context(folder.display()))?;
    }
    let own = Stage::new(&places, Machine::This);
    let program = own.fill(&places, options.skillhost.as_deref(), progress)?;
    let mut stages = vec![own];
    if options.aarch64 && Architecture::OWN != Architecture::Aarch64 {
        let other = Machine::aarch64(&places.root, progress)?;
        let other = Stage::new(&places, other);
        other.fill(&places, None, progress)?;
        stages.push(other);
    }
    let signer = Signer::new(&places, &program, options.key.as_deref())?;
    progress.step("pack", |step| pack(&places, &stages, &signer, step))?;
    progress.step("sign", |step| sign(&places, &stages[0], &signer, step))?;
    list_artifacts(&places.out)?;
    if options.verify { verify::run(&places.root, &places.out, progress) } else { Ok(()) }
}

impl Places {
    /// Lets a command run the program without the user's files.
    fn command(&self, mut command: Command) -> Command {
        command.env_clear().env("HOME", &self.home).current_dir(&self.root);
        command
    }
}

/// The installation that is packed for a machine: `bin` and `share`.
struct Stage {
    machine: Machine,
    folder: PathBuf,
}

impl Stage {
    fn new(places: &Places, machine: Machine) -> Stage {
        let folder = places.out.join("stage").join(machine.architecture().name());
        Stage { machine, folder }
    }

    /// Builds the program, or takes a built one, installs it with everything that goes with it, and
    /// returns its path.
    fn fill(
        &self,
        places: &Places,
        built: Option<&Path>,
        progress: &Progress,
    ) -> Result<PathBuf, Error> {
        let (root, machine) = (&places.root, &self.machine);
        let name = machine.architecture().name();
        let built = match built {
            Some(program) => program.to_owned(),
            None => progress.step(&format!("build skillhost in release mode: {name}"), |step| {
                host::build(root, machine, step)
            })?,
        };
        let program = progress.step(&format!("install into the stage: {name}"), |step| {
            install::place(root, &built, &self.folder, machine, step)
        })?;
        let share = self.folder.join("share");
        progress.step(
            "compile the runtimes for all processors that the release is for",
            |step| {
                let compiled = share.join("skillhost/compiled");
                let entries = shipped::compile(places, machine, &program, &compiled, step)?;
                shipped::list(&program, entries)
            },
        )?;
        progress.step("completions, manual pages, licences and bill of materials", |step| {
            self.add_documents(places, &program, step)?;
            notices::write(root, machine.architecture(), &share.join("doc/skillhost"), step)
        })?;
        Ok(program)
    }

    /// Writes the completions and the manual pages to where shells and `man` look for them.
    fn add_documents(&self, places: &Places, program: &Path, step: &Step) -> Result<(), Error> {
        let share = self.folder.join("share");
        let command = || places.command(self.machine.command(program));
        for (shell, file) in [
            ("bash", "bash-completion/completions/skillhost"),
            ("zsh", "zsh/site-functions/_skillhost"),
            ("fish", "fish/vendor_completions.d/skillhost.fish"),
        ] {
            let script = step.run(command().args(["completions", shell]))?;
            write(&share.join(file), &script)?;
        }
        step.run(command().args(["man", "--into"]).arg(share.join("man/man1")))?;
        Ok(())
    }
}

/// Signs with the program itself, so that artifacts have the signatures that it verifies.
struct Signer {
    /// The private key, in PEM.
    key: String,
    /// The file of the public key.
    public: PathBuf,
    program: PathBuf,
}

impl Signer {
    /// Uses the operator's key, or one for tests.
    fn new(places: &Places, program: &Path, key: Option<&Path>) -> Result<Signer, Error> {
        let tests = places.root.join("target/dist-key/key.pem");
        if key.is_none() && !tests.is_file() {
            let made = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519"]).output();
            let made = made.map_err(Error::context("openssl"))?;
            if !made.status.success() {
                let said = String::from_utf8_lossy(&made.stderr).into_owned();
                return Err(Error::new(format!("openssl genpkey: {}", said.trim())));
            }
            write_private(&tests, &made.stdout)?;
        }
        let path = key.unwrap_or(&tests);
        let key = fs::read_to_string(path).map_err(Error::context(path.display()))?;
        let public = places.out.join("skillhost.pem");
        let signer = Signer { key, public, program: program.to_owned() };
        let shown = signer.command(places).args(["key", "show"]).output();
        let shown = shown.map_err(Error::context("skillhost key show"))?;
        if !shown.status.success() {
            let said = String::from_utf8_lossy(&shown.stderr).into_owned();
            return Err(Error::new(format!("{}: {}", path.display(), said.trim())));
        }
        write(&signer.public, &shown.stdout)?;
        Ok(signer)
    }

    fn command(&self, places: &Places) -> Command {
        let mut command = places.command(Command::new(&self.program));
        command.env("SKILLHOST_SIGNING_KEY", &self.key);
        command
    }
}

fn pack(places: &Places, stages: &[Stage], signer: &Signer, step: &Step) -> Result<(), Error> {
    let commit = git(&places.root, &["rev-parse", "HEAD"])?;
    let time = git(&places.root, &["log", "-1", "--format=%ct"])?;
    let mut cargo = workspace::cargo(&places.root);
    // Compression takes minutes without optimisation.
    cargo.args(["run", "--quiet", "--release", "--locked", "-p", "skillhost-dist", "--"]);
    for stage in stages {
        let name = stage.machine.architecture().name();
        cargo.arg("--stage").arg(format!("{name}={}", stage.folder.display()));
    }
    cargo.arg("--out").arg(&places.out).arg("--key").arg(&signer.public);
    cargo.args(["--version", env!("CARGO_PKG_VERSION"), "--time", &time, "--commit", &commit]);
    step.run(&mut cargo)?;
    Ok(())
}

/// Signs the manifest, and statements about how the artifacts were made and what is in them.
fn sign(places: &Places, stage: &Stage, signer: &Signer, step: &Step) -> Result<(), Error> {
    let out = &places.out;
    let manifest = out.join("manifest.json");
    let signature =
        step.run(signer.command(places).args(["key", "sign", "--detached"]).arg(&manifest))?;
    write(&out.join("manifest.json.sig"), &signature)?;
    let listed = read_json(&manifest)?;
    let subjects: Vec<Value> = listed["artifacts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|artifact| {
            json!({ "name": artifact["file"], "digest": { "sha256": artifact["sha256"] } })
        })
        .collect();
    let bill = read_json(&stage.folder.join("share/doc/skillhost/sbom.cdx.json"))?;
    for (name, kind, predicate) in [
        ("provenance", "https://slsa.dev/provenance/v1", provenance(&places.root)?),
        ("sbom", "https://cyclonedx.org/bom", bill),
    ] {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": kind,
            "predicate": predicate,
        });
        let unsigned = places.home.join(name);
        write(&unsigned, statement.to_string().as_bytes())?;
        let signed = step.run(signer.command(places).args(["key", "sign"]).arg(&unsigned))?;
        write(&out.join(format!("{name}.intoto.json")), &signed)?;
    }
    Ok(())
}

/// How the artifacts were made, as SLSA provenance 1.0 describes it.
fn provenance(root: &Path) -> Result<Value, Error> {
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let mut rustc = Command::new("rustc");
    let compiler = rustc.arg("--version").output().map_err(Error::context("rustc"))?;
    let mut materials = vec![json!({
        "name": "skillhost",
        "digest": { "gitCommit": commit },
    })];
    for lock in workspace::all(root).iter().map(|folder| folder.join("Cargo.lock")) {
        let Ok(bytes) = fs::read(&lock) else { continue };
        let name = lock.strip_prefix(root).unwrap_or(&lock).display().to_string();
        let digest = crate::sources::digest(&bytes);
        let hex = digest.strip_prefix("sha256:").unwrap_or(&digest);
        materials.push(json!({ "name": name, "digest": { "sha256": hex } }));
    }
    Ok(json!({
        "buildDefinition": {
            "buildType": "urn:skillhost:xtask-dist:v1",
            "externalParameters": { "command": "cargo xtask dist" },
            "internalParameters": {
                "compiler": String::from_utf8_lossy(&compiler.stdout).trim(),
            },
            "resolvedDependencies": materials,
        },
        "runDetails": { "builder": { "id": "urn:skillhost:builder:local" } },
    }))
}

fn list_artifacts(out: &Path) -> Result<(), Error> {
    let manifest = read_json(&out.join("manifest.json"))?;
    for artifact in manifest["artifacts"].as_array().into_iter().flatten() {
        let size = artifact["size"].as_f64().unwrap_or_default() / 1_000_000.0;
        print_line(format!("{size:>9.1} MB  {}", artifact["file"].as_str().unwrap_or_default()));
    }
    print_line(format!("in {}, listed in manifest.json", out.display()));
    Ok(())
}

fn git(root: &Path, args: &[&str]) -> Result<String, Error> {
    let output = Command::new("git").current_dir(root).args(args).output();
    let output = output.map_err(Error::context("git"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(Error::new(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let text = fs::read(path).map_err(Error::context(path.display()))?;
    serde_json::from_slice(&text).map_err(Error::context(path.display()))
}

/// Writes a new file that only its owner can read, and the folders that lead there.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))
        .and_then(|mut file| file.write_all(bytes))
        .map_err(Error::context(path.display()))
}

/// Writes a file, and the folders that lead there.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| fs::write(path, bytes))
        .map_err(Error::context(path.display()))
}

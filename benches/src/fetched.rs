//! Fetched skills, as the command handles them: adding 100 skills from one repository of this machine,
//! where nothing is transferred, and `skillhost ci` of 1,000 median skills (5 files, 29 KB), which reads
//! every byte. The goals are 2 seconds and 1 second.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_toolchain::Error;
use tempfile::TempDir;

/// Measures a program: adding 100 skills from a repository of this machine, and `ci` of 1,000.
///
/// # Errors
/// A command fails.
pub fn fetched(program: &Path) -> Result<String, Error> {
    let (_folder, url) = repository(100)?;
    let add = || User::new(program)?.time(&["add", &url, "--all"]);
    let times = (0..ROUNDS).map(|_| add()).collect::<Result<Vec<_>, Error>>()?;
    let added = row("add 100 skills from one repository", 2.0, &times);
    let (_folder, url) = repository(1000)?;
    let user = User::new(program)?;
    user.time(&["add", &url, "--all"])?;
    let times = (0..ROUNDS).map(|_| user.time(&["ci"])).collect::<Result<Vec<_>, Error>>()?;
    Ok(format!("{added}\n{}", row("ci of 1,000 median skills, warm", 1.0, &times)))
}

/// Samples of each case. The best one has the least of the machine's other work in it.
const ROUNDS: usize = 5;

/// A home folder, and the program.
struct User {
    root: TempDir,
    program: PathBuf,
}

impl User {
    fn new(program: &Path) -> Result<User, Error> {
        let root = folder()?;
        std::fs::create_dir(root.path().join("home")).map_err(Error::context("create a home"))?;
        Ok(User { root, program: program.to_owned() })
    }

    /// Runs the program, and returns its time.
    fn time(&self, args: &[&str]) -> Result<Duration, Error> {
        let start = Instant::now();
        let status = Command::new(&self.program)
            .args(args)
            // No folder of the user counts.
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdout(Stdio::null())
            .status()
            .map_err(Error::context(self.program.display()))?;
        match status.success() {
            true => Ok(start.elapsed()),
            false => Err(Error::new(format!("skillhost {} failed", args.join(" ")))),
        }
    }
}

/// Writes skills of the median size: five files with 29 KB.
fn write(folder: &Path, count: usize) -> std::io::Result<()> {
    for number in 0..count {
        let skill = folder.join(format!("skills/skill-{number:04}"));
        std::fs::create_dir_all(skill.join("scripts"))?;
        let text = |size: usize| {
            format!("# {number}\n{}", "print('a line of a script')\n".repeat(size / 28))
        };
        let skill_md = format!(
            "---\nname: skill-{number:04}\ndescription: One of many. Use to measure.\nallowed-tools: Read\n---\n{}",
            "Read the references before you run a script.\n".repeat(80)
        );
        std::fs::write(skill.join("SKILL.md"), skill_md)?;
        for (name, size) in [
            ("scripts/a.py", 9000),
            ("scripts/b.py", 7000),
            ("scripts/c.py", 5000),
            ("notes.md", 4400),
        ] {
            std::fs::write(skill.join(name), text(size))?;
        }
    }
    Ok(())
}

fn git(folder: &Path, args: &[&str]) -> Result<(), Error> {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(folder)
        .status();
    match status.map_err(Error::context("git"))?.success() {
        true => Ok(()),
        false => Err(Error::new(format!("git {} failed", args.join(" ")))),
    }
}

fn folder() -> Result<TempDir, Error> {
    tempfile::tempdir().map_err(Error::context("create a folder"))
}

fn repository(count: usize) -> Result<(TempDir, String), Error> {
    let folder = folder()?;
    write(folder.path(), count).map_err(Error::context("write skills"))?;
    git(folder.path(), &["init", "-q", "-b", "main"])?;
    git(folder.path(), &["add", "-A"])?;
    git(folder.path(), &["commit", "-q", "-m", "skills"])?;
    git(folder.path(), &["gc", "-q"])?;
    let url = format!("file://{}", folder.path().display());
    Ok((folder, url))
}

fn row(what: &str, goal: f64, times: &[Duration]) -> String {
    let best = times.iter().min().map_or(f64::NAN, Duration::as_secs_f64);
    let verdict = if best < goal { "met" } else { "missed" };
    format!("{what:<40} {best:>7.3} s   goal {goal:.0} s: {verdict}")
}

//! For build scripts: compiles the components of skills that the macro `include_skill!` of the crate
//! `skillhost` embeds, so that the program never waits for the compiler.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), skillhost_build::PrecompileError> {
//!     skillhost_build::precompile("skills/calculator")
//! }
//! ```
//!
//! The code runs on every processor of the target that releases of skillhost support: on x86-64,
//! those since 2013 (x86-64-v3). On another one, and for runs that count fuel or are deterministic,
//! the program compiles the component when it needs it, as if it were not embedded.
//!
//! The compiler runs in the build script, without limits: like every dependency of a program, an
//! embedded skill is trusted while the program is built.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_sandbox::{Architecture, compile_to_embed};
use skillhost_skill::embedded::code_file;
use skillhost_skill::runtime::digest;
use skillhost_skill::{SizeLimits, Skill, private};

/// Why components were not compiled.
#[derive(Debug, thiserror::Error)]
pub enum PrecompileError {
    /// The skill is invalid.
    #[error("{}: {why}", .skill.display())]
    Skill {
        /// Its folder.
        skill: PathBuf,
        /// The problems.
        why: String,
    },
    /// A component does not compile.
    #[error("{}: {why}", .component.display())]
    Component {
        /// Its file.
        component: PathBuf,
        /// What the compiler says.
        why: String,
    },
    /// Not called by a build script, or for a target that skillhost does not support.
    #[error("{0}")]
    Target(String),
    /// The code cannot be written.
    #[error("cannot write {}: {error}", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Where skills are, and where their code goes.
#[derive(Debug, Clone)]
pub struct Precompiler {
    /// The folder of the package's `Cargo.toml`, at which the paths of skills start.
    pub package: PathBuf,
    /// The folder that Cargo has made for the build script.
    pub out: PathBuf,
    /// The architecture, by its name in Rust.
    pub architecture: String,
}

/// Compiles the components of a skill for the target of this build. Tells Cargo to run the build
/// script again if the skill changes. The path starts at the folder of the package's `Cargo.toml`,
/// as that of `include_skill!`.
///
/// # Errors
/// See [`PrecompileError`].
pub fn precompile(skill: impl AsRef<Path>) -> Result<(), PrecompileError> {
    let precompiler = Precompiler::of_build_script()?;
    #[expect(clippy::print_stdout, reason = "how a build script talks to Cargo")]
    {
        println!("cargo::rerun-if-changed={}", precompiler.package.join(skill.as_ref()).display());
    }
    precompiler.skill(skill).map(drop)
}

impl Precompiler {
    /// Reads what Cargo tells a build script.
    ///
    /// # Errors
    /// This is not a build script.
    pub fn of_build_script() -> Result<Precompiler, PrecompileError> {
        let variable = |name: &str| {
            #[expect(clippy::disallowed_methods, reason = "Cargo tells build scripts their target")]
            let value = std::env::var(name);
            value.map_err(|_| {
                PrecompileError::Target(format!("${name} is not set: call this in build.rs"))
            })
        };
        Ok(Precompiler {
            package: variable("CARGO_MANIFEST_DIR")?.into(),
            out: variable("OUT_DIR")?.into(),
            architecture: variable("CARGO_CFG_TARGET_ARCH")?,
        })
    }

    /// Compiles the components of a skill, and returns the files with their code.
    ///
    /// # Errors
    /// See [`PrecompileError`].
    pub fn skill(&self, skill: impl AsRef<Path>) -> Result<Vec<PathBuf>, PrecompileError> {
        let architecture = match self.architecture.as_str() {
            "x86_64" => Architecture::X86_64,
            "aarch64" => Architecture::Aarch64,
            other => {
                let why = format!("skillhost does not run on `{other}`");
                return Err(PrecompileError::Target(why));
            }
        };
        let folder = self.package.join(skill);
        let invalid = |why: String| PrecompileError::Skill { skill: folder.clone(), why };
        let skill = Skill::load(&folder, &SizeLimits::default())
            .map_err(|error| invalid(problems(&error.diagnostics)))?;
        let mut written = Vec::new();
        for file in skill.files.iter().filter(|file| file.path.ends_with(".wasm")) {
            let failed = |why: String| PrecompileError::Component {
                component: folder.join(&file.path),
                why,
            };
            let bytes = skill.read(&file.path).map_err(|error| failed(error.to_string()))?;
            let to = self.out.join(code_file(&digest(&bytes)));
            let code = compile_to_embed(&bytes, architecture).map_err(failed)?;
            write(&to, &code)
                .map_err(|error| PrecompileError::Write { file: to.clone(), error })?;
            written.push(to);
        }
        Ok(written)
    }
}

/// Puts a complete file in place.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    private::create_missing(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

fn problems(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let line = |found: &Diagnostic| match found.span {
        Some(span) => {
            format!("{}:{}:{}: {}", found.file, span.line, span.column, found.message)
        }
        None => format!("{}: {}", found.file, found.message),
    };
    errors.map(line).collect::<Vec<_>>().join("; ")
}

//! The macro [`include_skill!`], which makes a skill a part of a program.
//!
//! It reads the skill with the parser of the host, and knows nothing of the engine: a program that
//! embeds skills compiles without waiting for it.

use std::path::{Path, PathBuf};

use proc_macro::TokenStream;
use quote::quote;
use skillhost_policy::diagnostic::{Diagnostic, Severity};
use skillhost_skill::embedded::code_file;
use skillhost_skill::runtime::digest;
use skillhost_skill::{SizeLimits, Skill};
use syn::LitStr;

/// Embeds a skill in the program: `include_skill!("skills/report")`. The path starts at the folder
/// of the package's `Cargo.toml`. Returns an `EmbeddedSkill`, for `HostBuilder::embedded_skill`.
///
/// The skill is checked when the program is compiled. What `skillhost check` reports as an error is
/// an error of the compiler, which names the line in SKILL.md. The files that the host would load,
/// without those that `.skillignore` leaves out, become a part of the program, and so does the code
/// that the build script has compiled for the skill's components with `skillhost_build::precompile`.
/// A change of one of the files compiles the program again. A new file does so only if the build
/// script calls `precompile`.
#[proc_macro]
pub fn include_skill(input: TokenStream) -> TokenStream {
    let path = syn::parse_macro_input!(input as LitStr);
    match expand(&path.value()) {
        Ok(expression) => expression.into(),
        Err(message) => syn::Error::new(path.span(), message).into_compile_error().into(),
    }
}

/// A file of the skill, as the expansion names it.
struct File {
    path: String,
    content: Content,
}

enum Content {
    /// The absolute path of the file.
    File(String),
    /// The target of the symlink.
    Link(String),
}

/// Returns the expression for a skill, or the message for the compiler.
fn expand(path: &str) -> Result<proc_macro2::TokenStream, String> {
    let folder = variable("CARGO_MANIFEST_DIR")?.join(path);
    let skill = load(&folder)?;
    let files = files(&skill)?.into_iter().map(|File { path, content }| match content {
        Content::File(from) => {
            quote!((#path, ::skillhost::included::EmbeddedContent::File(::core::include_bytes!(#from))))
        }
        Content::Link(target) => {
            quote!((#path, ::skillhost::included::EmbeddedContent::Link(#target)))
        }
    });
    let code = code(&skill)?.into_iter().map(|(component, file)| {
        quote! {
            // SAFETY: the build script has written the code for this component to the folder that
            // Cargo has made for it.
            unsafe {
                ::skillhost::included::EmbeddedCode::new(#component, ::core::include_bytes!(#file))
            }
        }
    });
    let name = &skill.name;
    Ok(quote! {{
        const FILES: &[(&::core::primitive::str, ::skillhost::included::EmbeddedContent)] =
            &[#(#files),*];
        const CODE: &[::skillhost::included::EmbeddedCode] = &[#(#code),*];
        ::skillhost::included::EmbeddedSkill::new(#name, FILES, CODE)
    }})
}

/// Loads the skill as the host does. Errors that a host would load it with are refused, too: they
/// would only be seen when it runs.
fn load(folder: &Path) -> Result<Skill, String> {
    let refused = |diagnostics: &[Diagnostic]| {
        let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let lines: Vec<String> = errors.map(describe).collect();
        format!("cannot embed the skill {}\n{}", shown(folder), lines.join("\n"))
    };
    let skill =
        Skill::load(folder, &SizeLimits::default()).map_err(|error| refused(&error.diagnostics))?;
    match skill.diagnostics.iter().any(|found| found.severity == Severity::Error) {
        true => Err(refused(&skill.diagnostics)),
        false => Ok(skill),
    }
}

/// Describes a problem as the compiler does: the place first, so that editors find it.
fn describe(found: &Diagnostic) -> String {
    let place = match found.span {
        Some(span) => format!("{}:{}:{}", shown(Path::new(&found.file)), span.line, span.column),
        None => shown(Path::new(&found.file)),
    };
    let fix = found.fix.as_ref().map(|fix| format!("\n  help: {fix}")).unwrap_or_default();
    format!("{place}: {} ({}){fix}", found.message, found.rule)
}

/// Shows a path as the compiler shows those of sources: relative to the folder that it runs in.
fn shown(path: &Path) -> String {
    #[expect(clippy::disallowed_methods, reason = "a macro runs in the compiler")]
    let here = std::env::current_dir();
    let below = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned()).display().to_string()
}

fn files(skill: &Skill) -> Result<Vec<File>, String> {
    let file = |file: &skillhost_skill::files::SkillFile| {
        let content = match &file.link {
            Some(target) => Content::Link(target.clone()),
            None => Content::File(text(&skill.root.join(&file.path))?),
        };
        Ok(File { path: file.path.clone(), content })
    };
    skill.files.iter().map(file).collect()
}

/// Returns the digests of the components whose code the build script has compiled, and the files
/// with the code.
fn code(skill: &Skill) -> Result<Vec<(String, String)>, String> {
    // A package without a build script has no such folder.
    let Ok(out) = variable("OUT_DIR") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for file in skill.files.iter().filter(|file| file.path.ends_with(".wasm")) {
        let bytes = skill
            .read(&file.path)
            .map_err(|error| format!("cannot read `{}`: {error}", file.path))?;
        let component = digest(&bytes);
        let code = out.join(code_file(&component));
        if code.is_file() && !found.iter().any(|(known, _)| *known == component) {
            found.push((component, text(&code)?));
        }
    }
    Ok(found)
}

fn variable(name: &str) -> Result<PathBuf, String> {
    #[expect(clippy::disallowed_methods, reason = "Cargo tells macros what they compile")]
    let value = std::env::var_os(name);
    value.map(PathBuf::from).ok_or_else(|| format!("${name} is not set: compile with Cargo"))
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the path {} is not valid UTF-8", path.display()))
}

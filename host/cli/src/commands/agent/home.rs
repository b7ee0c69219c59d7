//! The agent's temporary home folder: what is in it, and the environment of the agent's command.
//!
//! All such folders lie in one private folder below that for temporary files. Each is locked while
//! its agent runs, so that the next start removes only those of agents that were killed.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use skillhost_catalog::CatalogEntry;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::diagnostic::quoted;
use skillhost_skill::SourceKind;
use skillhost_skill::mount::{self, MountRequest};
use skillhost_skill::private::{self, Purpose, TempFolder};

use super::Args;
use crate::commands::{connect, hook};
use crate::context::{
    Context, FOLDERS_VARIABLE, Places, RUNTIMES_VARIABLE, SKILLS_VARIABLE, own_program,
};
use crate::error::CliError;
use crate::{output, requirements};

/// The variables that every command needs to work on a terminal.
const PASSED: [&str; 3] = ["PATH", "TERM", "LANG"];

/// Starts a program with more variables. Clients pass few of their own on to MCP servers.
const ENV: &str = "/usr/bin/env";

/// Where clients look for the skills of the user.
const SKILLS: &str = ".claude/skills";

/// The most bytes of a file that is passed.
const LARGEST: u64 = 16 << 20;

pub(super) struct Home {
    folder: TempFolder,
    /// Variables by which each skillhost that runs in this home folder finds the operator's folders.
    variables: Vec<(&'static str, String)>,
}

impl Home {
    /// Creates the folder, and removes those of killed agents.
    pub(super) fn create(args: &Args, context: &Context) -> Result<Home, CliError> {
        let uid = rustix::process::getuid().as_raw();
        let homes = context.places.scratch.join(format!("skillhost-agents-{uid}"));
        let failed = |error| {
            CliError::io(format_args!("create a home folder in {}", homes.display()), error)
        };
        private::open_or_create(&homes).map_err(failed)?;
        if let Err(error) = private::sweep(&homes) {
            output::warning(&format!("cannot remove what killed agents left: {error}"), None);
        }
        let folder = TempFolder::new_in(&homes, Purpose::Home).map_err(failed)?;
        let mut home = Home { folder, variables: operator_folders(&context.places)? };
        home.folder.create("tmp").map_err(failed)?;
        for file in &args.pass_file {
            home.pass(file, &context.places.home)?;
        }
        home.mount_skills(args, context)?;
        home.connect(args, context)?;
        Ok(home)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> std::io::Result<()> {
        self.folder.close()
    }

    /// Returns the command with its environment.
    pub(super) fn command(&self, line: &[OsString], names: &[String]) -> Result<Command, CliError> {
        let (program, args) =
            line.split_first().ok_or_else(|| CliError::usage("the command is missing"))?;
        #[expect(clippy::disallowed_methods, reason = "the operator starts their own agent")]
        let mut command = Command::new(program);
        command.args(args).env_clear();
        for name in PASSED.into_iter().chain(names.iter().map(String::as_str)) {
            match variable(name) {
                Some(value) => {
                    command.env(name, value);
                }
                None if PASSED.contains(&name) => {}
                None => output::warning(
                    &format!("--env {name}: the variable is not set here"),
                    Some(&format!("{name}=VALUE skillhost agent ...")),
                ),
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("HOME", self.path()).env("TMPDIR", self.path().join("tmp"));
        Ok(command)
    }

    /// Copies a file of the operator's home folder to the same place in this one.
    fn pass(&self, file: &Path, from: &Path) -> Result<(), CliError> {
        let shown = quoted(&file.to_string_lossy());
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let rest = absolute
            .strip_prefix(from)
            .ok()
            .filter(|rest| rest.components().all(|part| matches!(part, Component::Normal(_))));
        let Some(rest) = rest else {
            let message = format!("--pass-file: {shown} is not a path in your home folder");
            return Err(CliError::usage(message).fix("pass its content in a variable: --env NAME"));
        };
        let failed = |error: std::io::Error| {
            CliError::io(format_args!("copy {shown} to the temporary home folder"), error)
        };
        // Opening a pipe must not wait for a writer.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        #[expect(clippy::disallowed_methods, reason = "a file that the operator named")]
        let opened =
            OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
        let found = opened.metadata().map_err(failed)?;
        if !found.is_file() || found.len() > LARGEST {
            let message = format!("--pass-file: {shown} is not a file of at most 16 MiB");
            return Err(CliError::usage(message));
        }
        let mut content = Vec::new();
        opened.take(LARGEST).read_to_end(&mut content).map_err(failed)?;
        self.put(rest, &content).map_err(failed)
    }

    /// Writes a new file that only this user can read.
    fn put(&self, file: &Path, content: &[u8]) -> std::io::Result<()> {
        let path = self.path().join(file);
        private::create_missing(path.parent().unwrap_or(self.path()))?;
        #[expect(clippy::disallowed_methods, reason = "the new home folder")]
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        new.write_all(content)
    }

    /// Copies the skills of --skills, or else the operator's own. Those of the project, of the policy
    /// and the built-in ones are used where they are.
    fn mount_skills(&mut self, args: &Args, context: &Context) -> Result<(), CliError> {
        let kind = if args.skills.is_empty() { SourceKind::User } else { SourceKind::Flag };
        let catalog = context.tagged_catalog(&args.skills, &args.tags)?;
        let request = |entry: &CatalogEntry| {
            let verified = requirements::verify(entry.into(), &entry.name, None, context)
                .inspect_err(|unmet| requirements::warn(&entry.name, unmet))
                .ok()?;
            Some(MountRequest {
                name: Some(entry.name.to_string()),
                is_validated: false,
                verified,
                ..MountRequest::new(&*entry.folder)
            })
        };
        let entries = catalog.entries();
        let requests: Vec<MountRequest> =
            entries.iter().filter(|entry| entry.source == kind).filter_map(request).collect();
        let folder = self.path().join(SKILLS);
        private::create_missing(&folder)
            .map_err(|error| CliError::io("create the folder of skills", error))?;
        mount::mount(&folder, &requests).map_err(|error| CliError {
            fix: error.fix().map(str::to_owned),
            ..CliError::invalid(error.to_string())
        })?;
        if kind == SourceKind::Flag {
            // In the user's folder they would get the settings of installed skills of their names.
            self.variables.push((SKILLS_VARIABLE, text_of(&folder)?));
        }
        Ok(())
    }

    /// Configures the MCP server for each client, and the hook for Claude Code.
    fn connect(&self, args: &Args, context: &Context) -> Result<(), CliError> {
        let mut line: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line.push(own_program());
        let mut policy = Vec::new();
        if let Some((file, _)) = args.policy.found(&context.places) {
            let file = std::path::absolute(&file).unwrap_or(file);
            policy = vec!["--policy".to_owned(), text_of(&file)?];
        }
        let mut server = [&line[..], &["mcp".to_owned()], &policy].concat();
        for tag in args.tags.names() {
            server.extend(["--tag".to_owned(), tag.clone()]);
        }
        if let Some(workspace) = &args.workspace {
            server.extend(["--workspace".to_owned(), workspace_option(workspace)?]);
        }
        connect::connect_home(self.path(), ENV, &server)?;
        let hook = [&line[..], &["hook".to_owned(), "claude-code".to_owned()], &policy].concat();
        self.put_hook(&hook::handler(ENV, &hook))
    }

    /// Adds the hook to the settings of Claude Code, which may have been passed.
    fn put_hook(&self, handler: &Value) -> Result<(), CliError> {
        let file = Path::new(".claude/settings.json");
        let path = self.path().join(file);
        let failed = |error: std::io::Error| CliError::io("write the hook's settings", error);
        #[expect(clippy::disallowed_methods, reason = "the new home folder")]
        let old = std::fs::read(&path).ok();
        let broken = |why: &dyn std::fmt::Display| {
            CliError::invalid(format!("--pass-file: {} is broken: {why}", file.display()))
        };
        let mut settings: Value = match &old {
            Some(old) => serde_json::from_slice(old).map_err(|error| broken(&error))?,
            None => json!({}),
        };
        let group = json!({ "matcher": hook::TOOLS, "hooks": [handler] });
        if !add_group(&mut settings, group) {
            return Err(broken(&"`hooks.PreToolUse` is not a list"));
        }
        if old.is_some() {
            std::fs::remove_file(&path).map_err(failed)?;
        }
        self.put(file, format!("{settings:#}\n").as_bytes()).map_err(failed)
    }
}

/// Adds a group of hooks to settings; `false` if something else is in its place.
fn add_group(settings: &mut Value, group: Value) -> bool {
    let Some(settings) = settings.as_object_mut() else { return false };
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let Some(hooks) = hooks.as_object_mut() else { return false };
    let groups = hooks.entry("PreToolUse").or_insert_with(|| json!([]));
    let groups = groups.as_array_mut().map(|groups| groups.push(group));
    groups.is_some()
}

/// Returns the variables that name the operator's folders, whatever $HOME is.
fn operator_folders(places: &Places) -> Result<Vec<(&'static str, String)>, CliError> {
    let Places { config, state, data, cache, .. } = places;
    let folders: Vec<String> = [config, state, data, cache]
        .into_iter()
        .map(|folder| text_of(folder))
        .collect::<Result<_, _>>()?;
    if let Some(folder) = folders.iter().find(|folder| folder.contains(':')) {
        let message = format!("the path {} has a colon", quoted(folder));
        return Err(
            CliError::usage(message).fix("set $XDG_STATE_HOME and the like to other folders")
        );
    }
    let mut variables = vec![(FOLDERS_VARIABLE, folders.join(":"))];
    if let Some(programs) = variable(RUNTIMES_VARIABLE) {
        variables.push((RUNTIMES_VARIABLE, text_of(Path::new(&programs))?));
    }
    Ok(variables)
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns a path as text, for a client's configuration.
fn text_of(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::usage(format!("the path {} is not UTF-8", path.display())))
}

/// Returns a workspace as an option for a server that may be started in another folder.
fn workspace_option((folder, mode): &(PathBuf, MountMode)) -> Result<String, CliError> {
    let absolute = folder.canonicalize().map_err(|error| {
        CliError::usage(format!("--workspace: cannot open {}: {error}", folder.display()))
    })?;
    let suffix = match mode {
        MountMode::Read => ":ro",
        MountMode::Overlay => ":overlay",
        // A name that ends in `:ro` is not a mode before a slash.
        _ => "/",
    };
    Ok(format!("{}{suffix}", text_of(&absolute)?))
}

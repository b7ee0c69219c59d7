//! Protected paths: files that make programs on the host run code later, such as the configuration
//! of version control, editors, agents and shells.
//!
//! A guest that can write a project could otherwise plant a hook, a task or an instruction that
//! takes effect outside the sandbox when the operator next opens the project. A guest can write such
//! a path only if an entry of the operator names it without wildcards: `Write(.git/config)`, never
//! `Write(**)`. Build manifests and CI files stay writable, because many skills exist to write them.
//! Diffs mark them.
//!
//! The tables are maintained by hand. Add files that a widespread tool finds in a project or home
//! folder by itself and acts on. An entry applies at any depth, to everything below it, and in every
//! spelling that a file system on any platform treats as the same name.

mod built;

use std::borrow::Cow;

use ProtectedKind::{Agent, Console, Editor, Launcher, Shell, VersionControl};

use self::built::{BUILT, BUILT_ENDS};

/// The kind of program that a protected path configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectedKind {
    /// Version control and its hooks.
    VersionControl,
    /// Editors and development environments.
    Editor,
    /// Coding agents: the programs that they start, and their instructions.
    Agent,
    /// Shells, logins, and commands that run when a folder is entered.
    Shell,
    /// Tools that choose the program for a command.
    Launcher,
    /// A debugger or an interactive interpreter, which reads the file at its start.
    Console,
}

impl ProtectedKind {
    /// Returns a phrase that completes "it configures".
    pub fn description(self) -> &'static str {
        match self {
            VersionControl => "version control",
            Editor => "an editor",
            Agent => "a coding agent",
            Shell => "a shell or a login",
            Launcher => "which program a command starts",
            Console => "a debugger or an interactive interpreter",
        }
    }
}

/// Protected paths by kind. Each is a name, or several names with slashes.
const PROTECTED: [(ProtectedKind, &[&str]); 6] = [
    (
        VersionControl,
        &[
            // The whole repository: config, hooks, modules and worktrees run commands, a half-done
            // rebase has a list of them, and a file of this name leads to a repository elsewhere.
            ".git",
            ".gitconfig",
            ".gitmodules",
            ".config/git",
            ".hg",
            ".hgrc",
            ".jj",
            ".sl",
            // Hooks that are stored in the project.
            ".githooks",
            ".husky",
            ".lefthook",
            ".lefthook.toml",
            ".lefthook.yaml",
            ".lefthook.yml",
            ".lefthook-local.yaml",
            ".lefthook-local.yml",
            "lefthook.toml",
            "lefthook.yaml",
            "lefthook.yml",
            "lefthook-local.yaml",
            "lefthook-local.yml",
            ".lefthook.json",
            "lefthook.json",
            ".config/lefthook.yml",
            ".config/hg",
            ".config/jj",
            ".jjconfig.toml",
            ".overcommit.yml",
            ".pre-commit-config.yaml",
            ".pre-commit-config.yml",
        ],
    ),
    (
        Editor,
        &[
            ".vscode",
            ".vscode-server",
            ".vscode-insiders",
            ".vscodium",
            ".cursor-server",
            ".vs",
            ".idea",
            ".fleet",
            ".zed",
            ".helix",
            ".vim",
            ".vimrc",
            "_vimrc",
            ".gvimrc",
            ".ideavimrc",
            ".doom.d",
            ".spacemacs",
            ".spacemacs.d",
            ".exrc",
            ".lvimrc",
            ".nvim.lua",
            ".nvimrc",
            ".emacs",
            ".emacs.d",
            ".dir-locals.el",
            ".dir-locals-2.el",
            ".devcontainer",
            ".devcontainer.json",
            ".config/code",
            ".config/cursor",
            ".config/doom",
            ".config/emacs",
            ".config/lvim",
            ".config/vscodium",
            ".config/helix",
            ".config/nvim",
            ".config/zed",
        ],
    ),
    (
        Agent,
        &[
            ".mcp.json",
            ".agent",
            ".agents",
            "agent.md",
            "agents.md",
            "agents.local.md",
            "agents.override.md",
            ".claude",
            ".claude.json",
            ".claude-plugin",
            "claude.md",
            "claude.local.md",
            ".codex",
            ".copilot",
            ".github/agents",
            ".github/chatmodes",
            ".github/copilot-instructions.md",
            ".github/hooks",
            ".github/instructions",
            ".github/prompts",
            ".github/skills",
            ".cursor",
            ".cursorrules",
            ".gemini",
            "gemini.md",
            ".aider.conf.yml",
            ".amazonq",
            ".amp",
            ".augment",
            ".augment-guidelines",
            ".cline",
            ".clinerules",
            ".config/amp",
            ".config/goose",
            ".config/opencode",
            ".continue",
            ".continuerules",
            ".crush",
            ".crush.json",
            "crush.json",
            "crush.md",
            ".factory",
            ".goose",
            ".goosehints",
            ".junie",
            ".kiro",
            ".openhands",
            ".opencode",
            "opencode.json",
            "opencode.jsonc",
            ".qwen",
            "qwen.md",
            ".roo",
            ".roomodes",
            ".roorules",
            ".rules",
            ".trae",
            "warp.md",
            ".windsurf",
            ".windsurfrules",
        ],
    ),
    (
        Shell,
        &[
            ".envrc",
            ".direnv",
            ".config/direnv",
            ".profile",
            ".bash_aliases",
            ".bash_login",
            ".bash_logout",
            ".bash_profile",
            ".bashrc",
            ".bashrc.d",
            ".bash_completion",
            ".oh-my-zsh",
            ".xonshrc",
            ".config/zsh",
            ".zlogin",
            ".zlogout",
            ".zprofile",
            ".zshenv",
            ".zshrc",
            ".kshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".logout",
            ".inputrc",
            ".config/fish",
            ".config/nushell",
            ".config/powershell",
            ".pam_environment",
            ".xinitrc",
            ".xprofile",
            ".xsession",
            ".xsessionrc",
            ".config/autostart",
            ".config/environment.d",
            ".config/systemd",
            ".local/bin",
            ".local/share/applications",
            ".local/share/fish",
            "library/launchagents",
            ".screenrc",
            ".ssh",
            ".tmux.conf",
            ".config/tmux",
        ],
    ),
    (
        Launcher,
        &[
            ".mise",
            ".mise.toml",
            ".mise.local.toml",
            "mise.toml",
            "mise.local.toml",
            "mise/config.toml",
            "mise.production.toml",
            ".mise.production.toml",
            "mise.development.toml",
            ".mise.development.toml",
            ".tool-versions",
            ".config/mise",
            ".config/mise.toml",
            ".rtx.toml",
            ".asdfrc",
        ],
    ),
    (Console, &[".gdbinit", ".irbrc", ".lldbinit", ".pdbrc", ".psqlrc", ".rprofile"]),
];

/// Suffixes of protected names.
const PROTECTED_ENDS: [(ProtectedKind, &str); 2] =
    [(Editor, ".code-workspace"), (Editor, ".sublime-project")];

/// Returns the kind of a path in a workspace, or `None` if it is not protected.
pub fn kind_of(path: &str) -> Option<ProtectedKind> {
    let names = normalized_names(path);
    let by_end = |end: &(ProtectedKind, &str)| {
        names.iter().any(|name| name.ends_with(end.1)).then_some(end.0)
    };
    let named = PROTECTED
        .iter()
        .find(|(_, entries)| entries.iter().any(|entry| holds(&names, entry)))
        .map(|(kind, _)| *kind);
    named.or_else(|| PROTECTED_ENDS.iter().find_map(by_end))
}

/// Checks whether a path has the name of a folder in which there are protected paths, such as
/// `.github`. A symlink of this name would put other files in their places.
pub fn leads_to_protected(path: &str) -> bool {
    let names = normalized_names(path);
    let starts_at_end = |entry: &str, length: usize| {
        let start = names.len().checked_sub(length);
        start.is_some_and(|start| has_names(&names[start..], entry))
    };
    let mut entries = PROTECTED.iter().flat_map(|(_, entries)| *entries);
    entries.any(|entry| (1..entry.split('/').count()).any(|length| starts_at_end(entry, length)))
}

/// The mark in diffs for changes of paths that [`is_run_by_host`] recognizes.
pub const RUN_BY_HOST_MARK: &str = "[runs code on the host later]";

/// Checks whether programs on the host run code from a path: it is protected, or a build uses it.
pub fn is_run_by_host(path: &str) -> bool {
    kind_of(path).is_some() || is_built_from(path)
}

/// Checks whether building, testing or publishing a project runs code from a path.
fn is_built_from(path: &str) -> bool {
    let names = normalized_names(path);
    let last = names.last().map_or("", |name| name.as_ref());
    BUILT.iter().any(|entry| holds(&names, entry))
        || BUILT_ENDS.iter().any(|end| last.ends_with(end))
}

/// Entries of a git repository that run commands, or refer to others that do. They matter for a
/// repository whose folder is not named `.git`.
pub const REPOSITORY_CONFIG: [&str; 4] = ["config", "config.worktree", "hooks", "commondir"];

/// Normalizes a name to the form in the tables. Names that any file system treats as equal have the
/// same form.
///
/// Folds case, and removes trailing dots and spaces, NTFS streams, and characters that HFS+ ignores.
pub fn normalize_name(name: &str) -> Cow<'_, str> {
    let plain = |b: u8| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_') || b == b'.'
    };
    if name.bytes().all(plain) && !name.ends_with('.') {
        return name.into();
    }
    let mut folded = String::with_capacity(name.len());
    for c in name.split(':').next().unwrap_or_default().chars() {
        match c {
            '\u{200c}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{ad}'
            | '\u{feff}' => {}
            'ſ' => folded.push('s'),
            'ß' | 'ẞ' => folded.push_str("ss"),
            'ﬀ' => folded.push_str("ff"),
            'ﬁ' => folded.push_str("fi"),
            'ﬂ' => folded.push_str("fl"),
            'ﬃ' => folded.push_str("ffi"),
            'ﬄ' => folded.push_str("ffl"),
            'ﬅ' | 'ﬆ' => folded.push_str("st"),
            c => folded.extend(c.to_lowercase()),
        }
    }
    folded.truncate(folded.trim_end_matches([' ', '.']).len());
    folded.into()
}

fn normalized_names(path: &str) -> Vec<Cow<'_, str>> {
    path.split('/').filter(|name| !name.is_empty()).map(normalize_name).collect()
}

/// Checks whether a path contains the names of an entry in sequence.
fn holds(names: &[Cow<'_, str>], entry: &str) -> bool {
    let length = entry.split('/').count();
    names.windows(length).any(|part| has_names(part, entry))
}

/// Checks whether names are the first ones of an entry.
fn has_names(names: &[Cow<'_, str>], entry: &str) -> bool {
    names
        .iter()
        .zip(entry.split('/'))
        .all(|(name, wanted)| name == wanted || is_short_name(name, wanted))
}

/// Checks whether a name may be the short name for a long one on FAT or NTFS: `git~1` for `.git`.
fn is_short_name(name: &str, long: &str) -> bool {
    let Some((stem, number)) = name.split_once('~') else { return false };
    let (number, end) = number.split_once('.').unwrap_or((number, ""));
    let long = long.trim_start_matches('.');
    let (base, long_end) = long.rsplit_once('.').unwrap_or((long, ""));
    let base: String = base.chars().filter(|c| *c != '.').take(6).collect();
    stem == base
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
        && long_end.starts_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_entries_are_normalized() {
        let protected = PROTECTED.iter().flat_map(|(_, entries)| *entries);
        for entry in protected.chain(&BUILT) {
            assert!(entry.split('/').all(|name| normalize_name(name) == name), "{entry}");
        }
        assert!(REPOSITORY_CONFIG.iter().all(|name| normalize_name(name) == *name));
    }

    #[test]
    fn protected_names_apply_at_any_depth_and_below() {
        for (path, kind) in [
            (".git", VersionControl),
            (".git/config", VersionControl),
            ("a/b/.git/modules/x/hooks/post-checkout", VersionControl),
            (".envrc", Shell),
            (".vscode/tasks.json", Editor),
            ("x.code-workspace", Editor),
            ("AGENTS.md", Agent),
            ("packages/app/CLAUDE.md", Agent),
            (".claude/skills/x/SKILL.md", Agent),
            (".github/copilot-instructions.md", Agent),
            (".config/fish/config.fish", Shell),
            (".mise.toml", Launcher),
            (".tool-versions", Launcher),
            ("x.sublime-project", Editor),
            (".gdbinit", Console),
        ] {
            assert_eq!(kind_of(path), Some(kind), "{path}");
        }
        for path in [
            "",
            "git/config",
            ".gitignore",
            "agents/x.md",
            "docs/AGENTS.md.txt",
            ".github/workflows/ci.yml",
            ".config/x",
            "hooks/pre-commit",
        ] {
            assert_eq!(kind_of(path), None, "{path}");
        }
    }

    #[test]
    fn every_spelling_of_a_protected_name_is_protected() {
        for path in [
            ".GIT/config",
            ".Git./config",
            ".git /config",
            ".git::$INDEX_ALLOCATION/config",
            ".g\u{200c}it/config",
            "GIT~1/config",
            "git~2",
            "CLAUDE~1/settings.json",
            "MCP~1.JSO",
            ".claude.",
            ".v\u{17f}code/tasks.json",
            "agents.MD",
            ".CONFIG/Fish/config.fish",
        ] {
            assert!(kind_of(path).is_some(), "{path}");
        }
        assert_eq!(kind_of("git~x"), None);
        assert_eq!(kind_of("report~1"), None);
    }

    #[test]
    fn folders_of_protected_paths_are_recognized_in_every_spelling() {
        for path in [
            ".github",
            "a/b/.github",
            ".GitHub",
            ".github.",
            "GITHUB~1",
            ".config",
            ".local",
            "home/.local/share",
            "Library",
            "mise",
        ] {
            assert!(leads_to_protected(path), "{path}");
            assert_eq!(kind_of(path), None, "{path}");
        }
        for path in
            ["", "a", "github", "share", "a/share", ".local/x", ".github/workflows", ".config/x"]
        {
            assert!(!leads_to_protected(path), "{path}");
        }
        for (_, entries) in &PROTECTED {
            for entry in entries.iter().filter(|entry| entry.contains('/')) {
                let (folder, _) = entry.rsplit_once('/').unwrap();
                assert!(leads_to_protected(folder), "{folder}");
            }
        }
    }

    #[test]
    fn build_and_ci_files_are_marked_but_not_protected() {
        for path in [
            "package.json",
            "a/Makefile",
            ".github/workflows/ci.yml",
            "Cargo.toml",
            "vite.config.ts",
            "node_modules/x/index.js",
        ] {
            assert!(is_built_from(path) && kind_of(path).is_none(), "{path}");
        }
        assert!(!is_built_from("src/main.rs") && !is_built_from("README.md"));
    }
}

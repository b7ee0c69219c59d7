//! Files that make programs of the host run code later: configuration of version control, editors,
//! agents and shells.
//!
//! Whoever may write a project could otherwise plant a hook, a task or an instruction that takes
//! effect outside the sandbox when the operator next opens the project. Such paths are written only
//! where an entry of the operator's names them literally: `Write(.git/config)`, never `Write(**)`.
//! Build manifests and CI files stay writable, because writing them is what many skills are for;
//! diffs mark them.
//!
//! The tables are maintained by hand. Add what a widespread tool finds in a project or home folder
//! by itself and acts on. An entry counts at any depth, with all that is below it, and in every
//! spelling that a file system of any platform takes for it.

mod built;

use std::borrow::Cow;

use Kind::{Agent, Console, Editor, Launcher, Shell, VersionControl};

use self::built::{BUILT, BUILT_ENDS};

/// What a protected path configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Version control, and what runs at its hooks.
    VersionControl,
    /// Editors and development environments.
    Editor,
    /// Coding agents: what they start, and what they are told.
    Agent,
    /// Shells, logins, and what entering a folder runs.
    Shell,
    /// Tools that choose which program a command is.
    Launcher,
    /// A debugger or an interactive interpreter, which reads the file where it starts.
    Console,
}

impl Kind {
    /// As the end of "it configures ...".
    pub fn words(self) -> &'static str {
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

/// Paths by kind: a name, or several with slashes.
const PROTECTED: [(Kind, &[&str]); 6] = [
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
            // Hooks that are kept in the project.
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

/// Ends of names.
const PROTECTED_ENDS: [(Kind, &str); 2] =
    [(Editor, ".code-workspace"), (Editor, ".sublime-project")];

/// What a path in a workspace configures, where it is protected.
pub fn protects(path: &str) -> Option<Kind> {
    let names = folded(path);
    let by_end =
        |end: &(Kind, &str)| names.iter().any(|name| name.ends_with(end.1)).then_some(end.0);
    let named = PROTECTED
        .iter()
        .find(|(_, entries)| entries.iter().any(|entry| holds(&names, entry)))
        .map(|(kind, _)| *kind);
    named.or_else(|| PROTECTED_ENDS.iter().find_map(by_end))
}

/// How a change of a path is marked that programs of the host run code from.
pub const RUNS_LATER: &str = "[runs code on the host later]";

/// Whether programs of the host run code from a path: it is protected, or something is built from
/// it.
pub fn runs_later(path: &str) -> bool {
    protects(path).is_some() || is_built_from(path)
}

/// Whether the host runs code from a path when somebody builds, tests or publishes what it is part
/// of.
fn is_built_from(path: &str) -> bool {
    let names = folded(path);
    let last = names.last().map_or("", |name| name.as_ref());
    BUILT.iter().any(|entry| holds(&names, entry))
        || BUILT_ENDS.iter().any(|end| last.ends_with(end))
}

/// Entries of a git repository that run commands, or lead to others that do: for a repository that
/// is no folder called `.git`.
pub const REPOSITORY: [&str; 4] = ["config", "config.worktree", "hooks", "commondir"];

/// A name in the form in which the tables have it: what any file system takes for the same name has
/// the same form.
///
/// Upper case counts as lower case; dots and spaces at the end, an NTFS stream and characters that
/// HFS+ ignores do not count.
pub fn fold(name: &str) -> Cow<'_, str> {
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

fn folded(path: &str) -> Vec<Cow<'_, str>> {
    path.split('/').filter(|name| !name.is_empty()).map(fold).collect()
}

/// Whether the names of an entry follow each other in a path.
fn holds(names: &[Cow<'_, str>], entry: &str) -> bool {
    let length = entry.split('/').count();
    names.windows(length).any(|part| {
        part.iter()
            .zip(entry.split('/'))
            .all(|(name, wanted)| name == wanted || is_short_name(name, wanted))
    })
}

/// Whether a name may be the short one that FAT and NTFS give a long one: `git~1` for `.git`.
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
    fn the_tables_are_in_the_form_that_names_are_folded_to() {
        let protected = PROTECTED.iter().flat_map(|(_, entries)| *entries);
        for entry in protected.chain(&BUILT) {
            assert!(entry.split('/').all(|name| fold(name) == name), "{entry}");
        }
        assert!(REPOSITORY.iter().all(|name| fold(name) == *name));
    }

    #[test]
    fn protected_names_count_at_any_depth_and_with_all_below() {
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
            assert_eq!(protects(path), Some(kind), "{path}");
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
            assert_eq!(protects(path), None, "{path}");
        }
    }

    #[test]
    fn every_spelling_of_a_protected_name_counts() {
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
            assert!(protects(path).is_some(), "{path}");
        }
        assert_eq!(protects("git~x"), None);
        assert_eq!(protects("report~1"), None);
    }

    #[test]
    fn build_manifests_and_ci_files_are_known_and_not_protected() {
        for path in [
            "package.json",
            "a/Makefile",
            ".github/workflows/ci.yml",
            "Cargo.toml",
            "vite.config.ts",
            "node_modules/x/index.js",
        ] {
            assert!(is_built_from(path) && protects(path).is_none(), "{path}");
        }
        assert!(!is_built_from("src/main.rs") && !is_built_from("README.md"));
    }
}

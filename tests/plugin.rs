//! The plugin of Claude Code: `plugins/` is a marketplace as documented, and what it starts works.
//!
//! The tests do not install Claude Code. They check the layout by the rules of its plugin and
//! marketplace references, as `claude plugin validate --strict` applies them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::{User, repository, text};

/// Fields of `plugin.json` and of an entry in `marketplace.json`. Others are reported as mistakes.
const PLUGIN: [&str; 24] = [
    "$schema",
    "name",
    "displayName",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "metadata",
    "defaultEnabled",
    "dependencies",
    "settings",
    "userConfig",
    "channels",
    "skills",
    "commands",
    "agents",
    "hooks",
    "mcpServers",
    "lspServers",
    "outputStyles",
    "experimental",
];
const ENTRY: [&str; 6] = ["source", "category", "tags", "strict", "relevance", "headers"];
const MARKETPLACE: [&str; 8] =
    ["$schema", "name", "owner", "plugins", "description", "version", "metadata", "renames"];
const HANDLER: [&str; 7] =
    ["type", "command", "args", "timeout", "onFailure", "statusMessage", "if"];

fn json(path: &Path) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn has_only(value: &Value, known: &[&str]) {
    let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(keys.is_subset(&known.iter().copied().collect()), "{keys:?}");
}

/// Checks a name: kebab-case.
fn is_kebab_case(name: &Value) {
    let name = name.as_str().unwrap();
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    assert!(name.split('-').all(is_part), "{name}");
}

fn plugin() -> PathBuf {
    repository("plugins/skillhost")
}

#[test]
fn marketplace_lists_the_plugin_by_a_path_in_it() {
    let root = repository("plugins");
    let marketplace = json(&root.join(".claude-plugin/marketplace.json"));
    has_only(&marketplace, &MARKETPLACE);
    is_kebab_case(&marketplace["name"]);
    assert!(marketplace["owner"]["name"].is_string() && marketplace["description"].is_string());
    let entries = marketplace["plugins"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    has_only(&entries[0], &[&PLUGIN[..], &ENTRY].concat());
    let source = entries[0]["source"].as_str().unwrap();
    assert!(source.starts_with("./") && !source.contains(".."), "{source}");
    assert_eq!(root.join(source).canonicalize().unwrap(), plugin());
    // A version here would compete with that of the plugin.
    assert!(entries[0].get("version").is_none());
}

#[test]
fn manifest_has_the_version_of_skillhost_and_the_standard_layout() {
    let manifest = json(&plugin().join(".claude-plugin/plugin.json"));
    has_only(&manifest, &PLUGIN);
    is_kebab_case(&manifest["name"]);
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    for field in ["description", "author"] {
        assert!(!manifest[field].is_null(), "{field}");
    }
    assert!(manifest["author"]["name"].is_string());
    // Components are found in their standard places, and only the manifest is in `.claude-plugin`.
    for component in ["hooks", "mcpServers", "skills"] {
        assert!(manifest.get(component).is_none(), "{component}");
    }
    let inside = fs::read_dir(plugin().join(".claude-plugin")).unwrap().count();
    assert_eq!(inside, 1);
}

#[test]
fn hook_blocks_commands_if_it_fails() {
    let hooks = json(&plugin().join("hooks/hooks.json"));
    has_only(&hooks, &["description", "hooks"]);
    has_only(&hooks["hooks"], &["PreToolUse"]);
    let groups = hooks["hooks"]["PreToolUse"].as_array().unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0]["matcher"], "Bash|Monitor|PowerShell");
    let handlers = groups[0]["hooks"].as_array().unwrap();
    assert_eq!(handlers.len(), 1);
    has_only(&handlers[0], &HANDLER);
    assert_eq!(
        (&handlers[0]["type"], &handlers[0]["onFailure"]),
        (&"command".into(), &"block".into())
    );
    // The guide shows the same hook.
    let guide = fs::read_to_string(repository("docs/guide/agents.md")).unwrap();
    let shown = guide.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let shown = shown.map(|block| serde_json::from_str::<Value>(block).unwrap());
    assert!(shown.into_iter().any(|block| block["hooks"] == hooks["hooks"]));
}

#[test]
fn server_and_hook_start_existing_commands() {
    let user = User::new();
    let server = json(&plugin().join(".mcp.json"))["mcpServers"]["skillhost"].take();
    let hook =
        json(&plugin().join("hooks/hooks.json"))["hooks"]["PreToolUse"][0]["hooks"][0].take();
    for entry in [server, hook] {
        assert_eq!(entry["command"], "skillhost");
        let words = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let args: Vec<&str> = words.chain(["--help"]).collect();
        assert!(user.skillhost(&args).status.success(), "{args:?}");
    }
}

#[test]
fn skill_of_the_plugin_is_valid_and_names_existing_commands() {
    let user = User::new();
    let skill = plugin().join("skills/sandboxed-skills");
    let checked = user.skillhost(&["check", skill.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    let instructions = fs::read_to_string(skill.join("SKILL.md")).unwrap();
    for tool in ["discover_skills", "activate_skill", "run_skill", "read_skill_file"] {
        assert!(instructions.contains(tool), "{tool}");
    }
}

//! `connect` adds the server to the configuration of each client, and changes nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::cli::{User, pinned, repository, text};

/// Each client, its file in the home folder, and its extension among the cases.
const CLIENTS: [(&str, &str, &str); 8] = [
    ("claude-code", ".claude.json", "json"),
    ("codex", ".codex/config.toml", "toml"),
    ("gemini-cli", ".gemini/settings.json", "json"),
    ("cursor", ".cursor/mcp.json", "json"),
    ("vscode", ".config/Code/User/mcp.json", "json"),
    ("opencode", ".config/opencode/opencode.json", "json"),
    ("zed", ".config/zed/settings.json", "json"),
    ("goose", ".config/goose/config.yaml", "yaml"),
];

fn case(client: &str, part: &str, extension: &str) -> PathBuf {
    let file = format!("{client}.{part}.{extension}");
    repository("tests/cases").join("connect").join(file)
}

fn put(user: &User, file: &str, content: &str) -> PathBuf {
    let file = user.home().join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, content).unwrap();
    file
}

fn connect(user: &User, args: &[&str]) -> (Option<i32>, String, String) {
    let output = user.skillhost(&[&["connect"], args].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn server_is_added_once_and_removed_without_a_trace() {
    for (client, path, extension) in CLIENTS {
        let user = User::new();
        let before = fs::read_to_string(case(client, "before", extension)).unwrap();
        let file = put(&user, path, &before);
        let (code, stdout, stderr) = connect(&user, &[client]);
        assert_eq!(code, Some(0), "{client}: {stderr}");
        assert!(stdout.contains("+") && stdout.contains("is connected"), "{client}: {stdout}");
        let after = fs::read_to_string(&file).unwrap();
        pinned(&case(client, "after", extension), &after).unwrap();
        let mut name = file.file_name().unwrap().to_owned();
        name.push(".before-skillhost");
        assert_eq!(fs::read_to_string(file.with_file_name(name)).unwrap(), before, "{client}");
        let (_, stdout, _) = connect(&user, &[client]);
        assert!(stdout.contains("is connected already"), "{client}: {stdout}");
        assert_eq!(fs::read_to_string(&file).unwrap(), after, "{client}");
        let (code, _, stderr) = connect(&user, &[client, "--remove"]);
        assert_eq!(code, Some(0), "{client}: {stderr}");
        let restored = fs::read_to_string(&file).unwrap();
        // A table that held only this server goes with it.
        if client != "vscode" && client != "cursor" {
            assert_eq!(restored, before, "{client}");
        }
        assert!(!restored.contains("skillhost"), "{client}: {restored}");
    }
}

#[test]
fn missing_configuration_is_created_for_the_user_alone_and_can_be_emptied() {
    for (client, path, _) in CLIENTS {
        let user = User::new();
        let (code, _, stderr) = connect(&user, &[client, "--", "--workspace", "."]);
        assert_eq!(code, Some(0), "{client}: {stderr}");
        let file = user.home().join(path);
        let content = fs::read_to_string(&file).unwrap();
        assert!(content.contains("--workspace"), "{client}: {content}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{client}");
        let (code, _, stderr) = connect(&user, &[client, "--remove"]);
        assert_eq!(code, Some(0), "{client}: {stderr}");
        assert!(!fs::read_to_string(&file).unwrap().contains("skillhost"), "{client}");
    }
}

#[test]
fn projects_have_a_configuration_of_their_own() {
    let user = User::new();
    let (code, _, stderr) = connect(&user, &["claude-code", "--scope", "project"]);
    assert_eq!(code, Some(0), "{stderr}");
    let file = fs::read_to_string(user.work().join(".mcp.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["mcpServers"]["skillhost"]["command"], "skillhost");
    let (code, _, stderr) = connect(&user, &["goose", "--scope", "project"]);
    assert!(code == Some(64) && stderr.contains("no configuration for a project"), "{stderr}");
}

#[test]
fn broken_or_unusual_configuration_is_not_changed() {
    for (client, path, content) in [
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": "),
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": [] }"),
        ("codex", ".codex/config.toml", "model = "),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n"),
        ("goose", ".config/goose/config.yaml", "extensions: [a\n"),
        ("goose", ".config/goose/config.yaml", "extensions: { docs: { cmd: x } }\n"),
    ] {
        let user = User::new();
        let file = put(&user, path, content);
        let (code, stdout, stderr) = connect(&user, &[client]);
        assert!(code == Some(65) && stdout.is_empty(), "{content}: {stderr}");
        assert!(stderr.contains("so it was not changed"), "{content}: {stderr}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no other file");
    }
}

#[test]
fn unwritable_folder_is_an_error_that_changes_nothing() {
    let user = User::new();
    fs::write(user.home().join(".cursor"), "a file, not a folder").unwrap();
    let (code, _, stderr) = connect(&user, &["cursor"]);
    assert!(code == Some(74) && stderr.contains(".cursor/mcp.json"), "{stderr}");
    assert_eq!(fs::read_to_string(user.home().join(".cursor")).unwrap(), "a file, not a folder");
}

#[test]
fn printing_changes_nothing() {
    let user = User::new();
    let (code, stdout, stderr) = connect(&user, &["zed", "--print"]);
    assert!(code == Some(0) && stdout.contains("+  \"context_servers\""), "{stdout}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    assert!(!user.home().join(".config/zed").exists());
}

#[test]
fn link_to_a_configuration_stays_a_link() {
    let user = User::new();
    let real = put(&user, "dotfiles/mcp.json", "{}\n");
    fs::create_dir(user.home().join(".cursor")).unwrap();
    let link = user.home().join(".cursor/mcp.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(connect(&user, &["cursor"]).0, Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("skillhost"));
}

#[test]
fn copies_of_old_files_are_private_and_kept() {
    let user = User::new();
    let file = put(&user, ".cursor/mcp.json", "{}\n");
    for options in [&["cursor"][..], &["cursor", "--", "--workspace", "."]] {
        assert_eq!(connect(&user, options).0, Some(0));
    }
    let first = file.with_file_name("mcp.json.before-skillhost");
    assert_eq!(fs::read_to_string(&first).unwrap(), "{}\n");
    assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(file.with_file_name("mcp.json.before-skillhost-2").exists());
}

#[test]
fn project_cannot_lead_the_change_elsewhere() {
    let user = User::new();
    let own = put(&user, ".claude.json", "{}\n");
    std::os::unix::fs::symlink(&own, user.work().join(".mcp.json")).unwrap();
    let (code, _, stderr) = connect(&user, &["claude-code", "--scope", "project"]);
    assert!(code == Some(65) && stderr.contains("leads out of the project"), "{stderr}");
    assert_eq!(fs::read_to_string(&own).unwrap(), "{}\n");
    // Nor to a file that does not exist yet.
    let folder = user.home().join("elsewhere");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&folder, user.work().join(".vscode")).unwrap();
    let (code, _, stderr) = connect(&user, &["vscode", "--scope", "project"]);
    assert!(code == Some(65) && stderr.contains("leads out of the project"), "{stderr}");
    assert!(fs::read_dir(&folder).unwrap().next().is_none());
    std::os::unix::fs::symlink("nowhere", user.work().join(".zed")).unwrap();
    let (code, _, stderr) = connect(&user, &["zed", "--scope", "project"]);
    assert!(code == Some(65) && stderr.contains(".zed is a link that leads nowhere"), "{stderr}");
}

#[test]
fn options_that_the_server_refuses_are_not_written() {
    let user = User::new();
    let file = put(&user, ".cursor/mcp.json", "{}\n");
    for (options, why) in [
        (&["--workspce", "."][..], "unexpected argument '--workspce'"),
        (&["--log-json", "x"], "unexpected argument 'x'"),
        (&["--help"], "are for the server"),
    ] {
        let (code, _, stderr) = connect(&user, &[&["cursor", "--"], options].concat());
        assert!(code == Some(64) && stderr.contains(why), "{options:?}: {stderr}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}\n");
    assert_eq!(connect(&user, &["cursor", "--", "--workspace", ".:overlay"]).0, Some(0));
}

#[test]
fn entry_to_add_by_hand_names_its_table() {
    let user = User::new();
    put(&user, ".cursor/mcp.json", "{\"mcpServers\": [1]}\n");
    let (code, _, stderr) = connect(&user, &["cursor"]);
    assert!(code == Some(65) && stderr.contains("as `skillhost` in `mcpServers`"), "{stderr}");
}

#[test]
fn error_of_a_broken_file_is_one_line() {
    let user = User::new();
    put(&user, ".codex/config.toml", "a = [\n");
    let (code, _, stderr) = connect(&user, &["codex"]);
    let why = "so it was not changed: TOML parse error at line 1, column 6: unclosed array";
    assert!(code == Some(65) && stderr.contains(why) && !stderr.contains("\\n"), "{stderr}");
}

//! Files that make host programs run code later.
#![expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]

use std::os::unix::fs::symlink;
use std::path::Path;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;

/// Creates a project with a repository, editor settings and a folder prepared for an attack.
fn project(w: &Path) {
    fill(w, ".git/config", "[core]\n");
    fill(w, ".git/HEAD", "ref: refs/heads/main\n");
    fill(w, ".git/modules/sub/config", "[core]\n");
    fill(w, ".vscode/settings.json", "{}");
    fill(w, "AGENTS.md", "be good\n");
    fill(w, "prepared/hooks/pre-commit", "#!/bin/sh\n");
    fill(w, "prepared/config", "[core]\n");
    fill(w, "nested/inner/.envrc", "export A=1\n");
    fill(w, "plain/a/b.txt", "b");
    symlink(".git/config", w.join("link")).unwrap();
    symlink(".git", w.join("folder-link")).unwrap();
}

#[test]
fn overlays_cannot_complete_a_repository_in_the_folder() {
    for (theirs, ours) in [
        ("config", ["HEAD", "objects/x"]),
        ("hooks/post-commit", ["HEAD", "objects/x"]),
        ("HEAD", ["config", "objects/x"]),
    ] {
        let guest = Grant { mode: MountMode::Overlay, ..Grant::default() }
            .guest(|w| std::fs::create_dir(w.join("bare")).unwrap());
        guest.mkdir("/workspace/bare/objects").unwrap();
        ours.iter().for_each(|name| guest.write(&format!("/workspace/bare/{name}"), "x").unwrap());
        // Meanwhile, another run writes a file that it is allowed to write.
        fill(&guest.host("bare"), theirs, "x");
        assert!(guest.vfs.apply().is_err(), "{theirs}");
        assert!(
            !guest.host(&format!("bare/{}", ours[0])).exists(),
            "{theirs}: nothing was written"
        );
    }
    // A repository that existed before remains one.
    let there = |w: &Path| {
        ["HEAD", "config", "objects/x"]
            .iter()
            .for_each(|name| fill(w, &format!("bare/{name}"), "old"))
    };
    let guest = Grant { mode: MountMode::Overlay, ..Grant::default() }.guest(there);
    guest.write("/workspace/bare/HEAD", "new").unwrap();
    guest.vfs.apply().unwrap();
}

#[test]
fn workspaces_cannot_narrow_to_executable_parts_of_git() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "bare.git/HEAD", "ref: refs/heads/main\n");
    fill(dir.path(), "bare.git/hooks/inner/x", "");
    fill(dir.path(), "plain/hooks/x", "");
    symlink("plain", dir.path().join("link")).unwrap();
    for (below, expected) in [
        ("bare.git/hooks", false),
        ("bare.git/hooks/inner", false),
        ("bare.git/HOOKS", false),
        ("plain/hooks", true),
        ("plain", true),
        ("link", false),
        ("missing", false),
    ] {
        assert_eq!(may_narrow_to(dir.path(), below), expected, "{below}");
    }
    assert!(
        !may_narrow_to(&dir.path().join("bare.git"), "hooks"),
        "the workspace is the repository"
    );
    assert!(!may_narrow_to(Path::new("/"), "proc"), "another mount");
}

const PROTECTED: [&str; 12] = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/modules/sub/config",
    ".GIT/config",
    "sub/.git",
    ".envrc",
    ".vscode/tasks.json",
    "AGENTS.md",
    "docs/claude.md",
    ".claude/settings.json",
    "link",
    "folder-link/config",
];

#[test]
fn protected_files_are_readable_but_not_writable() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let guest = Grant { mode, ..Grant::default() }.guest(|w| {
            project(w);
            std::fs::create_dir_all(w.join("sub")).unwrap();
            std::fs::create_dir_all(w.join("docs")).unwrap();
        });
        assert_eq!(guest.read("/workspace/.git/config").unwrap(), "[core]\n");
        for path in PROTECTED {
            let path = format!("/workspace/{path}");
            for options in [WRITE, UPDATE, CREATE_NEW, OpenOptions { truncate: true, ..READ }] {
                let error = guest.open(&path, options).unwrap_err();
                assert!(
                    matches!(error, Errno::ACCESS | Errno::NOENT | Errno::EXIST),
                    "{path}: {error}"
                );
            }
            // A symlink's own name is not protected: a file may replace it.
            assert!(
                path.ends_with("/link") || guest.rename("/workspace/plain/a/b.txt", &path).is_err(),
                "{path}"
            );
            assert!(guest.mkdir(&path).is_err(), "{path}");
        }
        for path in [".git/config", "AGENTS.md", ".vscode/settings.json"] {
            let path = format!("/workspace/{path}");
            let (base, rest) = guest.at(&path);
            assert_eq!(guest.unlink(&path).unwrap_err(), Errno::ACCESS, "{path}");
            assert_eq!(
                guest.rename(&path, "/workspace/moved").unwrap_err(),
                Errno::ACCESS,
                "{path}"
            );
            assert_eq!(
                guest.vfs.set_times_at(&base, rest, true, NewTime::Now, NewTime::Now).unwrap_err(),
                Errno::ACCESS,
                "{path}"
            );
        }
        guest.write("/workspace/plain/package.json", "{}").unwrap();
        assert_eq!(
            guest.vfs.changes().iter().filter(|change| change.path != "plain/package.json").count(),
            0
        );
        let denials = guest.denials();
        let rule = "it configures version control; only an operator entry that names it can grant writing to it";
        assert!(
            denials.contains(&format!(
                "write /workspace/.git/config: {rule} [--allow 'Write(.git/config)']"
            )),
            "{denials:?}"
        );
    }
}

#[test]
fn only_literal_entries_grant_protected_files() {
    let writes = |entries: &[&str], path: &str| {
        let guest = Grant { write: entries, ..Grant::default() }.guest(project);
        guest.write(&format!("/workspace/{path}"), "x").is_ok()
    };
    for glob in [
        &["/workspace/.git/**"],
        &["/workspace/.git/*"],
        &["/workspace/.git/confi[g]"],
        &["/workspace/{.git}/config"],
        &["/workspace"],
    ] {
        assert!(!writes(glob, ".git/config"), "{glob:?}");
    }
    assert!(writes(&["/workspace/.git/config"], ".git/config"));
    assert!(writes(&["/workspace/.git/config", "/workspace/**"], ".git/config"));
    assert!(!writes(&["/workspace/.git/config", "/workspace/**"], ".git/HEAD"));
    assert!(!writes(&["/workspace/.git/config", "/workspace/**"], ".git/config2"));
    assert!(
        writes(&["/workspace/.vscode"], ".vscode/settings.json"),
        "an entry for a folder includes its contents"
    );
    assert!(
        !writes(&["/workspace/nested"], "nested/inner/.envrc"),
        "an entry for an unprotected folder does not name its contents"
    );
}

#[test]
fn client_roots_inside_protected_folders_are_protected() {
    let guest =
        Grant { rules_at: ".git/modules", ..Grant::default() }.guest(|w| fill(w, "sub/config", ""));
    assert_eq!(guest.write("/workspace/sub/config", "x").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.write("/workspace/sub/other", "x").unwrap_err(), Errno::ACCESS);
}

#[test]
fn folders_cannot_move_to_or_from_protected_paths() {
    let guest = Grant::default().guest(project);
    for (from, to) in [
        ("prepared", ".git2/../.claude"),
        ("prepared", ".husky"),
        ("prepared/hooks", ".git/hooks"),
        (".git", "old"),
        ("nested", "moved"),
        ("nested/inner", "inner"),
    ] {
        let error =
            guest.rename(&format!("/workspace/{from}"), &format!("/workspace/{to}")).unwrap_err();
        assert!(matches!(error, Errno::ACCESS | Errno::NOENT), "{from} -> {to}: {error}");
    }
    // A folder that becomes protected only at its new path.
    fill(&guest.host(""), "x/github/agents/a.md", "");
    guest.rename("/workspace/x/github", "/workspace/x/.github").unwrap_err();
    assert_eq!(guest.rename("/workspace/plain", "/workspace/other"), Ok(()));
    assert!(
        guest.denials().iter().any(|denial| denial.contains("nested/inner/.envrc")
            && denial.contains("a shell or a login"))
    );
}

#[test]
fn bare_repositories_cannot_gain_commands_in_any_order() {
    // Each list ends with the step that would complete a repository with commands.
    for steps in [
        &["+HEAD", "/objects", "/refs", "+config"][..],
        &["+HEAD", "/objects", "/refs", "/hooks"],
        &["+HEAD", "/objects", "/refs", "+Config"],
        &["+config", "/objects", "/refs", "+HEAD"],
        &["+config", "+HEAD", "/objects"],
        &["/hooks", "+HEAD", "/objects"],
        &["+HEAD", "+commondir"],
        &["+commondir", "+HEAD"],
        &["+config", "/objects", "/refs", "+x", ">x HEAD"],
        &["+HEAD", "/objects", "/y", ">y hooks"],
    ] {
        let guest = Grant::default().guest(|w| std::fs::create_dir(w.join("bare")).unwrap());
        let path = |name: &str| format!("/workspace/bare/{name}");
        let act = |step: &str| match step.split_at(1) {
            ("+", name) => guest.write(&path(name), "x"),
            ("/", name) => guest.mkdir(&path(name)),
            (_, names) => {
                let (from, to) = names.split_once(' ').unwrap();
                guest.rename(&path(from), &path(to))
            }
        };
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|step| act(step).unwrap());
        assert_eq!(act(last), Err(Errno::ACCESS), "{steps:?}");
        assert!(
            guest.denials().iter().any(|denial| denial.contains("git would run commands")),
            "{:?}",
            guest.denials()
        );
    }
    // Elsewhere, the same names have no meaning.
    let guest = Grant::default().guest(|w| fill(w, "src/main.rs", ""));
    guest.mkdir("/workspace/src/hooks").unwrap();
    guest.write("/workspace/src/hooks/use.ts", "x").unwrap();
    guest.write("/workspace/src/config", "x").unwrap();
    guest.mkdir("/workspace/src/objects").unwrap();
    // The operator may name the file.
    let named = Grant { write: &["/workspace/**", "/workspace/bare/config"], ..Grant::default() };
    let guest = named.guest(|w| {
        ["HEAD", "objects/x", "refs/x", "config"]
            .iter()
            .for_each(|file| fill(w, &format!("bare/{file}"), ""))
    });
    guest.write("/workspace/bare/config", "x").unwrap();
    assert_eq!(guest.mkdir("/workspace/bare/hooks").unwrap_err(), Errno::ACCESS);
}

#[test]
fn build_files_are_marked_in_the_diff() {
    let guest = Grant { mode: MountMode::Overlay, ..Grant::default() }
        .guest(|w| fill(w, "Makefile", "all:\n"));
    guest.write("/workspace/Makefile", "all: x\n").unwrap();
    guest.write("/workspace/notes.txt", "x\n").unwrap();
    let diff = guest.vfs.diff();
    assert!(diff.starts_with("Makefile [runs code on the host later]\n--- a/Makefile\n"), "{diff}");
    assert_eq!(diff.matches("runs code").count(), 1, "{diff}");
    guest.vfs.apply().unwrap();
    assert_eq!(std::fs::read_to_string(guest.host("Makefile")).unwrap(), "all: x\n");
}

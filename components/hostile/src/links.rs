//! Attempts to escape through links: existing links in the workspace, links that a guest creates,
//! and links that change during the attempt.

use crate::files::{BOTH, Wasi, folder};
use crate::report::Report;

/// Symbolic links created by the tests: to `outside`, absolute and relative, direct and through
/// another link, and to `/proc`.
const LINKS: &[&str] = &[
    "link-absolute",
    "link-relative",
    "link-to-link",
    "link-dir/secret.txt",
    "link-root/etc/passwd",
    "link-proc/environ",
    "in/link-up/outside/secret.txt",
];

/// Targets of links that a guest tries to create. None stays inside a folder, whatever other links
/// are in it.
const TARGETS: &[&str] = &[
    "/shadow",
    "../outside/secret.txt",
    "../../../../../../root/secret.txt",
    "/proc/self/environ",
    "in/link-up/outside/secret.txt",
    "in/../../outside/secret.txt",
    "made-before/../outside/secret.txt",
    "//shadow",
    "..",
];

/// Follows and creates symbolic links. Arguments: the secret outside, the same file's path on the
/// host, and the folders in which no link that leads out may be created.
pub(crate) async fn symlink(args: &[String]) -> Report {
    let secret = args.first().map_or("", String::as_str);
    let path = args.get(1).map_or("", String::as_str);
    let kept = args.get(2..).unwrap_or_default();
    let mut report = Report::default();
    for wasi in BOTH {
        let Some(workspace) = folder(wasi, "/workspace") else { continue };
        for link in LINKS {
            let what = format!("{wasi:?} {link}");
            report.must_fail(format!("read {what}"), workspace.read(link).await);
            report.must_fail(format!("stat {what}"), workspace.stat(link).await);
            report.must_fail(format!("hash {what}"), workspace.hash(link).await);
            report.must_fail(format!("touch {what}"), workspace.touch(link).await);
            report.must_fail(
                format!("write {what}"),
                workspace.open_for_writing(link, false, false).await.map(drop),
            );
            report.must_fail(
                format!("truncate {what}"),
                workspace.open_for_writing(link, true, true).await.map(drop),
            );
            report.must_fail(
                format!("link {what}"),
                workspace.hard_link(link, "fetched", true).await,
            );
        }
        for link in ["link-dir", "link-root", "in/link-up"] {
            let what = format!("{wasi:?} {link}");
            let inside = format!("{link}/made-by-a-guest");
            report.must_fail(format!("list {what}"), workspace.list(link).await);
            report.must_fail(format!("mkdir {what}"), workspace.mkdir(&inside).await);
            report.must_fail(
                format!("create {what}"),
                workspace.open_for_writing(&inside, true, false).await.map(drop),
            );
            report.must_fail(format!("rename into {what}"), workspace.rename("in", &inside).await);
            report.must_fail(
                format!("unlink {what}"),
                workspace.unlink(&format!("{link}/secret.txt")).await,
            );
        }
        for at in ["/workspace", "/tmp"] {
            create_links(&mut report, wasi, at, (secret, path), kept.iter().any(|kept| kept == at))
                .await;
        }
    }
    report
}

/// Creates links that lead out of `at`, and uses them. `must_fail` says that they could be followed on
/// the host later, so that none may be created.
async fn create_links(
    report: &mut Report,
    wasi: Wasi,
    at: &str,
    (secret, path): (&str, &str),
    must_fail: bool,
) {
    let Some(folder) = folder(wasi, at) else { return };
    // Where links are allowed, this one is: it leads to the folder itself.
    let _ = folder.symlink(".", "made-before").await;
    for target in TARGETS.iter().copied().chain([path, "link-dir/secret.txt"]) {
        let what = format!("{wasi:?} {at} a link to {target}");
        let made = folder.symlink(target, "made-by-a-guest").await;
        if must_fail {
            report.must_fail(format!("make {what}"), made);
        }
        let read = folder.read("made-by-a-guest").await;
        report.must_not_yield(format!("read {what}"), read, secret);
        for inside in ["made-by-a-guest/secret.txt", "made-by-a-guest/outside/secret.txt"] {
            report.must_not_yield(
                format!("read {inside} below {what}"),
                folder.read(inside).await,
                secret,
            );
            report.must_fail(
                format!("write {inside} below {what}"),
                folder.open_for_writing(inside, false, true).await.map(drop),
            );
        }
        report.must_fail(
            format!("write {what}"),
            folder.open_for_writing("made-by-a-guest", false, true).await.map(drop),
        );
        // A rename must not turn a link, either: from a deeper folder to one above it.
        let moved = folder.rename("in/made-deeper", "made-by-a-rename").await;
        if must_fail {
            report.must_fail(format!("move a link, with {what}"), moved);
        }
        report.must_not_yield(
            format!("read a moved link, with {what}"),
            folder.read("made-by-a-rename").await,
            secret,
        );
        let _ = folder.unlink("made-by-a-guest").await;
        let _ = folder.unlink("made-by-a-rename").await;
        let _ = folder.symlink("../outside/secret.txt", "in/made-deeper").await;
    }
    let _ = folder.unlink("in/made-deeper").await;
    let _ = folder.unlink("made-before").await;
}

/// Uses and creates hard links. `linked.txt` has a second name outside.
pub(crate) async fn hardlink(_: &[String]) -> Report {
    let mut report = Report::default();
    for wasi in BOTH {
        let Some(workspace) = folder(wasi, "/workspace") else { continue };
        report.must_fail(
            format!("{wasi:?} write"),
            workspace.open_for_writing("linked.txt", false, false).await.map(drop),
        );
        report.must_fail(
            format!("{wasi:?} truncate"),
            workspace.open_for_writing("linked.txt", false, true).await.map(drop),
        );
        report.must_fail(format!("{wasi:?} touch"), workspace.touch("linked.txt").await);
        if let Ok(file) = workspace.open("linked.txt").await {
            report.must_fail(
                format!("{wasi:?} write at a handle for reading"),
                file.write(b"mine now".to_vec(), 0).await,
            );
            report
                .must_fail(format!("{wasi:?} cut at a handle for reading"), file.set_size(0).await);
        }
        for (from, to) in [
            ("own.txt", "own-too.txt"),
            ("linked.txt", "in/linked.txt"),
            ("../outside/secret.txt", "fetched"),
            ("/etc/passwd", "passwd"),
        ] {
            for follow in [false, true] {
                report.must_fail(
                    format!("{wasi:?} link {from}"),
                    workspace.hard_link(from, to, follow).await,
                );
            }
        }
    }
    report
}

/// Opens `flip/secret.txt` repeatedly, while the tests switch `flip` between a folder and a link to
/// `outside`.
pub(crate) async fn race(args: &[String]) -> Report {
    let secret = args.first().map_or("", String::as_str);
    let rounds = args.get(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(2_000_u32);
    let mut report = Report::default();
    for _ in 0..rounds {
        for wasi in BOTH {
            let Some(workspace) = folder(wasi, "/workspace") else { continue };
            report.must_not_yield(
                format!("{wasi:?} read"),
                workspace.read("flip/secret.txt").await,
                secret,
            );
            if let Ok(names) = workspace.list("flip").await
                && names.iter().any(|name| name == "only-outside")
            {
                report.escape(format!("{wasi:?} listed the folder outside"));
            }
            if workspace.open_for_writing("flip/made-by-a-guest", true, false).await.is_ok() {
                // For the guest the file is in the folder; the tests check the folder outside.
                report.answer("made a file");
            }
        }
    }
    report
}

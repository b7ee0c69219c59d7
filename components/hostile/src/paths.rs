//! Attempts to escape from the granted folders by path names.
//!
//! The tests put a folder `outside` next to each granted folder. It contains a file `secret.txt`,
//! whose text they pass as argument.

use crate::files::{BOTH, Folder, preopens};
use crate::report::Report;

/// Ways to write a path to a parent folder. Each is tried on every granted folder, below one of its
/// subfolders, and with every operation.
const UP: &[&str] = &[
    "../",
    "./../",
    "..//",
    ".././",
    "../../",
    "../../../",
    "../../../../../../../../../../../../../../../../",
    "in/../../",
    "in/./..//../",
    "in/../in/../../",
    "missing/../../",
];

/// Texts that only a decoder, a normaliser or another operating system reads as a path to a parent
/// folder.
const DISGUISED: &[&str] = &[
    "..\\",
    "..%2f",
    "%2e%2e/",
    "%252e%252e/",
    "..\u{2215}",
    "\u{ff0e}\u{ff0e}/",
    "..\0/",
    "\0../",
    "....//",
    ". ./",
    ".. /",
    " ../",
    "..;/",
    "~/../",
    "$PWD/../",
    "{..}/",
];

const TARGETS: &[&str] =
    &["outside/secret.txt", "outside", "etc/passwd", "proc/self/environ", "tmp", ""];

/// Uses `..` in many spellings.
pub(crate) async fn traversal(args: &[String]) -> Report {
    let secret = args.first().map_or("", String::as_str);
    let mut report = Report::default();
    for wasi in BOTH {
        for (folder, name) in preopens(wasi) {
            for target in TARGETS {
                for up in UP {
                    let path = format!("{up}{target}");
                    climb(&mut report, &folder, &format!("{wasi:?} {name} {path:?}"), &path).await;
                }
                for up in DISGUISED {
                    let path = format!("{up}{target}");
                    report.must_not_yield(
                        format!("{wasi:?} {name} {path:?}"),
                        folder.read(&path).await,
                        secret,
                    );
                }
            }
            tell_apart(&mut report, &folder, &format!("{wasi:?} {name}")).await;
        }
    }
    report
}

/// Tries every operation on a path above the folder, whether or not it exists.
async fn climb(report: &mut Report, folder: &Folder, what: &str, path: &str) {
    let name = format!("{path}made-by-a-guest");
    report.must_fail(format!("open {what}"), folder.open(path).await.map(drop));
    report.must_fail(format!("list {what}"), folder.list(path).await);
    report.must_fail(format!("stat {what}"), folder.stat(path).await);
    report.must_fail(format!("hash {what}"), folder.hash(path).await);
    report.must_fail(format!("readlink {what}"), folder.readlink(path).await);
    report.must_fail(format!("touch {what}"), folder.touch(path).await);
    report.must_fail(
        format!("open for writing {what}"),
        folder.open_for_writing(path, false, false).await.map(drop),
    );
    report.must_fail(
        format!("create {what}"),
        folder.open_for_writing(&name, true, false).await.map(drop),
    );
    report.must_fail(format!("mkdir {what}"), folder.mkdir(&name).await);
    report.must_fail(format!("unlink {what}"), folder.unlink(path).await);
    report.must_fail(format!("rmdir {what}"), folder.rmdir(path).await);
    report.must_fail(format!("rename out {what}"), folder.rename("in", &name).await);
    report.must_fail(format!("rename in {what}"), folder.rename(path, "fetched").await);
    report.must_fail(format!("link {what}"), folder.hard_link(path, "linked", true).await);
}

/// Checks whether errors reveal what exists outside.
async fn tell_apart(report: &mut Report, folder: &Folder, what: &str) {
    for up in UP {
        let there = folder.stat(&format!("{up}outside/secret.txt")).await;
        let missing = folder.stat(&format!("{up}outside/no-such-file")).await;
        if there != missing {
            report.escape(format!(
                "{what} {up}: {there:?} where something is, {missing:?} where nothing is"
            ));
        }
    }
}

/// Uses absolute paths: the host's, the guest's, and malformed ones.
pub(crate) async fn absolute(args: &[String]) -> Report {
    let mut report = Report::default();
    let odd = [
        "/etc/passwd",
        "//etc/passwd",
        "///etc/passwd",
        "/./etc/passwd",
        "/../etc/passwd",
        "/",
        "//",
        "/tmp",
        "/skill/SKILL.md",
        "/workspace/../etc/passwd",
        "/proc/self/environ",
        "/proc/self/exe",
        "/proc/self/root",
        "/dev/null",
    ];
    let paths: Vec<&str> = odd.into_iter().chain(args.iter().map(String::as_str)).collect();
    for wasi in BOTH {
        for (folder, name) in preopens(wasi) {
            for path in &paths {
                climb(&mut report, &folder, &format!("{wasi:?} {name} {path:?}"), path).await;
            }
            for path in ["file:///etc/passwd", "C:\\Windows", "\\\\?\\C:\\", "\\etc\\passwd", ""] {
                report.must_fail(
                    format!("{wasi:?} {name} {path:?}"),
                    folder.open(path).await.map(drop),
                );
            }
        }
    }
    report
}

/// Looks for Linux's views of processes and devices, under every name that might lead there.
pub(crate) async fn proc(_: &[String]) -> Report {
    let mut report = Report::default();
    let places = [
        "proc/self/environ",
        "proc/self/maps",
        "proc/self/mem",
        "proc/self/cwd",
        "proc/self/root/etc/passwd",
        "proc/self/fd/0",
        "proc/self/fd/3",
        "proc/1/environ",
        "proc/version",
        "dev/mem",
        "dev/tty",
        "dev/fd/0",
        "dev/shm",
        "sys/kernel",
        "run",
    ];
    for wasi in BOTH {
        for (folder, name) in preopens(wasi) {
            for place in places {
                for up in ["", "/", "../", "../../", "../../../../../../../../"] {
                    let path = format!("{up}{place}");
                    report.must_fail(
                        format!("{wasi:?} {name} {path}"),
                        folder.open(&path).await.map(drop),
                    );
                }
            }
        }
    }
    report
}

/// Accesses files that the rules exclude, by other names. The tests grant `*.csv` and put
/// `hidden.txt` into the same folder.
pub(crate) async fn glob(args: &[String]) -> Report {
    let secret = args.first().map_or("", String::as_str);
    let mut report = Report::default();
    let spellings = [
        "hidden.txt",
        "./hidden.txt",
        "in/../hidden.txt",
        ".//hidden.txt",
        "hidden.txt/",
        "HIDDEN.TXT",
        "hidden.txt\0.csv",
        "in/link.csv",
        "link.csv",
    ];
    for wasi in BOTH {
        let Some(folder) = crate::files::folder(wasi, "/workspace") else { continue };
        for path in spellings {
            report.must_not_yield(format!("{wasi:?} read {path}"), folder.read(path).await, secret);
            report.must_fail(format!("{wasi:?} stat {path}"), folder.stat(path).await);
            report.must_fail(
                format!("{wasi:?} write {path}"),
                folder.open_for_writing(path, true, true).await.map(drop),
            );
        }
        report
            .must_fail(format!("{wasi:?} rename"), folder.rename("hidden.txt", "shown.csv").await);
        report.must_fail(
            format!("{wasi:?} link"),
            folder.hard_link("hidden.txt", "linked.csv", true).await,
        );
        report.must_fail(
            format!("{wasi:?} symlink"),
            folder.symlink("hidden.txt", "symlinked.csv").await,
        );
        for path in ["shown.csv", "linked.csv", "symlinked.csv"] {
            report.must_not_yield(format!("{wasi:?} read {path}"), folder.read(path).await, secret);
        }
        match folder.list(".").await {
            Ok(names) if names.iter().any(|name| name == "hidden.txt") => {
                report.escape(format!("{wasi:?} hidden.txt is listed"))
            }
            listed => report.answer(format!("listed: {listed:?}")),
        }
    }
    report
}

/// Writes to read-only folders.
pub(crate) async fn read_only(args: &[String]) -> Report {
    let mut report = Report::default();
    for wasi in BOTH {
        for at in args {
            let Some(folder) = crate::files::folder(wasi, at) else {
                report.escape(format!("{at} is not there to be tried"));
                continue;
            };
            let what = format!("{wasi:?} {at}");
            for path in ["SKILL.md", "made-by-a-guest", "in/made-by-a-guest"] {
                report.must_fail(
                    format!("{what} create {path}"),
                    folder.open_for_writing(path, true, false).await.map(drop),
                );
                report.must_fail(
                    format!("{what} truncate {path}"),
                    folder.open_for_writing(path, false, true).await.map(drop),
                );
                report.must_fail(
                    format!("{what} write {path}"),
                    folder.open_for_writing(path, false, false).await.map(drop),
                );
                report.must_fail(format!("{what} unlink {path}"), folder.unlink(path).await);
                report.must_fail(format!("{what} touch {path}"), folder.touch(path).await);
                report.must_fail(
                    format!("{what} rename {path}"),
                    folder.rename(path, "renamed").await,
                );
                report.must_fail(
                    format!("{what} link {path}"),
                    folder.hard_link(path, "linked", false).await,
                );
            }
            report.must_fail(format!("{what} mkdir"), folder.mkdir("made-by-a-guest").await);
            report.must_fail(format!("{what} rmdir"), folder.rmdir("in").await);
            report.must_fail(
                format!("{what} symlink"),
                folder.symlink("SKILL.md", "symlinked").await,
            );
            if let Ok(file) = folder.open("SKILL.md").await {
                report.must_fail(
                    format!("{what} write at a handle for reading"),
                    file.write(b"mine now".to_vec(), 0).await,
                );
                report.must_fail(
                    format!("{what} cut at a handle for reading"),
                    file.set_size(0).await,
                );
            }
        }
    }
    report
}

/// Accesses the host's own files in a folder that is granted as a whole. Arguments: their paths
/// below `/workspace`.
pub(crate) async fn state(args: &[String]) -> Report {
    let mut report = Report::default();
    for wasi in BOTH {
        let Some(folder) = crate::files::folder(wasi, "/workspace") else {
            report.escape("no folder to try");
            continue;
        };
        for path in args {
            let what = format!("{wasi:?} {path}");
            let (moved, inside) = (format!("{path}-moved"), format!("{path}/made-by-a-guest"));
            report.must_fail(format!("stat {what}"), folder.stat(path).await);
            report.must_fail(format!("read {what}"), folder.open(path).await.map(drop));
            report.must_fail(format!("list {what}"), folder.list(path).await);
            report.must_fail(
                format!("write {what}"),
                folder.open_for_writing(path, true, true).await.map(drop),
            );
            report.must_fail(
                format!("create in {what}"),
                folder.open_for_writing(&inside, true, true).await.map(drop),
            );
            report.must_fail(format!("mkdir {what}"), folder.mkdir(&inside).await);
            report.must_fail(format!("rename {what}"), folder.rename(path, &moved).await);
            report.must_fail(
                format!("rename onto {what}"),
                folder.rename("workspace/own.txt", path).await,
            );
            report.must_fail(format!("unlink {what}"), folder.unlink(path).await);
            report.must_fail(format!("rmdir {what}"), folder.rmdir(path).await);
            for (at, _) in path.match_indices('/') {
                let (above, rest) = path.split_at(at);
                let (moved, below) = (format!("{above}-moved"), format!("{above}-moved{rest}"));
                report.must_fail(format!("rename {above}"), folder.rename(above, &moved).await);
                report.must_fail(format!("open {below}"), folder.open(&below).await.map(drop));
            }
        }
    }
    report
}

//! Random operations have the same results in an overlay as in a plain folder, and applying the
//! overlay produces the same folder.
#![expect(clippy::disallowed_methods, reason = "the model is a real folder")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::outcome::ChangeKind;

#[derive(Debug, Clone)]
enum Op {
    Write(String, u8),
    Append(String, u8),
    Mkdir(String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    Read(String),
    List(String),
}

/// Few names, so that operations collide.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| names.join("/"))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (path(), 0..3u8).prop_map(|(p, n)| Op::Write(p, n)),
        2 => (path(), 0..3u8).prop_map(|(p, n)| Op::Append(p, n)),
        3 => path().prop_map(Op::Mkdir),
        3 => path().prop_map(Op::Unlink),
        3 => path().prop_map(Op::Rmdir),
        3 => (path(), path()).prop_map(|(p, q)| Op::Rename(p, q)),
        1 => path().prop_map(Op::Read),
        2 => path().prop_map(Op::List),
    ]
}

/// The result of an operation: the content or listing, or an error number.
type Outcome = Result<Vec<String>, i32>;

fn on_guest(guest: &Guest, op: &Op) -> Outcome {
    let at = |p: &String| format!("/workspace/{p}");
    let result = match op {
        Op::Write(p, n) => guest.write(&at(p), &n.to_string()).map(|()| vec![]),
        Op::Append(p, n) => guest.append(&at(p), &n.to_string()).map(|()| vec![]),
        Op::Mkdir(p) => guest.mkdir(&at(p)).map(|()| vec![]),
        Op::Unlink(p) => guest.unlink(&at(p)).map(|()| vec![]),
        Op::Rmdir(p) => guest.rmdir(&at(p)).map(|()| vec![]),
        Op::Rename(p, q) => guest.rename(&at(p), &at(q)).map(|()| vec![]),
        Op::Read(p) => guest.read(&at(p)).map(|text| vec![text]),
        Op::List(p) => guest.list(&at(p)),
    };
    result.map_err(|e| e.raw_os_error())
}

fn on_folder(root: &Path, op: &Op) -> Outcome {
    let at = |p: &String| root.join(p);
    let result = match op {
        Op::Write(p, n) => std::fs::write(at(p), n.to_string()).map(|()| vec![]),
        Op::Append(p, n) => std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(at(p))
            .and_then(|mut file| file.write_all(n.to_string().as_bytes()))
            .map(|()| vec![]),
        Op::Mkdir(p) => std::fs::create_dir(at(p)).map(|()| vec![]),
        Op::Unlink(p) => std::fs::remove_file(at(p)).map(|()| vec![]),
        Op::Rmdir(p) => std::fs::remove_dir(at(p)).map(|()| vec![]),
        Op::Rename(p, q) => std::fs::rename(at(p), at(q)).map(|()| vec![]),
        Op::Read(p) => std::fs::read_to_string(at(p)).map(|text| vec![text]),
        Op::List(p) => std::fs::read_dir(at(p)).map(|entries| {
            let mut names: Vec<_> =
                entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }),
    };
    result.map_err(|e| e.raw_os_error().unwrap())
}

/// Returns each path below a folder, with the text of files.
fn tree(root: &Path) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![String::new()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let rel = beneath::join(&folder, entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                todo.push(rel.clone());
                found.insert(rel, None);
            } else {
                found.insert(rel, Some(std::fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    found
}

/// Returns the same for the guest's view.
fn guest_tree(guest: &Guest) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![String::new()];
    while let Some(folder) = todo.pop() {
        for name in guest.list(&format!("/workspace/./{folder}")).unwrap() {
            let rel = beneath::join(&folder, &name);
            let path = format!("/workspace/{rel}");
            if guest.stat(&path).unwrap().kind == rustix::fs::FileType::Directory {
                todo.push(rel.clone());
                found.insert(rel, None);
            } else {
                found.insert(rel, Some(guest.read(&path).unwrap()));
            }
        }
    }
    found
}

/// Computes the changes from one tree to another the simple way.
fn difference(
    old: &BTreeMap<String, Option<String>>,
    new: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, ChangeKind> {
    let mut changes = BTreeMap::new();
    for path in old.keys().chain(new.keys()) {
        let (before, after) = (old.get(path), new.get(path));
        let kind = match (before, after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (before, after) if before != after => ChangeKind::Changed,
            _ => continue,
        };
        let folder = after.or(before).unwrap().is_none();
        changes.insert(if folder { format!("{path}/") } else { path.clone() }, kind);
    }
    changes
}

fn check(before: &[Op], ops: &[Op], mode: MountMode) -> Result<(), TestCaseError> {
    let model = folder_in_memory();
    let fill = |root: &Path| before.iter().for_each(|op| drop(on_folder(root, op)));
    fill(model.path());
    let guest = Grant { mode, ..Grant::default() }.guest(fill);
    let original = tree(&guest.host(""));
    for op in ops {
        let in_overlay = mode == MountMode::Overlay;
        if let Op::Rename(from, _) = op
            && in_overlay
            && model.path().join(from).is_dir()
        {
            prop_assert!(on_guest(&guest, op).is_err(), "{op:?}: guests must copy folders");
            continue;
        }
        let (ours, theirs) = (on_guest(&guest, op), on_folder(model.path(), op));
        // If a rename is wrong in two ways, either error may be reported.
        let both_fail = matches!(op, Op::Rename(..)) && ours.is_err() && theirs.is_err();
        prop_assert!(both_fail || ours == theirs, "{op:?}: {ours:?}, not {theirs:?}");
    }
    let expected = tree(model.path());
    prop_assert_eq!(&guest_tree(&guest), &expected);
    if mode == MountMode::Overlay {
        prop_assert_eq!(&tree(&guest.host("")), &original, "the folder is unchanged");
        let changes: BTreeMap<_, _> =
            guest.vfs.changes().into_iter().map(|c| (c.path, c.kind)).collect();
        prop_assert_eq!(changes, difference(&original, &expected));
        guest.vfs.apply().unwrap();
        prop_assert_eq!(guest.vfs.changes(), vec![]);
    }
    prop_assert_eq!(&tree(&guest.host("")), &expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn overlays_behave_and_apply_like_a_plain_folder(
        before in prop::collection::vec(op(), 0..25),
        ops in prop::collection::vec(op(), 0..40),
    ) {
        check(&before, &ops, MountMode::Overlay)?;
    }

    #[test]
    fn mounts_behave_like_a_plain_folder(
        before in prop::collection::vec(op(), 0..25),
        ops in prop::collection::vec(op(), 0..40),
    ) {
        check(&before, &ops, MountMode::Write)?;
    }
}

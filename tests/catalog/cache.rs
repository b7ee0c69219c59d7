//! What the cache stores and detects, and how a broken cache is rebuilt.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;

use rusqlite::Connection;
use skillhost_catalog::{Query, SourceKind};

use super::{Place, names, write};
use crate::hostile_host::HANG_TIMEOUT;

fn description(place: &Place, name: &str) -> String {
    place.open("all").get(name).unwrap().description.to_string()
}

#[test]
fn unchanged_skills_are_not_read_again() {
    let place = Place::new();
    let folder = place.skill("all/a", "Written.");
    place.skill("all/b", "B.");
    assert_eq!(description(&place, "a"), "Written.");
    let db = Connection::open(place.cache().join("catalog.db")).unwrap();
    db.execute("UPDATE skill SET description = 'Kept.'", []).unwrap();
    assert_eq!(
        (description(&place, "a"), description(&place, "b")),
        ("Kept.".into(), "Kept.".into())
    );
    // Only the changed skill is read.
    write(&folder, "description: Anew.\n", "");
    assert_eq!(
        (description(&place, "a"), description(&place, "b")),
        ("Anew.".into(), "Kept.".into())
    );
}

#[test]
fn a_start_from_the_cache_notices_every_change() {
    let place = Place::new();
    let (a, b) = (place.skill("all/x/a", "A."), place.skill("all/b", "B."));
    let catalog = place.open("all");
    assert_eq!(catalog.refresh().unwrap(), [""; 0]);
    place.skill("all/x/new", "N.");
    assert_eq!(catalog.refresh().unwrap(), ["new"]);
    std::fs::remove_dir_all(&b).unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["b"]);
    std::fs::create_dir(a.join("scripts")).unwrap();
    std::fs::write(a.join("scripts/run.sh"), "").unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["a"]);
    std::fs::write(a.join("scripts/run.py"), "").unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["a"]);
    std::fs::rename(a.join("SKILL.md"), a.join("skill.md")).unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["a"]);
    std::fs::remove_file(a.join("skill.md")).unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["a"]);
    std::fs::remove_dir_all(place.path("all")).unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["new"]);
    assert!(names(&catalog).is_empty());
    place.skill("all/back", "Back.");
    assert_eq!(catalog.refresh().unwrap(), ["back"]);
    assert_eq!(names(&place.open("all")), ["back"]);
}

#[test]
fn a_refresh_sees_changes_of_other_processes() {
    let place = Place::new();
    let folder = place.skill("all/a", "One.");
    let (first, second) = (place.open("all"), place.open("all"));
    write(&folder, "description: Two.\n", "");
    assert_eq!(first.refresh().unwrap(), ["a"]);
    assert_eq!(second.refresh().unwrap(), ["a"]);
    assert_eq!(&*second.get("a").unwrap().description, "Two.");
}

#[test]
fn an_invalid_cache_is_rebuilt() {
    let place = Place::new();
    place.skill("all/a", "Extracts tables.");
    let file = place.cache().join("catalog.db");
    let find = || {
        let catalog = place.open("all");
        let hits = catalog.search(&Query { text: "tables".into(), ..Query::default() }).unwrap();
        assert_eq!(hits.len(), 1);
        assert_eq!(&*hits[0].entry.name, "a");
    };
    find();
    let original = std::fs::read(&file).unwrap();
    let overwrite = |bytes: &[u8]| {
        std::fs::remove_file(place.cache().join("catalog.db-wal")).ok();
        std::fs::remove_file(place.cache().join("catalog.db-shm")).ok();
        std::fs::write(&file, bytes).unwrap();
    };
    overwrite(b"this is not a database, despite its name; the text is longer than 100 bytes, so that SQLite reads it as a header");
    find();
    overwrite(&original[..original.len() / 2]);
    find();
    // Every page but the first, which has the names of the tables.
    let mut torn = original.clone();
    torn[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    overwrite(&torn);
    find();
    overwrite(b"");
    find();
    for foreign in [
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 1",
        "DROP TABLE skill",
        "DROP TABLE words",
    ] {
        Connection::open(&file).unwrap().execute_batch(foreign).unwrap();
        find();
    }
    std::fs::remove_file(&file).unwrap();
    find();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_cache_corrupted_while_in_use_is_rebuilt() {
    let place = Place::new();
    place.skill("all/a", "Extracts tables.");
    let catalog = place.open("all");
    Connection::open(place.cache().join("catalog.db"))
        .unwrap()
        .execute_batch("DROP TABLE words; DROP TABLE skill")
        .unwrap();
    let hits = catalog.search(&Query { text: "tables".into(), ..Query::default() }).unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(names(&catalog), ["a"]);
}

#[test]
fn without_a_cache_folder_everything_is_read() {
    let place = Place::new();
    place.skill("all/a", "Extracts tables.");
    std::fs::write(place.cache(), "a file where the folder should be").unwrap();
    let catalog = place.open("all");
    assert_eq!(
        catalog.search(&Query { text: "table".into(), ..Query::default() }).unwrap().len(),
        1
    );
}

#[test]
fn concurrent_starts_share_the_cache() {
    let place = Place::new();
    for number in 0..50 {
        place.skill(&format!("all/s{number}"), &format!("Skill number {number} for counting."));
    }
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let catalog = place.open("all");
                    assert_eq!(names(&catalog).len(), 50);
                    let query = Query { text: "counting".into(), limit: 100, ..Query::default() };
                    assert_eq!(catalog.search(&query).unwrap().len(), 50);
                });
            }
        });
        std::fs::remove_dir_all(place.cache()).unwrap();
    }
}

#[test]
fn catalogues_share_the_cache_but_not_results() {
    let place = Place::new();
    place.skill("one/a", "Extracts tables.");
    place.skill("two/b", "Extracts tables.");
    let (one, two) = (place.open("one"), place.open("two"));
    let query = Query { text: "tables".into(), ..Query::default() };
    assert_eq!(&*one.search(&query).unwrap()[0].entry.name, "a");
    assert_eq!(&*two.search(&query).unwrap()[0].entry.name, "b");
    // A missing source is removed at the next write.
    std::fs::remove_dir_all(place.path("one")).unwrap();
    place.skill("two/c", "C.");
    two.refresh().unwrap();
    let db = Connection::open(place.cache().join("catalog.db")).unwrap();
    let count: i64 = db.query_row("SELECT count(*) FROM source", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn changes_are_noticed_while_it_runs() {
    let place = Place::new();
    place.skill("all/a", "A.");
    let sources =
        place.sources(&[("later/.agents/skills", SourceKind::Project), ("all", SourceKind::User)]);
    let catalog = skillhost_catalog::Catalog::open(sources, Some(&place.cache())).unwrap();
    let (send, receive) = mpsc::channel();
    let watch = catalog.watch(move |changes| drop(send.send(changes))).unwrap();
    let next = || receive.recv_timeout(HANG_TIMEOUT).unwrap();
    place.skill("all/deep/b", "B.");
    assert_eq!(next().skills, ["b"]);
    assert!(catalog.get("b").is_some());
    place.skill("all/deep/b", "Better.");
    assert_eq!(next().skills, ["b"]);
    // A file of the skill is not another skill, however deep it is.
    std::fs::create_dir_all(place.path("all/deep/b/references/more")).unwrap();
    let file = ("b".to_owned(), "references/more/one.md".to_owned());
    std::fs::write(place.path("all/deep/b").join(&file.1), "one").unwrap();
    while !next().files.contains(&file) {}
    std::fs::write(place.path("all/deep/b").join(&file.1), "two").unwrap();
    let written = std::iter::repeat_with(next)
        .find(|changes| changes.files == [file.clone()].into())
        .unwrap();
    assert!(written.skills.is_empty() && !written.all, "{written:?}");
    // A folder that did not exist when the watch started.
    place.skill("later/.agents/skills/c", "C.");
    while next().skills != ["c"] {}
    drop(watch);
    place.skill("all/d", "D.");
    // The thread drops its sender when it stops.
    assert_eq!(receive.recv_timeout(HANG_TIMEOUT), Err(mpsc::RecvTimeoutError::Disconnected));
}

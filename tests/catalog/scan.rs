//! Where skills are found, which of two skills with one name wins, and which are omitted.

use std::os::unix::fs::symlink;

use skillhost_catalog::{Catalog, CatalogError, SkillRuntime, SourceKind};

use super::{Place, names, write};

#[test]
fn earlier_sources_win_and_others_are_reported() {
    let place = Place::new();
    let first = place.skill("project/a", "Of the project.");
    let second = place.skill("home/a", "Of the user.");
    let third = place.skill("policy/x/a", "Of the operator.");
    place.skill("home/b", "Of the user.");
    let sources = [
        ("project", SourceKind::Project),
        ("home", SourceKind::User),
        ("policy", SourceKind::Policy),
        ("no", SourceKind::User),
    ];
    let catalog = Catalog::open(place.sources(&sources), None).unwrap();
    assert_eq!(names(&catalog), ["a", "b"]);
    let (a, b) = (catalog.get("a").unwrap(), catalog.get("b").unwrap());
    assert_eq!(
        (&*a.description, &*a.folder, a.source, a.trusted),
        ("Of the project.", &*first, SourceKind::Project, false)
    );
    assert_eq!((b.source, b.trusted), (SourceKind::User, false));
    let shadowed: Vec<_> = catalog
        .shadowed()
        .iter()
        .map(|one| (one.folder.to_path_buf(), one.by.to_path_buf()))
        .collect();
    assert_eq!(shadowed, [(second, first.clone()), (third, first)]);
}

#[test]
fn a_skill_has_the_name_of_its_folder() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("all/calm")).unwrap();
    std::fs::write(
        place.path("all/calm/SKILL.md"),
        "---\nname: calculator\ndescription: Not it.\n---\n",
    )
    .unwrap();
    let catalog = place.open("all");
    assert!(catalog.get("calculator").is_none());
    assert_eq!(&*catalog.get("calm").unwrap().description, "Not it.");
}

#[test]
fn a_broken_skill_is_reported_and_others_are_found() {
    let place = Place::new();
    place.skill("all/good", "Good.");
    std::fs::create_dir_all(place.path("all/bad")).unwrap();
    std::fs::write(place.path("all/bad/SKILL.md"), "no frontmatter\n").unwrap();
    // Reported the second time too, from the cache.
    for _ in 0..2 {
        let catalog = place.open("all");
        assert_eq!(names(&catalog), ["good"]);
        let broken = catalog.problems();
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].folder, place.path("all/bad"));
        assert!(broken[0].why.contains("frontmatter"), "{}", broken[0].why);
    }
}

#[test]
fn entries_have_runtimes_network_and_tags() {
    let place = Place::new();
    let frontmatter = "description: D.\nallowed-tools: Read WebFetch(domain:example.com)\nmetadata:\n  tags: Finance, Tax\n  category: Money\n  component: a.wasm\n";
    let folder = write(&place.path("all/a"), frontmatter, "");
    std::fs::create_dir(folder.join("scripts")).unwrap();
    std::fs::write(folder.join("scripts/x.py"), "").unwrap();
    place.skill("all/b", "D.");
    let catalog = place.open("all");
    let a = catalog.get("a").unwrap();
    assert_eq!(
        a.runtimes.iter().collect::<Vec<_>>(),
        [SkillRuntime::Component, SkillRuntime::Python]
    );
    assert_eq!(
        (a.network, a.tags.iter().map(|tag| &**tag).collect::<Vec<_>>()),
        (true, vec!["money", "finance", "tax"])
    );
    let b = catalog.get("b").unwrap();
    assert_eq!(
        (b.runtimes.iter().collect::<Vec<_>>(), b.network),
        (vec![SkillRuntime::Instructions], false)
    );
    assert!(a.digest.starts_with("sha256:") && a.digest != b.digest);
}

#[test]
fn six_levels_of_folders_are_searched() {
    let place = Place::new();
    place.skill("all/1/2/3/4/5/six", "D.");
    place.skill("all/1/2/3/4/5/6/seven", "D.");
    let catalog = place.open("all");
    assert_eq!(names(&catalog), ["six"]);
    assert!(catalog.problems()[0].why.contains("more than 6 levels"), "{:?}", catalog.problems());
}

#[test]
fn two_thousand_folders_are_searched() {
    let place = Place::new();
    for number in 0..1_999 {
        std::fs::create_dir_all(place.path(&format!("all/{number:04}"))).unwrap();
    }
    place.skill("all/last", "D.");
    let catalog = place.open("all");
    assert_eq!((names(&catalog), catalog.problems().len()), (vec!["last".to_owned()], 0));
    std::fs::create_dir(place.path("all/1999")).unwrap();
    assert_eq!(catalog.refresh().unwrap(), ["last"]);
    assert!(
        catalog.problems()[0].why.contains("more than 2000 folders"),
        "{:?}",
        catalog.problems()
    );
}

#[test]
fn links_cause_no_loops_and_do_not_leave_a_project() {
    let place = Place::new();
    place.skill("all/deep/a", "D.");
    place.skill("elsewhere/b", "D.");
    symlink(".", place.path("all/self")).unwrap();
    symlink("../..", place.path("all/deep/up")).unwrap();
    symlink("deep", place.path("all/again")).unwrap();
    symlink(place.path("elsewhere/b"), place.path("all/out")).unwrap();
    symlink("nowhere", place.path("all/broken")).unwrap();
    let open = |kind| Catalog::open(place.sources(&[("all", kind)]), Some(&place.cache())).unwrap();

    let project = open(SourceKind::Project);
    assert_eq!(names(&project), ["a"]);
    let reasons: Vec<_> = project.problems().iter().map(|broken| broken.why.clone()).collect();
    assert_eq!(
        reasons,
        [
            "`deep/up` is a symlink that points outside the folder",
            "`out` is a symlink that points outside the folder"
        ]
    );

    // The user's own links are followed. `deep/up` leads to a folder that contains all the others:
    // nothing is found twice.
    let user = open(SourceKind::User);
    assert_eq!((user.get("a").is_some(), user.shadowed().len()), (true, 0));
    assert_eq!(
        user.entries().iter().filter(|entry| &*entry.description == "D.").count(),
        2,
        "{:?}",
        names(&user)
    );
    std::fs::remove_file(place.path("all/deep/up")).unwrap();
    assert_eq!(names(&open(SourceKind::User)), ["a", "out"]);
}

#[test]
fn a_folder_on_the_command_line_must_exist() {
    let place = Place::new();
    let opened = Catalog::open(place.sources(&[("no", SourceKind::Flag)]), None);
    assert!(matches!(opened, Err(CatalogError::Folder { .. })));
}

#[test]
fn a_source_that_is_a_skill_contains_only_itself() {
    let place = Place::new();
    place.skill("one", "D.");
    place.skill("one/inside", "D.");
    assert_eq!(names(&place.open("one")), ["one"]);
}

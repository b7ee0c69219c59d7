//! Where skills are found, which of two skills with one name wins, and which are omitted.

use std::os::unix::fs::symlink;

use skillhost_catalog::{Catalog, CatalogError, SkillRuntime, SourceKind};
use skillhost_skill::{SizeLimits, Skill};

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
    assert_eq!((a.position, b.position), (1, 2));
    let shadowed: Vec<_> = catalog
        .shadowed()
        .iter()
        .map(|one| (one.position, one.source, one.folder.to_path_buf(), one.by.to_path_buf()))
        .collect();
    let expected =
        [(2, SourceKind::User, second, first.clone()), (3, SourceKind::Policy, third, first)];
    assert_eq!(shadowed, expected);
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
    std::fs::write(place.path("all/bad/SKILL.md"), "---\nname: [\n---\n").unwrap();
    // Reported the second time too, from the cache.
    for _ in 0..2 {
        let catalog = place.open("all");
        assert_eq!(names(&catalog), ["good"]);
        let broken = catalog.problems();
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].folder, place.path("all/bad"));
        assert!(broken[0].why.contains("description-missing"), "{}", broken[0].why);
    }
}

#[test]
fn a_skill_without_frontmatter_is_listed_as_instructions_without_grants() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("all/plain/scripts")).unwrap();
    let text = "# Reviews\n\nReview a change\nfor errors.\n\nThen report.\n";
    std::fs::write(place.path("all/plain/SKILL.md"), text).unwrap();
    std::fs::write(place.path("all/plain/scripts/x.py"), "print(1)\n").unwrap();
    let plain = place.open("all").get("plain").unwrap();
    assert_eq!(&*plain.description, "Review a change for errors.");
    assert!(plain.recovered && !plain.network);
    assert_eq!(plain.runtimes.iter().collect::<Vec<_>>(), [SkillRuntime::Instructions]);
    // A heading is better than nothing, and an empty file describes nothing.
    std::fs::write(place.path("all/plain/SKILL.md"), "# Reviews\n").unwrap();
    assert_eq!(&*place.open("all").get("plain").unwrap().description, "Reviews");
    std::fs::write(place.path("all/plain/SKILL.md"), "").unwrap();
    assert!(place.open("all").get("plain").is_none());
}

#[test]
fn a_markdown_file_in_a_source_is_a_skill_of_instructions() {
    let place = Place::new();
    place.skill("all/folder", "A folder.");
    let frontmatter = "---\nname: other\ndescription: Writes mails.\nallowed-tools: Bash WebFetch(domain:a.org)\n\
                       metadata:\n  component: x.wasm\n---\nBe brief.\n";
    std::fs::write(place.path("all/mail.md"), frontmatter).unwrap();
    std::fs::write(place.path("all/plain.md"), "Say hello.\n").unwrap();
    std::fs::write(place.path("all/large.md"), "x".repeat((1 << 20) + 1)).unwrap();
    for other in ["README.md", "readme.md", "Upper.md", "two words.md", "notes.txt", "folder/in.md"]
    {
        std::fs::write(place.path("all").join(other), "Not a skill.\n").unwrap();
    }
    std::fs::write(place.path("outside.md"), "Outside.\n").unwrap();
    symlink("../outside.md", place.path("all/link.md")).unwrap();
    // The second time from the cache.
    for _ in 0..2 {
        let catalog = place.open("all");
        assert_eq!(names(&catalog), ["folder", "mail", "plain"]);
        let mail = catalog.get("mail").unwrap();
        assert_eq!(
            (&*mail.description, &*mail.folder),
            ("Writes mails.", &*place.path("all/mail.md"))
        );
        assert_eq!(mail.instructions(), place.path("all/mail.md"));
        assert!(mail.recovered && !mail.network);
        assert_eq!(mail.runtimes.iter().collect::<Vec<_>>(), [SkillRuntime::Instructions]);
        let problems = catalog.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].folder, place.path("all/large.md"));
        let skill = Skill::load_from((&mail).into(), &SizeLimits::default()).unwrap();
        let files: Vec<&str> = skill.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((skill.name.as_str(), files), ("mail", vec!["mail.md"]));
        assert!(skill.read("plain.md").is_err() && skill.read("folder/SKILL.md").is_err());
        let manifest = &skill.manifest;
        assert!(manifest.recovered && manifest.component.is_none());
        assert_eq!(manifest.allowed_tools, Some(Vec::new()));
        assert_eq!(&skill.source[skill.body_offset..], "Be brief.\n");
    }
    // A folder of the name wins over the file, and a changed file is read again.
    place.skill("all/mail", "A folder too.");
    std::fs::write(place.path("all/plain.md"), "Say goodbye.\n").unwrap();
    let catalog = place.open("all");
    assert_eq!(&*catalog.get("mail").unwrap().description, "A folder too.");
    assert_eq!(*catalog.shadowed()[0].folder, *place.path("all/mail.md"));
    assert_eq!(&*catalog.get("plain").unwrap().description, "Say goodbye.");
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

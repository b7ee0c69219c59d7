//! Skills through the skills extension, and as resources, prompts and completions for older
//! clients.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{NEW, OLD, Place};

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[test]
fn the_extension_is_declared_with_directories() {
    let place = Place::new();
    let mut agent = place.agent(NEW, &[]);
    let found = agent.ok("server/discover", json!({}));
    assert_eq!(
        found["capabilities"]["extensions"]["io.modelcontextprotocol/skills"],
        json!({ "directoryRead": true }),
        "{found}"
    );
    assert!(found["capabilities"]["resources"].is_object());
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(NEW)), "{found}");
}

#[test]
fn an_entry_has_its_frontmatter_and_file_digests() {
    let place = Place::new();
    place.skill(
        "scribe",
        "license: MIT\nallowed-tools: Read Bash\nmetadata:\n  category: office\n  number: 7\nfuture-field: [1, a]",
        "Body.",
    );
    let mut agent = place.agent(NEW, &[]);
    let result = agent.ok("skills/get", json!({ "uri": "skill://scribe/SKILL.md" }));
    let (skill, root) = (&result["skill"], place.skills().join("scribe"));
    assert_eq!(
        (&result["resultType"], &skill["uri"]),
        (&json!("complete"), &json!("skill://scribe/SKILL.md"))
    );
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{result}");
    let expected = json!({
        "name": "scribe", "description": "The scribe of the tests. Use to test scribe.", "license": "MIT", "allowed-tools": "Read Bash",
        "metadata": { "category": "office", "number": 7 }, "future-field": [1, "a"],
    });
    assert_eq!(skill["frontmatter"], expected);
    let files = skill["resources"].as_array().unwrap();
    assert_eq!(files.len(), 6, "{files:?}");
    for file in files {
        let path = file["uri"].as_str().unwrap().strip_prefix("skill://scribe/").unwrap();
        let bytes = std::fs::read(root.join(path)).unwrap();
        assert_eq!(
            (&file["digest"], &file["size"]),
            (&json!(digest(&bytes)), &json!(bytes.len())),
            "{path}"
        );
        let read = &agent.ok("resources/read", json!({ "uri": file["uri"] }))["contents"][0];
        match read["text"].as_str() {
            Some(text) => assert_eq!(text.as_bytes(), bytes, "{path}"),
            None => assert!(read["blob"].is_string() && path == "logo.png", "{read}"),
        }
    }
    let listed = agent.ok("skills/list", json!({}));
    assert!(
        listed["skills"].as_array().unwrap().contains(skill),
        "the entry is the same in the list"
    );
}

#[test]
fn errors_have_the_codes_of_the_specification() {
    let place = Place::new();
    place.write("broken/SKILL.md", "---\nname: [\n---\n");
    place.write(
        "folder/SKILL.md",
        "---\nname: other-name\ndescription: Another name than its folder's. Use to test.\n---\n",
    );
    let mut agent = place.agent(NEW, &[]);
    let names: Vec<Value> = agent.ok("skills/list", json!({}))["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["frontmatter"]["name"].clone())
        .collect();
    assert_eq!(names, ["calculator", "loud", "scribe", "writer"]);
    for uri in [
        "skill://none/SKILL.md",
        "skill://broken/SKILL.md",
        "skill://folder/SKILL.md",
        "skill://scribe/logo.png",
        "skill://scribe",
        "x",
    ] {
        assert_eq!(agent.fails("skills/get", json!({ "uri": uri })), -32602, "{uri}");
    }
    for uri in [
        "skill://none",
        "skill://scribe/SKILL.md",
        "skill://scribe/",
        "skill://scribe/references/",
        "skill://scribe/no",
        "file:///etc",
    ] {
        assert_eq!(agent.fails("resources/directory/read", json!({ "uri": uri })), -32602, "{uri}");
    }
    assert_eq!(agent.fails("skills/list", json!({ "cursor": "nonsense" })), -32602);
    assert_eq!(agent.fails("resources/read", json!({ "uri": "skill://scribe/none" })), -32602);
    assert_eq!(
        place.agent(OLD, &[]).fails("resources/read", json!({ "uri": "skill://scribe/none" })),
        -32002
    );
}

#[test]
fn a_skill_too_large_to_serve_can_be_activated() {
    let place = Place::new();
    for name in ["files", "bytes"] {
        place.skill(name, "", "Much.");
    }
    // Together with its SKILL.md it reaches the limit.
    (0..511).for_each(|number| place.write(&format!("files/{number}.txt"), "x"));
    let room = (10 << 20) - std::fs::metadata(place.skills().join("bytes/SKILL.md")).unwrap().len();
    place.write("bytes/data.bin", vec![b'x'; usize::try_from(room).unwrap()]);
    let mut agent = place.agent(NEW, &[]);
    let get = |agent: &mut super::Agent, name: &str| {
        agent.request("skills/get", json!({ "uri": format!("skill://{name}/SKILL.md") }))
    };
    for name in ["files", "bytes"] {
        let served = get(&mut agent, name);
        assert!(served["result"]["skill"]["resources"].is_array(), "{name}: {}", served["error"]);
    }
    for (name, why, is_error) in
        [("files", "it has more than 512 files", false), ("bytes", "it cannot be loaded", true)]
    {
        place.write(&format!("{name}/one-more.txt"), "x");
        let answer = get(&mut agent, name);
        assert_eq!(answer["error"]["code"], -32602, "{name} is served");
        assert!(answer["error"]["message"].as_str().unwrap().ends_with(why), "{answer}");
        assert_eq!(
            agent.call("activate_skill", json!({ "name": name }))["isError"],
            is_error,
            "{name}"
        );
    }
}

#[test]
fn a_skill_that_changes_during_a_read_has_no_digests() {
    let place = Place::new();
    let mut agent = place.agent(NEW, &[]);
    let mut resources = || {
        agent.ok("skills/get", json!({ "uri": "skill://scribe/SKILL.md" }))["skill"]["resources"]
            .clone()
    };
    let file = place.skills().join("scribe/references/guide.md");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for size in
                (1..4_000).cycle().take_while(|_| !stop.load(std::sync::atomic::Ordering::Relaxed))
            {
                std::fs::write(&file, vec![b'x'; size]).unwrap();
            }
        });
        super::becomes("the list becomes dynamic", || resources() == "dynamic");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(
        resources().as_array().is_some_and(|files| files.len() == 6),
        "the list is static again"
    );
}

#[test]
fn a_directory_lists_its_direct_children() {
    let place = Place::new();
    place.write("scribe/references/deep/er/file.md", "x");
    let mut agent = place.agent(NEW, &[]);
    let mut children = |uri: &str| {
        let result = agent.ok("resources/directory/read", json!({ "uri": uri }));
        let child = |child: &Value| {
            format!("{} {}", child["uri"].as_str().unwrap(), child["mimeType"].as_str().unwrap())
        };
        result["resources"].as_array().unwrap().iter().map(child).collect::<Vec<_>>()
    };
    assert_eq!(
        children("skill://scribe"),
        [
            "skill://scribe/SKILL.md text/markdown",
            "skill://scribe/logo.png image/png",
            "skill://scribe/references inode/directory",
            "skill://scribe/scripts inode/directory",
        ]
    );
    assert_eq!(
        children("skill://scribe/references"),
        [
            "skill://scribe/references/deep inode/directory",
            "skill://scribe/references/guide.md text/markdown"
        ]
    );
    assert_eq!(
        children("skill://scribe/references/deep"),
        ["skill://scribe/references/deep/er inode/directory"]
    );
}

#[test]
fn lists_have_pages_and_skip_nothing() {
    let place = Place::new();
    for number in 0..230 {
        place.skill(&format!("many-{number:03}"), "", "x");
    }
    let mut agent = place.agent(NEW, &[]);
    for (method, key, most) in [
        ("skills/list", "skills", 50),
        ("resources/list", "resources", 100),
        ("prompts/list", "prompts", 100),
    ] {
        let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = agent.ok(method, params);
            assert!(page[key].as_array().unwrap().len() <= most, "{method}: {most} a page");
            found.extend(
                page[key]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item["uri"].as_str().or(item["name"].as_str()).unwrap().to_owned()),
            );
            (cursor, pages) = (page["nextCursor"].clone(), pages + 1);
            if cursor.is_null() {
                break;
            }
        }
        assert!(pages > 1, "{method}");
        assert_eq!(found.len(), 234, "{method}");
        found.dedup();
        assert!(found.len() == 234 && found.is_sorted(), "{method}: in order, and each once");
    }
}

#[test]
fn older_clients_see_skills_as_resources_and_prompts() {
    let place = Place::new();
    let mut agent = place.agent("2025-06-18", &[]);
    let resources = agent.ok("resources/list", json!({}));
    assert!(resources.get("resultType").is_none(), "{resources}");
    let scribe = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "scribe")
        .unwrap();
    assert_eq!(
        (&scribe["uri"], &scribe["mimeType"]),
        (&json!("skill://scribe/SKILL.md"), &json!("text/markdown"))
    );
    let templates = agent.ok("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "skill://{name}/{+path}");
    let prompt = agent.ok(
        "prompts/get",
        json!({ "name": "scribe", "arguments": { "request": "Note the time." } }),
    );
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.contains("Read `references/guide.md`") && text.ends_with("Note the time."),
        "{text}"
    );
    assert_eq!(agent.fails("prompts/get", json!({ "name": "none" })), -32602);
}

#[test]
fn names_and_paths_are_completed() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    let mut complete = |argument: &str, value: &str, context: Value| {
        let template = json!({ "type": "ref/resource", "uri": "skill://{name}/{+path}" });
        let params = json!({ "ref": template, "argument": { "name": argument, "value": value }, "context": { "arguments": context } });
        agent.ok("completion/complete", params)["completion"]["values"].clone()
    };
    assert_eq!(complete("name", "s", json!({})), json!(["scribe"]));
    assert_eq!(complete("name", "", json!({})), json!(["calculator", "loud", "scribe", "writer"]));
    assert_eq!(
        complete("path", "scripts/w", json!({ "name": "scribe" })),
        json!(["scripts/wait.sh", "scripts/write.sh"])
    );
    assert_eq!(complete("path", "", json!({ "name": "../x" })), json!([]));
}

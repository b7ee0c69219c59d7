//! Signatures by this host, by recorded programs, and by authorities that the tests make. Each test
//! changes something that is signed, and expects a refusal.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd,
};

use super::*;
use crate::digest::Digest;

/// Keys that verify everything, so that only the comparison of the files is tested.
#[derive(Debug)]
struct Any;

impl TrustedKeys for Any {
    fn verify(&self, envelope: &[u8]) -> Result<VerifiedStatement, String> {
        let value: Value = serde_json::from_slice(envelope).map_err(|error| error.to_string())?;
        let subjects = value["subject"].as_array().unwrap().iter().map(|subject| {
            let digest = subject["digest"]["sha256"].as_str().unwrap().to_owned();
            (subject["name"].as_str().unwrap().to_owned(), digest)
        });
        Ok(VerifiedStatement {
            key: "sha256:1".into(),
            predicate_type: value["predicateType"].as_str().unwrap().to_owned(),
            subjects: subjects.collect(),
        })
    }
}

fn listing(paths: &[&str]) -> Listing {
    Listing(paths.iter().map(|path| ((*path).to_owned(), Digest::of(b"x"))).collect())
}

/// Verifies the signature in one file.
fn verify(file: &str, content: &[u8], files: &Listing, trust: &Trust) -> Signatures {
    let read = |path: &str| (path == file).then(|| content.to_vec());
    SignedFiles { read: &read, files, left_out: &[], objects: None }.verify(trust)
}

#[test]
fn signature_covers_every_file_except_signatures() {
    let signed = listing(&["SKILL.md", "a", FILE]);
    let envelope = statement("one", &signed).to_string();
    let signers = |files: &Listing, trust: &Trust| {
        verify(FILE, envelope.as_bytes(), files, trust).signers.len()
    };
    let trust = Trust::new(Any);
    assert_eq!(signers(&signed, &trust), 1);
    assert_eq!(signers(&listing(&["SKILL.md", "a", FILE, oms::FILE]), &trust), 1);
    for other in [
        vec!["SKILL.md", "a", "more", FILE],
        vec!["SKILL.md", FILE],
        vec!["SKILL.md", "a", "sub/skill.dsse.json", FILE],
    ] {
        assert_eq!(signers(&listing(&other), &trust), 0, "{other:?}");
    }
    let mut changed = signed.clone();
    changed.0.insert("a".into(), Digest::of(b"y"));
    assert_eq!(signers(&changed, &trust), 0);
    assert_eq!(signers(&signed, &Trust::default()), 0);
}

#[test]
fn signed_files_may_be_left_out_but_no_mounted_file_may_be_unsigned() {
    let key = SkillKey::generate().unwrap();
    let mut trust = Trust::default();
    trust.add(&key.public_pem()).unwrap();
    let bundle = key.sign("one", &listing(&["SKILL.md", "notes/x"]), &[]).unwrap();
    let read = |path: &str| (path == oms::FILE).then(|| bundle.clone().into_bytes());
    let signers = |paths: &[&str], left_out: &[String]| {
        let files = listing(paths);
        let files = SignedFiles { read: &read, files: &files, left_out, objects: None };
        files.verify(&trust).signers.len()
    };
    assert_eq!(signers(&["SKILL.md"], &[]), 0);
    assert_eq!(signers(&["SKILL.md"], &["notes".into()]), 1);
    assert_eq!(signers(&["SKILL.md"], &["note".into()]), 0);
    assert_eq!(signers(&["SKILL.md", "notes/x"], &["build".into()]), 1);
    assert_eq!(signers(&["SKILL.md", "notes/x", "build/y"], &["build".into()]), 0);
}

fn oms_key() -> (SkillKey, Trust) {
    let key = SkillKey::generate().unwrap();
    let mut trust = Trust::default();
    assert_eq!(trust.add(&key.public_pem()), Ok(Material::Key(key.id())));
    (key, trust)
}

#[test]
fn oms_signature_by_a_trusted_key_counts() {
    let (key, trust) = oms_key();
    let files = listing(&["SKILL.md", "scripts/a.py"]);
    let bundle = key.sign("one", &files, &[]).unwrap();
    let found = |files: &Listing, trust: &Trust| verify(oms::FILE, bundle.as_bytes(), files, trust);
    assert_eq!(found(&files, &trust).signers, [Signer::Key(key.id())]);
    let added = listing(&["SKILL.md", "scripts/a.py", "more"]);
    let refused = found(&added, &trust);
    assert!(refused.signers.is_empty());
    assert_eq!(refused.refused, ["skill.oms.sig does not count: `more` is not signed"]);
    assert!(found(&listing(&["SKILL.md"]), &trust).refused[0].ends_with("is missing"));
    let (_, stranger) = oms_key();
    assert!(found(&files, &stranger).refused[0].ends_with("no trusted key signed it"));
    // A key is read again as it was written.
    let again = SkillKey::from_pem(key.private_pem()).unwrap();
    assert_eq!(again.id(), key.id());
    assert!(!format!("{key:?}").contains("PRIVATE"));
}

/// Returns the places of all texts and numbers in a JSON value.
fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| leaves(value, format!("{at}/{key}"), found));
        }
        Value::Array(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(index, value)| leaves(value, format!("{at}/{index}"), found));
        }
        _ => found.push(at),
    }
}

/// Changes one text or number of a JSON value.
fn change(value: &mut Value, at: prop::sample::Index, character: char) -> String {
    let mut places = Vec::new();
    leaves(value, String::new(), &mut places);
    let place = at.get(&places).clone();
    let leaf = value.pointer_mut(&place).unwrap();
    *leaf = match &*leaf {
        Value::String(text) => {
            let mut chars: Vec<char> = text.chars().collect();
            let index = at.index(chars.len() + 1);
            match chars.get_mut(index) {
                Some(found) if *found != character => *found = character,
                _ => chars.push(character),
            }
            Value::String(chars.into_iter().collect())
        }
        Value::Bool(value) => Value::Bool(!value),
        other => json!(other.as_i64().unwrap_or_default() + 1),
    };
    place
}

proptest! {
    #[test]
    fn any_change_of_an_oms_signature_is_refused(
        at in any::<prop::sample::Index>(),
        character in prop::char::range('A', 'z'),
        inner in any::<bool>(),
    ) {
        let (key, trust) = oms_key();
        let files = listing(&["SKILL.md", "scripts/a.py"]);
        let mut bundle: Value =
            serde_json::from_str(&key.sign("one", &files, &[]).unwrap()).unwrap();
        let place = if inner {
            let payload = bundle["dsseEnvelope"]["payload"].as_str().unwrap();
            let mut statement: Value =
                serde_json::from_slice(&BASE64.decode(payload).unwrap()).unwrap();
            let place = change(&mut statement, at, character);
            bundle["dsseEnvelope"]["payload"] = json!(BASE64.encode(statement.to_string()));
            place
        } else {
            change(&mut bundle, at, character)
        };
        let found = verify(oms::FILE, bundle.to_string().as_bytes(), &files, &trust);
        prop_assert!(found.signers.is_empty(), "{place}");
    }

    #[test]
    fn any_change_of_a_keyless_signature_is_refused(
        at in any::<prop::sample::Index>(),
        character in prop::char::range('A', 'z'),
    ) {
        let mut bundle: Value = serde_json::from_str(KEYLESS[0]).unwrap();
        let before = bundle.clone();
        let place = change(&mut bundle, at, character);
        prop_assume!(bundle != before);
        let found =
            verify(oms::FILE, bundle.to_string().as_bytes(), &recorded_files(), &Trust::default());
        prop_assert!(found.signers.is_empty(), "{place}");
    }
}

const KEYLESS: [&str; 2] =
    [include_str!("recorded/keyless-rekor.json"), include_str!("recorded/keyless-timestamp.json")];

/// The files that the recorded keyless signatures are about.
fn recorded_files() -> Listing {
    let text = "f6310066c7320497ea554260c32c43660bff648cb2a61194832cc086077085e1  signme-1\n32dcb1f8e1ae52d5963e56a6ba06ab58b424c15ed2a6b70d2feca1d089370028  signme-2\n";
    text.parse().unwrap()
}

fn recorded_signer() -> Signer {
    Signer::Identity {
        issuer: "https://sigstore.verify.ibm.com/oauth2".into(),
        identity: "stefanb@us.ibm.com".into(),
    }
}

#[test]
fn recorded_keyless_signatures_count_without_a_network() {
    for bundle in KEYLESS {
        let found =
            |files: &Listing| verify(oms::FILE, bundle.as_bytes(), files, &Trust::default());
        assert_eq!(
            found(&recorded_files()),
            Signatures { signers: vec![recorded_signer()], refused: Vec::new() }
        );
        // Files that the signer has left out (`ignore_paths`) could be anything.
        let mut more = recorded_files();
        more.0.insert("ignore-me".into(), Digest::of(b""));
        assert_eq!(
            found(&more).refused,
            ["skill.oms.sig does not count: `ignore-me` is not signed"]
        );
    }
}

#[test]
fn keyless_signature_outlives_its_certificate_and_is_not_from_the_future() {
    let at = |seconds| {
        let trust = Trust::default().at(std::time::UNIX_EPOCH + Duration::from_secs(seconds));
        verify(oms::FILE, KEYLESS[0].as_bytes(), &recorded_files(), &trust)
    };
    // It was signed at 1746236086, with a certificate for ten minutes.
    assert_eq!(at(1_746_236_090).signers, [recorded_signer()]);
    assert_eq!(at(2_000_000_000).signers, [recorded_signer()]);
    assert!(at(1_746_000_000).refused[0].ends_with("it was signed in the future"));
}

#[test]
fn keyless_signature_counts_only_under_its_root() {
    let mut trust = Trust::default();
    let staging = sigstore_verify::trust_root::SIGSTORE_STAGING_TRUSTED_ROOT;
    assert_eq!(trust.add(staging), Ok(Material::Root));
    let found = verify(oms::FILE, KEYLESS[0].as_bytes(), &recorded_files(), &trust);
    assert!(found.signers.is_empty() && found.refused.len() == 1, "{found:?}");
}

/// A certificate authority, and a certificate that it issued.
struct Certified {
    authority: String,
    key: SkillKey,
}

fn certified(purpose: Option<ExtendedKeyUsagePurpose>) -> Certified {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2036, 1, 1));
    let root = KeyPair::generate().unwrap();
    let authority = params.self_signed(&root).unwrap().pem();
    let issuer = Issuer::new(params, root);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::Rfc822Name("me@example.com".try_into().unwrap())];
    params.extended_key_usages = purpose.into_iter().collect();
    (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
    let own = KeyPair::generate().unwrap();
    let chain = params.signed_by(&own, &issuer).unwrap().pem();
    let key = SkillKey::from_pem(&own.serialize_pem()).unwrap().with_chain(&chain).unwrap();
    Certified { authority, key }
}

/// Seconds since 1970 of a day in 2026.
fn day(number: u64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + Duration::from_secs(1_767_225_600 + number * 86_400)
}

#[test]
fn certificate_counts_until_it_expires() {
    let Certified { authority, key } = certified(Some(ExtendedKeyUsagePurpose::CodeSigning));
    let files = listing(&["SKILL.md"]);
    let bundle = key.sign("one", &files, &[]).unwrap();
    let at = |day| {
        let mut trust = Trust::default().at(day);
        let Ok(Material::Authority(id)) = trust.add(&authority) else { panic!() };
        (verify(oms::FILE, bundle.as_bytes(), &files, &trust), id)
    };
    let (found, issuer) = at(day(100));
    let identity = Signer::Identity { issuer, identity: "me@example.com".into() };
    assert_eq!(found.signers, [Signer::Key(key.id()), identity]);
    for day in [day(400), std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000)] {
        let (found, _) = at(day);
        assert!(found.signers.is_empty(), "{found:?}");
        assert!(found.refused[0].contains("the certificate is not valid"), "{found:?}");
    }
}

#[test]
fn certificate_counts_only_for_signing_and_from_a_trusted_authority() {
    let files = listing(&["SKILL.md"]);
    let trust = |authority: &str| {
        let mut trust = Trust::default().at(day(100));
        trust.add(authority).unwrap();
        trust
    };
    let signers = |certified: &Certified, trust: &Trust| {
        let bundle = certified.key.sign("one", &files, &[]).unwrap();
        verify(oms::FILE, bundle.as_bytes(), &files, trust).signers.len()
    };
    let good = certified(Some(ExtendedKeyUsagePurpose::CodeSigning));
    assert_eq!(signers(&good, &trust(&good.authority)), 2);
    let other = certified(Some(ExtendedKeyUsagePurpose::CodeSigning));
    assert_eq!(signers(&good, &trust(&other.authority)), 0);
    assert_eq!(signers(&good, &Trust::default().at(day(100))), 0);
    for purpose in [None, Some(ExtendedKeyUsagePurpose::ServerAuth)] {
        let wrong = certified(purpose);
        assert_eq!(signers(&wrong, &trust(&wrong.authority)), 0);
    }
    // A certificate for another key is refused when it is used.
    let chain = certified(Some(ExtendedKeyUsagePurpose::CodeSigning)).authority;
    assert!(SkillKey::generate().unwrap().with_chain(&chain).is_err());
}

/// A recorded key, and the commit and the tag that it signed.
struct Recorded {
    key: &'static str,
    commit: &'static [u8],
    tag: &'static [u8],
}

macro_rules! recorded {
    ($name:literal) => {
        Recorded {
            key: include_str!(concat!("recorded/", $name, ".pub")),
            commit: include_bytes!(concat!("recorded/", $name, ".commit")),
            tag: include_bytes!(concat!("recorded/", $name, ".tag")),
        }
    };
}

const SSH: [Recorded; 3] = [recorded!("ed25519"), recorded!("ecdsa"), recorded!("rsa")];

fn objects(commit: &[u8], tag: Option<&[u8]>) -> SignedObjects {
    SignedObjects { commit: commit.to_vec(), tag: tag.map(<[u8]>::to_vec) }
}

#[test]
fn recorded_ssh_signatures_of_commits_and_tags_count() {
    for Recorded { key, commit, tag } in SSH {
        let mut trust = Trust::default();
        let Ok(Material::Ssh(id)) = trust.add(key) else { panic!() };
        assert!(id.starts_with("SHA256:"), "{id}");
        let signer = vec![Signer::Key(id.clone())];
        let found = |objects: &SignedObjects, trust: &Trust| ssh::verify(objects, trust);
        let unsigned = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nfirst\n";
        assert_eq!(found(&objects(commit, None), &trust), (signer.clone(), Vec::new()));
        assert_eq!(found(&objects(unsigned, Some(tag)), &trust), (signer.clone(), Vec::new()));
        assert_eq!(found(&objects(commit, Some(tag)), &trust), (signer, Vec::new()));
        let (signers, refused) = found(&objects(commit, None), &Trust::default());
        assert!(signers.is_empty());
        assert_eq!(
            refused,
            [format!("the commit: it is signed by {id}, which is not a trusted key")]
        );
        assert_eq!(found(&objects(unsigned, None), &trust), Default::default());
    }
}

proptest! {
    #[test]
    fn any_change_of_a_signed_commit_or_tag_is_refused(
        which in 0..3_usize,
        is_tag in any::<bool>(),
        at in any::<prop::sample::Index>(),
        byte in prop::num::u8::ANY,
    ) {
        let Recorded { key, commit, tag } = &SSH[which];
        let mut trust = Trust::default();
        trust.add(key).unwrap();
        let mut changed = if is_tag { tag.to_vec() } else { commit.to_vec() };
        let at = at.index(changed.len());
        prop_assume!(changed[at] != byte);
        // White space around the lines of base64 is not part of the signature.
        prop_assume!(!changed[at].is_ascii_whitespace() && !byte.is_ascii_whitespace());
        changed[at] = byte;
        let changed = match is_tag {
            true => objects(b"", Some(&changed)),
            false => objects(&changed, None),
        };
        prop_assert!(ssh::verify(&changed, &trust).0.is_empty());
    }
}

#[test]
fn ssh_signature_counts_for_git_only_and_once() {
    let Recorded { key, commit, .. } = &SSH[0];
    let mut trust = Trust::default();
    trust.add(key).unwrap();
    let text = str::from_utf8(commit).unwrap();
    let twice = text.replace("gpgsig ", "gpgsig x\n y\ngpgsig ");
    assert!(ssh::verify(&objects(twice.as_bytes(), None), &trust).0.is_empty());
    let start = text.find("gpgsig").unwrap();
    let in_message = format!("{}\nmessage\n{}", &text[..start], &text[start..]);
    assert!(ssh::verify(&objects(in_message.as_bytes(), None), &trust).0.is_empty());
}

#[test]
fn unknown_material_is_refused() {
    let mut trust = Trust::default();
    for text in [
        "",
        "text",
        "{}",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----",
    ] {
        assert!(trust.add(text).is_err(), "{text}");
    }
}

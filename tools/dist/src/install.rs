//! `install.sh`, with the key that verifies the manifest.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::error::Error;
use crate::manifest::{ANY, Artifact, Kind};

const SCRIPT: &str = include_str!("install.sh");

/// The line of the script that the key replaces.
const PLACE: &str = "@PUBLIC_KEY@\n";

pub(crate) fn write(key: &str, out: &Path) -> Result<Artifact, Error> {
    if !key.starts_with("-----BEGIN PUBLIC KEY-----\n") || SCRIPT.matches(PLACE).count() != 1 {
        return Err(Error::new("the key is not a public key in PEM"));
    }
    let name = "install.sh";
    let artifact =
        Artifact::write(Kind::Installer, ANY, name, SCRIPT.replace(PLACE, key).as_bytes(), out)?;
    std::fs::set_permissions(out.join(name), std::fs::Permissions::from_mode(0o755))
        .map_err(Error::at(name))?;
    Ok(artifact)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use crate::manifest::Manifest;
    use crate::tree::tests::example;
    use crate::{ARCHITECTURES, Architecture, Release, tarball};

    /// What the script looks for: the tests run it here.
    fn this_machine() -> &'static Architecture {
        let of_this = |known: &&Architecture| known.machine == std::env::consts::ARCH;
        ARCHITECTURES.iter().find(of_this).unwrap()
    }

    /// A signed release, and the prefix that it is installed below.
    struct Place(tempfile::TempDir);

    impl Place {
        /// Returns `None` without the programs that the script needs.
        fn new() -> Option<Place> {
            for tool in ["openssl", "zstd"] {
                Command::new(tool).arg("--help").output().ok()?;
            }
            let place = Place(tempfile::tempdir().unwrap());
            fs::create_dir(place.path("out")).unwrap();
            place.openssl(&["genpkey", "-algorithm", "ed25519", "-out", "key.pem"]);
            place.openssl(&["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"]);
            let (_folder, tree) = example();
            let release = Release { version: "1.2.3".into(), time: 1_000_000_000 };
            let key = fs::read_to_string(place.path("public.pem")).unwrap();
            let artifacts = vec![
                tarball::write(&tree, &release, this_machine(), &place.path("out")).unwrap(),
                super::write(&key, &place.path("out")).unwrap(),
            ];
            let manifest = Manifest { version: "1.2.3", commit: "abc", artifacts };
            manifest.write(&place.path("out")).unwrap();
            let (file, signature) = ("out/manifest.json", "out/manifest.json.sig");
            let sign = ["pkeyutl", "-sign", "-inkey", "key.pem", "-rawin"];
            place.openssl(&[&sign[..], &["-in", file, "-out", signature]].concat());
            Some(place)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn archive(&self) -> PathBuf {
            self.path(&format!("out/skillhost-1.2.3-linux-{}.tar.zst", this_machine().machine))
        }

        fn openssl(&self, args: &[&str]) {
            let mut openssl = Command::new("openssl");
            assert!(openssl.args(args).current_dir(self.0.path()).status().unwrap().success());
        }

        /// Runs the script, and returns its exit code and what it printed.
        fn script(&self, args: &[&str]) -> (Option<i32>, String) {
            let mut script = Command::new("sh");
            script.arg(self.path("out/install.sh")).args(args).stdin(Stdio::null());
            let run = script.arg("--prefix").arg(self.path("prefix")).output().unwrap();
            let said = [run.stdout, run.stderr].concat();
            (run.status.code(), String::from_utf8(said).unwrap())
        }

        fn has(&self, path: &str) -> bool {
            self.path("prefix").join(path).exists()
        }

        /// Checks that a failed installation left nothing behind.
        fn is_untouched(&self) {
            let left = fs::read_dir(self.path("prefix")).into_iter().flatten().count();
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn releases_are_installed_upgraded_and_removed_and_state_stays() {
        let Some(place) = Place::new() else { return };
        let state = place.path("prefix/share/skillhost/state/notes");
        fs::create_dir_all(state.parent().unwrap()).unwrap();
        fs::write(&state, "a note").unwrap();
        let old = place.path("prefix/share/skillhost/skills/removed/SKILL.md");
        for _ in ["install", "upgrade"] {
            fs::create_dir_all(old.parent().unwrap()).unwrap();
            fs::write(&old, "a skill of an older release").unwrap();
            let (code, said) = place.script(&[]);
            assert!(code == Some(0) && said.contains("skillhost 1.2.3 is installed"), "{said}");
            assert!(place.has("bin/skillhost") && place.has("share/skillhost/skills/x/SKILL.md"));
            assert!(!old.exists(), "an upgrade replaces the skills");
            assert_eq!(fs::read_to_string(&state).unwrap(), "a note");
        }
        let (code, said) = place.script(&["--uninstall"]);
        assert!(code == Some(0) && said.contains("uninstalled"), "{said}");
        assert!(!place.has("bin/skillhost") && !place.has("share/skillhost/skills"));
        assert_eq!(fs::read_to_string(&state).unwrap(), "a note");
    }

    #[test]
    fn altered_releases_change_nothing() {
        let Some(place) = Place::new() else { return };
        let manifest = place.path("out/manifest.json");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace("1.2.3\"", "1.2.4\"")).unwrap();
        let (code, said) = place.script(&[]);
        assert!(
            code == Some(1) && said.contains("signature of manifest.json is not valid"),
            "{said}"
        );
        place.is_untouched();
        fs::write(&manifest, text).unwrap();
        let archive = fs::read(place.archive()).unwrap();
        fs::write(place.archive(), &archive[..archive.len() - 1]).unwrap();
        let (code, said) = place.script(&[]);
        assert!(code == Some(1) && said.contains("altered or is incomplete"), "{said}");
        place.is_untouched();
        fs::remove_file(place.path("out/manifest.json.sig")).unwrap();
        let (code, said) = place.script(&[]);
        assert!(code == Some(1) && said.contains("cannot copy"), "{said}");
        place.is_untouched();
    }

    #[test]
    fn addresses_must_be_encrypted_and_name_no_user() {
        let Some(place) = Place::new() else { return };
        for (address, why) in [
            ("http://example.invalid/x", "is not encrypted"),
            ("http://localhost:8000@example.invalid/x", "contains a user name"),
            ("http://localhost.example.invalid/x", "is not encrypted"),
            ("ftp://localhost/x", "neither a folder nor"),
        ] {
            let (code, said) = place.script(&["--from", address]);
            assert!(code == Some(1) && said.contains(why), "{address}: {said}");
            place.is_untouched();
        }
    }
}

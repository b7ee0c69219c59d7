//! Helpers of both test programs.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The guests of `tests/guests`, by name.
pub static GUESTS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut guests: Vec<(String, Vec<u8>)> = files(&repository("tests/guests"))
        .into_iter()
        .map(|path| (stem(&path), wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}"))))
        .collect();
    guests.sort();
    guests
});

/// Reports that a test was skipped, and why.
#[expect(clippy::print_stderr, reason = "the test runner shows the output")]
pub fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Returns the records of an audit log, without those of starts.
pub fn ends(log: &str) -> Vec<serde_json::Value> {
    let records = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    records.filter(|record| record["status"]["kind"] != "started").collect()
}

/// Returns the path of a file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(crate::ROOT).join(path).canonicalize().unwrap()
}

/// Returns a guest's component.
pub fn guest(name: &str) -> &'static [u8] {
    &GUESTS.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no guest {name}")).1
}

/// Writes a skill whose component is a guest.
/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the entries of a folder, sorted by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the name of a file without its extension.
pub fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for path in files(from) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Compares with a file, or writes it if `BLESS=1`.
pub fn pinned(path: &Path, text: &str) -> Result<(), String> {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, text).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == text {
        return Ok(());
    }
    let diff = similar::TextDiff::from_lines(expected.as_str(), text)
        .unified_diff()
        .header("expected", "found")
        .to_string();
    Err(format!("{} (BLESS=1 takes what was found):\n{diff}", path.display()))
}

//! The wheel for PyPI, which installs the program and its files below the environment's prefix.
//!
//! The format: <https://packaging.python.org/en/latest/specifications/binary-distribution-format/>.
//! The program is static, so it runs with every C library.

use std::io::{Cursor, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::error::{self, Error};
use crate::manifest::{Artifact, Kind};
use crate::tree::Tree;
use crate::{Architecture, PYPI_NAME, Release, SUMMARY};

pub(crate) fn write(
    tree: &Tree,
    release: &Release,
    architecture: &Architecture,
    out: &Path,
) -> Result<Artifact, Error> {
    let machine = architecture.machine;
    let tag = format!("py3-none-manylinux2014_{machine}.musllinux_1_1_{machine}");
    let name = format!("{}-{}", PYPI_NAME.replace('-', "_"), release.version);
    let file = format!("{name}-{tag}.whl");
    let mut wheel = Wheel { zip: ZipWriter::new(Cursor::new(Vec::new())), record: String::new() };
    for entry in &tree.files {
        let path = match entry.path.strip_prefix("bin/") {
            Some(program) => format!("{name}.data/scripts/{program}"),
            None => format!("{name}.data/data/{}", entry.path),
        };
        wheel.add(&path, entry.mode(), &error::read(&entry.source)?)?;
    }
    let info = format!("{name}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {PYPI_NAME}\nVersion: {}\nSummary: {SUMMARY}\nLicense: Apache-2.0\nRequires-Python: >=3.7\n",
        release.version
    );
    wheel.add(&format!("{info}/METADATA"), 0o644, metadata.as_bytes())?;
    let tags: String = [format!("manylinux2014_{machine}"), format!("musllinux_1_1_{machine}")]
        .map(|platform| format!("Tag: py3-none-{platform}\n"))
        .concat();
    let kind =
        format!("Wheel-Version: 1.0\nGenerator: skillhost-dist\nRoot-Is-Purelib: false\n{tags}");
    wheel.add(&format!("{info}/WHEEL"), 0o644, kind.as_bytes())?;
    let record = format!("{}{info}/RECORD,,\n", wheel.record);
    wheel.add(&format!("{info}/RECORD"), 0o644, record.as_bytes())?;
    let bytes = wheel.zip.finish().map_err(Error::at(&file))?.into_inner();
    Artifact::write(Kind::Wheel, machine, &file, &bytes, out)
}

struct Wheel {
    zip: ZipWriter<Cursor<Vec<u8>>>,
    /// Lines of path, digest and size, for the files so far.
    record: String,
}

impl Wheel {
    fn add(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        self.zip.start_file(path, options).map_err(Error::at(path))?;
        self.zip.write_all(bytes).map_err(Error::at(path))?;
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        self.record += &format!("{path},sha256={digest},{}\n", bytes.len());
        Ok(())
    }
}

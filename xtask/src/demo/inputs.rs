//! The inputs of the demo's skills: the output of `cargo metadata` for this workspace, as JSON and
//! as CSV, and an access log.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use skillhost_toolchain::{Error, Step, files};

use super::{Demo, Scene, text};
use crate::workspace;

/// The output of `cargo metadata` for this workspace and its dependencies: one or two megabytes of
/// JSON that every machine can produce.
pub(super) const METADATA: &str = "metadata.json";
/// One row per dependency of each crate, a few thousand in all.
pub(super) const DEPENDENCIES: &str = "dependencies.csv";
/// A generated log in nginx's format: about 20,000 lines for six hours of a shop, with an outage of
/// four minutes.
pub(super) const LOG: &str = "access.log";

/// A filter that counts the crates under each licence.
pub(super) const LICENCES: &str = "[.packages[].license // \"none\"] | group_by(.) | map({license: .[0], crates: length}) | sort_by(-.crates) | .[:8]";

/// A filter that produces the rows of [`DEPENDENCIES`].
const ROWS: &str = "[.packages[] as $p | $p.dependencies[] | {crate: $p.name, version: $p.version, license: $p.license, edition: $p.edition, \
rust_version: $p.rust_version, dependency: .name, requirement: .req, kind: (.kind // \"normal\"), optional, features: (.features | length), target}]";

pub(super) fn metadata(root: &Path, folder: &Path, step: &Step) -> Result<(), Error> {
    let version = step.run(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let host = version
        .lines()
        .find_map(|l| l.strip_prefix("host: "))
        .ok_or_else(|| Error::new("the output of `rustc -vV` has no host"))?;
    let metadata = step.run(workspace::cargo(root).args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        host,
    ]))?;
    files::write_if_changed(&folder.join(METADATA), &metadata)?;
    Ok(())
}

pub(super) fn dependencies(demo: &Demo) -> Result<(), Error> {
    let scene = Scene {
        skill: "data-convert",
        script: None,
        args: &["--to", "csv", "-f", ROWS],
        input: METADATA,
        stdin: true,
    };
    let outcome = demo.outcome(&scene)?;
    files::write_if_changed(&demo.folder.join(DEPENDENCIES), text(&outcome["stdout"]).as_bytes())?;
    Ok(())
}

pub(super) fn log(folder: &Path) -> Result<(), Error> {
    files::write_if_changed(&folder.join(LOG), access_log().as_bytes())?;
    Ok(())
}

/// Request, share in percent, usual duration in milliseconds.
const REQUESTS: [(&str, u32, u32); 8] = [
    ("GET /", 10, 20),
    ("GET /products/{}", 34, 45),
    ("GET /search?q={}", 14, 180),
    ("GET /static/app.js", 18, 3),
    ("GET /api/cart/{}", 10, 60),
    ("POST /api/orders", 8, 160),
    ("GET /export/report.csv", 1, 1400),
    ("GET /wp-login.php", 5, 1),
];

/// Maps a number below 100 to a request and its usual duration.
fn pick(number: u32) -> (&'static str, u32) {
    let mut left = number;
    for (request, share, usual) in REQUESTS {
        if left < share {
            return (request, usual);
        }
        left -= share;
    }
    unreachable!("the shares add up to 100");
}

/// Generates the log. The seed is fixed, so the log is the same in each run.
fn access_log() -> String {
    let mut seed: u32 = 20_241_010;
    // The constants are from Numerical Recipes. The low bits are the least random.
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let mut log = String::new();
    // From 8:00, with about one request per second.
    let mut at = 8 * 3600;
    while at < 14 * 3600 {
        at += random(3);
        let (request, usual) = pick(random(100));
        let mut status = if random(40) == 0 { 404 } else { 200 };
        let mut milliseconds = usual * (50 + random(120)) / 100;
        if (41_400..41_640).contains(&at)
            && (request.contains("/api/") || request.contains("/search"))
        {
            status = if random(3) == 0 { 504 } else { 502 };
            milliseconds = if status == 504 { 30_000 } else { 2 };
        } else if request.contains("wp-login") {
            status = 404;
        }
        let request = request.replace("{}", &random(900).to_string());
        let (hour, minute, second) = (at / 3600, at / 60 % 60, at % 60);
        let (address, bytes) = (1 + random(250), random(40_000));
        // Writing to a String does not fail.
        let _ = writeln!(
            log,
            "192.0.2.{address} - - [10/Oct/2024:{hour:02}:{minute:02}:{second:02} +0000] \"{request} HTTP/1.1\" {status} {bytes} \"-\" \
             \"Mozilla/5.0\" {}.{:03}",
            milliseconds / 1000,
            milliseconds % 1000
        );
    }
    log
}

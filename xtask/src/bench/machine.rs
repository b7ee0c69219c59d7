//! What a figure was measured on: a figure without its machine says nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use skillhost_toolchain::Error;

use super::measure;
use super::place::Place;
use super::report::Machine;
use super::tiers::which;

pub(crate) fn describe() -> Result<Machine, Error> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(Error::context(path));
    let cpu = read("/proc/cpuinfo")?;
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, name)| name.trim());
    let load = read("/proc/loadavg")?;
    Ok(Machine {
        cpu: cpu.to_owned(),
        cores: std::thread::available_parallelism().map_err(Error::context("cores"))?.get(),
        memory: measure::fields(&read("/proc/meminfo")?).get("MemTotal").copied().unwrap_or(0),
        // Its number alone: what distributions and clouds add names the machine, not the kernel.
        kernel: format!(
            "Linux {}",
            read("/proc/sys/kernel/osrelease")?.split('-').next().unwrap_or_default().trim()
        ),
        date: jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date().to_string(),
        load_before: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    })
}

/// Says so where other work spoils the figures.
pub(crate) fn warn_if_busy(machine: &Machine) {
    let Machine { load_before, cores, .. } = machine;
    if *load_before > 0.2 * *cores as f64 {
        crate::say(format!(
            "The machine is busy (load {load_before:.1} on {cores} cores): the figures will be too high."
        ));
    }
}

/// The first line of what each program says of itself, those `tools` included that are here.
pub(crate) fn versions(place: &Place, tools: &[&str]) -> BTreeMap<String, String> {
    let says = |program: &Path| {
        let said = measure::output(Command::new(program).arg("--version")).ok()?;
        said.lines().next().map(str::to_owned)
    };
    let mut versions = BTreeMap::new();
    let mut add = |name: &str, said: Option<String>| {
        if let Some(said) = said {
            versions.insert(name.to_owned(), said);
        }
    };
    add("skillhost", says(&place.skillhost));
    add("native Python", says(&place.python));
    add(
        "native bash",
        says(Path::new("/bin/bash")).map(|said| {
            said.replace("GNU bash, version ", "bash ")
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned()
        }),
    );
    for tool in tools {
        add(tool, which(tool).and_then(|path| says(&path)));
    }
    for program in ["python", "shell"] {
        let facts =
            std::fs::read(place.programs.join(format!("{program}.json"))).unwrap_or_default();
        let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap_or_default();
        add(&format!("{program} component"), facts["version"].as_str().map(str::to_owned));
    }
    versions
}

//! The microVM tier: QEMU's `microvm` machine boots Debian's kernel for each run. The root of the
//! sandboxes, the skills and the workspace are disks. What a run writes to them is discarded.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::root::Root;
use super::tiers::{self, quoted};
use crate::cases::{self, Case};
use crate::measure;
use crate::place::{Place, which};
use crate::repository;

/// The seconds after which a run has failed. The first process halts when the program fails, because
/// the machine has no exit code.
const TIMEOUT: &str = "120";

/// As [`TIMEOUT`], for the first run: with a KVM that only emulates the processor, which needs
/// minutes, the tier is missing.
const FIRST_TIMEOUT: &str = "20";

/// The modules of the kernel that the disks need, and their folders.
const MODULES: [(&str, &str); 4] = [
    ("virtio", "virtio_ring"),
    ("virtio", "virtio"),
    ("virtio", "virtio_mmio"),
    ("block", "virtio_blk"),
];

/// The labels of the disks, in the order in which init.sh mounts them.
const DISKS: [&str; 3] = ["root", "skills", "workspace"];

/// The bytes of a disk for its own structures, and for what a run writes.
const SPARE: u64 = 64 << 20;

/// Writes the disks, and boots once.
///
/// # Errors
/// Returns an error if the machine has no usable KVM, or if it does not boot.
pub(crate) fn prepare(root: &Root, place: &Place) -> Result<(), Error> {
    let kvm = fs::File::options().read(true).write(true).open("/dev/kvm");
    kvm.map_err(Error::context("/dev/kvm"))?;
    let format = which("mke2fs").ok_or_else(|| Error::new("no `mke2fs` on this machine"))?;
    fs::create_dir_all(folder(place)).map_err(Error::context("microvm"))?;
    let sources = [root.folder.clone(), place.skill(""), place.workspace()];
    for (label, source) in DISKS.into_iter().zip(sources) {
        let disk = folder(place).join(label);
        let bytes = super::root::bytes_below(&source) * 5 / 4 + SPARE;
        drop(fs::remove_file(&disk));
        let mut command = Command::new(&format);
        // Without a journal, which no run needs.
        command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-L", label, "-d"]).arg(source);
        measure::output(command.arg(disk).arg(format!("{}k", bytes / 1024)))?;
    }
    let mut command = boot(place, &cases::hello(), FIRST_TIMEOUT)?;
    match measure::output(&mut command) {
        Ok(output) if output == "hello\n" => Ok(()),
        Ok(output) => Err(Error::new(format!("the machine printed {output:?}"))),
        Err(error) => Err(Error::new(format!(
            "the machine does not run a program within {FIRST_TIMEOUT} s: {error}"
        ))),
    }
}

pub(crate) fn command(_: &Path, place: &Place, case: &Case) -> Result<Command, Error> {
    boot(place, case, TIMEOUT)
}

/// Returns the size of QEMU, of the kernel and of the initial file system.
pub(crate) fn disk(qemu: &Path, place: &Place) -> u64 {
    let size = |path: PathBuf| path.metadata().map_or(0, |file| file.len());
    let kernel = find(&package(place).join("boot"), "vmlinuz-").map_or(0, size);
    size(qemu.to_owned()) + kernel + size(folder(place).join("hello.cpio"))
}

/// Returns the versions of QEMU and of the kernel.
pub(crate) fn version(place: &Place) -> Option<String> {
    let mut qemu = Command::new(place.tool("qemu").ok()?);
    qemu.env("LD_LIBRARY_PATH", libraries(place).ok()?).arg("--version");
    let output = measure::output(&mut qemu).ok()?;
    Some(format!("{}, {}", output.lines().next()?, kernel(place)))
}

fn kernel(place: &Place) -> String {
    let kernel = find(&package(place).join("boot"), "vmlinuz-");
    let name = kernel.as_deref().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().replace("vmlinuz-", "Linux ")
}

/// Returns the command that boots, runs a case and ends.
fn boot(place: &Place, case: &Case, timeout: &str) -> Result<Command, Error> {
    let package = package(place);
    let boot = package.join("boot");
    let no_kernel = || Error::new(format!("no kernel in {}", boot.display()));
    let kernel = find(&boot, "vmlinuz-").ok_or_else(no_kernel)?;
    let initial = folder(place).join(format!("{}.cpio", case.key().replace(':', "-")));
    files::write_if_changed(&initial, &initial_files(place, case)?)?;
    let mut command = place.command("/usr/bin/timeout");
    command.env("LD_LIBRARY_PATH", libraries(place)?).arg(timeout);
    command.arg(place.tool("qemu").map_err(Error::new)?);
    for firmware in ["usr/share/qemu", "usr/share/seabios"] {
        command.arg("-L").arg(package.join(firmware));
    }
    // Without features that some processors refuse to set in a nested machine.
    command.args(["-M", "microvm,x-option-roms=off", "-accel", "kvm"]);
    command.args(["-cpu", "host,-arch-capabilities"]);
    command.args(["-m", "512", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    command.args(["-serial", "stdio", "-kernel"]).arg(kernel).arg("-initrd").arg(initial);
    command.args(["-append", "console=ttyS0 quiet loglevel=0 reboot=t panic=-1"]);
    for label in DISKS {
        let mut drive = OsString::from(format!("id={label},format=raw,if=none,snapshot=on,file="));
        drive.push(folder(place).join(label));
        command.arg("-drive").arg(drive);
        command.args(["-device", &format!("virtio-blk-device,drive={label}")]);
    }
    Ok(command)
}

/// Returns the search path of QEMU's libraries.
fn libraries(place: &Place) -> Result<OsString, Error> {
    let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
    let folders = folders.map(|folder| package(place).join(folder));
    std::env::join_paths(folders).map_err(Error::context("microvm"))
}

/// Returns the initial file system: the first process, its shell, the modules and the case.
fn initial_files(place: &Place, case: &Case) -> Result<Vec<u8>, Error> {
    let read = |path: PathBuf| fs::read(&path).map_err(Error::context(path.display()));
    let package = package(place);
    let modules = package.join("lib/modules");
    let release = find(&modules, "").ok_or_else(|| Error::new("no modules of the kernel"))?;
    let mut archive = Archive::default();
    for name in ["bin", "dev", "lib", "new", "skills"] {
        archive.add(name, 0o040_755, (0, 0), b"");
    }
    // The first process prints to it.
    archive.add("dev/console", 0o020_600, (5, 1), b"");
    let program = 0o100_755;
    archive.add("init", program, (0, 0), &read(repository("benches/tiers/init.sh"))?);
    archive.add("bin/busybox", program, (0, 0), &read(package.join("bin/busybox"))?);
    for (folder, name) in MODULES {
        let module = release.join(format!("kernel/drivers/{folder}/{name}.ko"));
        archive.add(&format!("lib/{name}.ko"), program, (0, 0), &read(module)?);
    }
    let words: Vec<String> = tiers::inside(case, place).iter().map(|word| quoted(word)).collect();
    let text = format!("skill={}\nset -- {}\n", case.skill, words.join(" "));
    archive.add("case", program, (0, 0), text.as_bytes());
    Ok(archive.end())
}

/// An archive in the kernel's format, `newc` of cpio.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    files: usize,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), data: &[u8]) {
        self.files += 1;
        let (size, name_size) = (data.len(), name.len() + 1);
        let (zero, one) = ("00000000", "00000001");
        // Number, mode, owner, group, links, time, size, device, device of the file, size of the
        // name, checksum.
        let head = format!(
            "070701{:08x}{mode:08x}{zero}{zero}{one}{zero}{size:08x}{zero}{zero}{major:08x}{minor:08x}{name_size:08x}{zero}",
            self.files
        );
        self.bytes.extend([head.as_bytes(), name.as_bytes(), b"\0"].concat());
        self.align();
        self.bytes.extend(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), b"");
        self.bytes
    }
}

/// Returns the folder of the unpacked packages: QEMU, a kernel and busybox.
fn package(place: &Place) -> PathBuf {
    let qemu = place.tool("qemu").unwrap_or_default();
    qemu.ancestors().nth(3).map(Path::to_owned).unwrap_or_default()
}

fn folder(place: &Place) -> PathBuf {
    place.folder.join("microvm")
}

/// Returns the first entry of a folder whose name has a prefix.
fn find(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    found.map(|entry| entry.path()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_aligned_entries_and_an_end() {
        let mut archive = Archive::default();
        archive.add("init", 0o100_755, (0, 0), b"#!");
        let bytes = archive.end();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with("07070100000001000081ed"), "{text}");
        assert_eq!((text.find("init\0"), text.find("#!")), (Some(110), Some(116)));
        assert_eq!((text.matches("070701").count(), bytes.len() % 4), (2, 0));
        assert!(text.contains("TRAILER!!!"));
    }
}

//! `node:fs`: the functions that fs.js of wasm-rquickjs calls.
//!
//! They return `undefined` or an object: with the result, or with `error`, which has the properties
//! of Node's errors.

use std::cell::RefCell;

use rquickjs::prelude::{Func, Opt};
use rquickjs::{Array, Ctx, Object, TypedArray, Value};

use crate::bindings::skillhost::files::modes;
use crate::bindings::wasi::clocks::wall_clock::Datetime;
use crate::bindings::wasi::filesystem::types::{
    DescriptorFlags, DescriptorStat, DescriptorType, OpenFlags,
};
use crate::files::{self, ErrorCode, Table};
use crate::system;

type Result<'js> = rquickjs::Result<Value<'js>>;

/// The bits of a file's kind in its mode.
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFIFO: u32 = 0o010_000;

/// The permissions of files and folders, of which WASI has none.
const FILE: u32 = 0o644;
const DIR: u32 = 0o755;
const LINK: u32 = 0o777;
/// The folders of commands, which are executable.
const COMMANDS: [&str; 3] = ["/bin/", "/usr/bin/", "/usr/local/bin/"];

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("fs_open", Func::from(open))?;
    exports.set("fs_close", Func::from(close))?;
    exports.set("fs_read", Func::from(read))?;
    exports.set("fs_read_file", Func::from(read_file))?;
    exports.set("fs_write_buffer", Func::from(write_buffer))?;
    exports.set("fs_write_string", Func::from(write_string))?;
    exports.set("fs_append_file", Func::from(append_buffer))?;
    exports.set("fs_append_file_string", Func::from(append_string))?;
    exports.set("fs_ftruncate", Func::from(ftruncate))?;
    exports.set("fs_truncate", Func::from(truncate))?;
    exports.set("fs_fsync", Func::from(fsync))?;
    exports.set("fs_fdatasync", Func::from(fdatasync))?;
    exports.set("fs_stat", Func::from(stat))?;
    exports.set("fs_lstat", Func::from(lstat))?;
    exports.set("fs_fstat", Func::from(fstat))?;
    exports.set("fs_readdir", Func::from(readdir))?;
    exports.set("fs_access", Func::from(access))?;
    exports.set("fs_exists", Func::from(|path: String| files::stat(&path, true).is_ok()))?;
    exports.set("fs_realpath", Func::from(realpath))?;
    exports.set("fs_copy_file", Func::from(copy))?;
    exports.set("fs_link", Func::from(link))?;
    exports.set("fs_symlink", Func::from(symlink))?;
    exports.set("fs_readlink", Func::from(readlink))?;
    exports.set("fs_chmod", Func::from(chmod))?;
    exports.set("fs_fchmod", Func::from(fchmod))?;
    exports.set("fs_chown", Func::from(chown))?;
    exports.set("fs_lchown", Func::from(lchown))?;
    exports.set("fs_fchown", Func::from(fchown))?;
    exports.set("fs_utimes", Func::from(utimes))?;
    exports.set("fs_lutimes", Func::from(lutimes))?;
    exports.set("fs_futimes", Func::from(futimes))?;
    exports.set("fs_mkdir", Func::from(mkdir))?;
    exports.set("fs_rmdir", Func::from(rmdir))?;
    exports.set("fs_rm", Func::from(rm))?;
    exports.set("fs_mkdtemp", Func::from(mkdtemp))?;
    exports.set("rename", Func::from(rename))?;
    exports.set("unlink", Func::from(unlink))?;
    exports.set("mkdir", Func::from(make_dir))?;
    Ok(exports)
}

/// Returns the properties of Node's error.
fn error<'js>(
    ctx: &Ctx<'js>,
    error: ErrorCode,
    syscall: &str,
    path: Option<&str>,
    dest: Option<&str>,
) -> rquickjs::Result<Object<'js>> {
    let described = files::describe(error);
    let mut message = format!("{}: {}, {syscall}", described.code, described.text);
    if let Some(path) = path {
        message.push_str(&format!(" '{path}'"));
    }
    if let Some(dest) = dest {
        message.push_str(&format!(" -> '{dest}'"));
    }
    let object = Object::new(ctx.clone())?;
    object.set("errno", described.errno)?;
    object.set("code", described.code)?;
    object.set("syscall", syscall)?;
    object.set("message", message)?;
    if let Some(path) = path {
        object.set("path", path)?;
    }
    if let Some(dest) = dest {
        object.set("dest", dest)?;
    }
    Ok(object)
}

/// Returns `undefined`, or the error itself.
fn done<'js>(
    ctx: Ctx<'js>,
    result: files::Result<()>,
    syscall: &str,
    path: Option<&str>,
    dest: Option<&str>,
) -> Result<'js> {
    match result {
        Ok(()) => Ok(Value::new_undefined(ctx)),
        Err(code) => Ok(error(&ctx, code, syscall, path, dest)?.into_value()),
    }
}

/// Returns an object with the result that `set` sets, or with the error.
fn object<'js, T>(
    ctx: Ctx<'js>,
    result: files::Result<T>,
    syscall: &str,
    path: Option<&str>,
    set: impl FnOnce(&Object<'js>, T) -> rquickjs::Result<()>,
) -> Result<'js> {
    let object = Object::new(ctx.clone())?;
    match result {
        Ok(value) => set(&object, value)?,
        Err(code) => object.set("error", error(&ctx, code, syscall, path, None)?)?,
    }
    Ok(object.into_value())
}

fn open(ctx: Ctx<'_>, path: String, flags: i32, mode: Opt<u32>) -> Result<'_> {
    const CREATE: i32 = 0o100;
    let created = flags & CREATE != 0
        && mode.0.is_some_and(|mode| mode != 0o666)
        && files::stat(&path, true).is_err();
    let opened = TABLE.with_borrow_mut(|table| table.open(&path, flags));
    if created && opened.is_ok() {
        // The file exists now, so its creation succeeded, even if its bits cannot be kept.
        set_mode(&path, mode.0.unwrap_or_default() & !0o022).ok();
    }
    object(ctx, opened, "open", Some(&path), |object, fd| object.set("fd", fd))
}

fn close(ctx: Ctx<'_>, fd: i32) -> Result<'_> {
    let closed = TABLE.with_borrow_mut(|table| table.close(fd));
    done(ctx, closed, "close", None, None)
}

/// Returns a position in a file: a number, a BigInt, or nothing for the current one.
fn position(value: &Value<'_>) -> rquickjs::Result<Option<u64>> {
    if let Some(number) = value.as_number() {
        return Ok((number >= 0.0).then_some(number as u64));
    }
    match value.as_big_int() {
        Some(number) => Ok(u64::try_from(number.clone().to_i64()?).ok()),
        None => Ok(None),
    }
}

fn read<'js>(ctx: Ctx<'js>, fd: i32, length: usize, at: Value<'js>) -> Result<'js> {
    let at = position(&at)?;
    let read = TABLE.with_borrow_mut(|table| table.read(fd, length, at));
    object(ctx.clone(), read, "read", None, |object, bytes| {
        object.set("bytesRead", bytes.len() as f64)?;
        object.set("buffer", TypedArray::new(ctx, bytes)?)
    })
}

fn read_file(ctx: Ctx<'_>, path: String, longest: f64, text: bool) -> Result<'_> {
    let device =
        matches!(path.as_str(), "/dev/stdin" | "/dev/null" | "/dev/fd/0" | "/proc/self/fd/0");
    let read = if device { read_device(&path) } else { read_checked(&path) };
    let (syscall, shown) = match &read {
        Err(ErrorCode::IsDirectory) => ("read", None),
        _ => ("open", Some(path.as_str())),
    };
    object(ctx.clone(), read, syscall, shown, |object, bytes| {
        if bytes.len() as f64 > longest {
            object.set("sizeTooLarge", bytes.len() as f64)
        } else if text {
            let text = match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            };
            object.set("text", text)
        } else {
            object.set("buffer", TypedArray::new(ctx, bytes)?)
        }
    })
}

fn read_checked(path: &str) -> files::Result<Vec<u8>> {
    let file = files::open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
    if file.get_type()? == DescriptorType::Directory {
        return Err(ErrorCode::IsDirectory);
    }
    files::read_all(&file)
}

fn read_device(path: &str) -> files::Result<Vec<u8>> {
    TABLE.with_borrow_mut(|table| {
        let fd = table.open(path, 0)?;
        let mut bytes = Vec::new();
        loop {
            let piece = table.read(fd, 1 << 16, None)?;
            if piece.is_empty() {
                break;
            }
            bytes.extend(piece);
        }
        table.close(fd)?;
        Ok(bytes)
    })
}

fn write_buffer<'js>(
    ctx: Ctx<'js>,
    fd: i32,
    buffer: TypedArray<'js, u8>,
    offset: usize,
    length: usize,
    at: Value<'js>,
) -> Result<'js> {
    let at = position(&at)?;
    // SAFETY: The engine does not run while the bytes are used. A detached buffer has none.
    let bytes = unsafe { buffer.as_bytes() }.unwrap_or_default();
    let start = offset.min(bytes.len());
    let bytes = &bytes[start..start.saturating_add(length).min(bytes.len())];
    let written = TABLE.with_borrow_mut(|table| table.write(fd, bytes, at));
    object(ctx, written.map(|()| bytes.len()), "write", None, |object, count| {
        object.set("bytesWritten", count as f64)
    })
}

fn write_string<'js>(ctx: Ctx<'js>, fd: i32, text: String, at: Value<'js>) -> Result<'js> {
    let at = position(&at)?;
    let written = TABLE.with_borrow_mut(|table| table.write(fd, text.as_bytes(), at));
    object(ctx, written.map(|()| text.len()), "write", None, |object, count| {
        object.set("bytesWritten", count as f64)
    })
}

fn append_buffer<'js>(ctx: Ctx<'js>, path: String, data: TypedArray<'js, u8>) -> Result<'js> {
    // SAFETY: The engine does not run while the bytes are used. A detached buffer has none.
    let bytes = unsafe { data.as_bytes() }.unwrap_or_default();
    append(ctx, &path, bytes)
}

fn append_string(ctx: Ctx<'_>, path: String, data: String) -> Result<'_> {
    append(ctx, &path, data.as_bytes())
}

fn append<'js>(ctx: Ctx<'js>, path: &str, bytes: &[u8]) -> Result<'js> {
    const FLAGS: i32 = 0o2000 | 0o100 | 1;
    let written = TABLE.with_borrow_mut(|table| {
        let fd = table.open(path, FLAGS)?;
        let written = table.write(fd, bytes, None);
        table.close(fd)?;
        written
    });
    done(ctx, written, "open", Some(path), None)
}

fn ftruncate(ctx: Ctx<'_>, fd: i32, length: f64) -> Result<'_> {
    let set = TABLE.with_borrow(|table| table.file(fd)?.0.set_size(length.max(0.0) as u64));
    done(ctx, set, "ftruncate", None, None)
}

fn truncate(ctx: Ctx<'_>, path: String, length: f64) -> Result<'_> {
    let set = files::open(&path, OpenFlags::empty(), DescriptorFlags::WRITE)
        .and_then(|file| file.set_size(length.max(0.0) as u64));
    done(ctx, set, "truncate", Some(&path), None)
}

fn fsync(ctx: Ctx<'_>, fd: i32) -> Result<'_> {
    check_open(ctx, fd, "fsync")
}

fn fdatasync(ctx: Ctx<'_>, fd: i32) -> Result<'_> {
    check_open(ctx, fd, "fdatasync")
}

fn fchown(ctx: Ctx<'_>, fd: i32, uid: f64, gid: f64) -> Result<'_> {
    let allowed = is_open(fd).and_then(|()| check_owner(uid, gid));
    done(ctx, allowed, "fchown", None, None)
}

/// Checks that a descriptor is open: the host's files are complete after each call.
fn check_open<'js>(ctx: Ctx<'js>, fd: i32, syscall: &str) -> Result<'js> {
    done(ctx, is_open(fd), syscall, None, None)
}

fn is_open(fd: i32) -> files::Result<()> {
    TABLE.with_borrow(
        |table| {
            if table.device(fd).is_ok() { Ok(()) } else { table.file(fd).map(drop) }
        },
    )
}

fn stat(ctx: Ctx<'_>, path: String) -> Result<'_> {
    stat_path(ctx, path, true)
}

fn lstat(ctx: Ctx<'_>, path: String) -> Result<'_> {
    stat_path(ctx, path, false)
}

fn stat_path(ctx: Ctx<'_>, path: String, follow: bool) -> Result<'_> {
    let syscall = if follow { "stat" } else { "lstat" };
    if let Some(device) = device_of(&path) {
        let result = Object::new(ctx.clone())?;
        result.set("stat", device_stat(&ctx, device)?)?;
        return Ok(result.into_value());
    }
    let stat = files::stat(&path, follow)
        .and_then(|stat| files::identity(&path, follow).map(|number| (stat, number)));
    object(ctx.clone(), stat, syscall, Some(&path), |object, (stat, number)| {
        object.set("stat", stat_object(&ctx, &stat, &files::absolute(&path), number)?)
    })
}

/// Returns the kind of a device, by its path.
fn device_of(path: &str) -> Option<u32> {
    match path {
        "/dev/null" => Some(S_IFCHR | 0o666),
        "/dev/stdin" | "/dev/stdout" | "/dev/stderr" => Some(S_IFIFO | 0o600),
        _ => None,
    }
}

fn device_stat<'js>(ctx: &Ctx<'js>, mode: u32) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for name in
        ["dev", "ino", "rdev", "blocks", "size", "atimeMs", "mtimeMs", "ctimeMs", "birthtimeMs"]
    {
        object.set(name, 0)?;
    }
    object.set("mode", mode)?;
    object.set("nlink", 1)?;
    object.set("uid", 1000)?;
    object.set("gid", 1000)?;
    object.set("blksize", 4096)?;
    for name in ["isFile", "isDirectory", "isSymlink"] {
        object.set(name, false)?;
    }
    Ok(object)
}

fn stat_object<'js>(
    ctx: &Ctx<'js>,
    stat: &DescriptorStat,
    path: &str,
    inode: u64,
) -> rquickjs::Result<Object<'js>> {
    let (kind, permissions) = match stat.type_ {
        DescriptorType::Directory => (S_IFDIR, DIR),
        DescriptorType::SymbolicLink => (S_IFLNK, LINK),
        DescriptorType::CharacterDevice => (S_IFCHR, 0o666),
        DescriptorType::Fifo => (S_IFIFO, 0o600),
        _ if COMMANDS.iter().any(|folder| path.starts_with(folder)) => (S_IFREG, DIR),
        _ => (S_IFREG, FILE),
    };
    let set = mode_of(path, stat.type_ != DescriptorType::SymbolicLink);
    let milliseconds = |time: &Option<Datetime>| {
        time.as_ref()
            .map_or(0.0, |time| time.seconds as f64 * 1e3 + f64::from(time.nanoseconds) / 1e6)
    };
    let modified = milliseconds(&stat.data_modification_timestamp);
    let changed = milliseconds(&stat.status_change_timestamp);
    let object = device_stat(ctx, kind | set.unwrap_or(permissions))?;
    object.set("ino", inode as f64)?;
    object.set("nlink", stat.link_count as f64)?;
    object.set("size", stat.size as f64)?;
    object.set("blocks", stat.size.div_ceil(512) as f64)?;
    object.set("atimeMs", milliseconds(&stat.data_access_timestamp))?;
    object.set("mtimeMs", modified)?;
    object.set("ctimeMs", if changed > 0.0 { changed } else { modified })?;
    object.set("birthtimeMs", modified)?;
    object.set("isFile", kind == S_IFREG)?;
    object.set("isDirectory", kind == S_IFDIR)?;
    object.set("isSymlink", kind == S_IFLNK)?;
    Ok(object)
}

fn fstat(ctx: Ctx<'_>, fd: i32) -> Result<'_> {
    let device = TABLE.with_borrow(|table| table.device(fd));
    if let Ok(device) = device {
        let result = Object::new(ctx.clone())?;
        let mode = if device.is_some() { S_IFIFO | 0o600 } else { S_IFCHR | 0o666 };
        result.set("stat", device_stat(&ctx, mode)?)?;
        return Ok(result.into_value());
    }
    let stat = TABLE.with_borrow(|table| {
        let (file, path) = table.file(fd)?;
        Ok((file.stat()?, path.to_owned(), files::identity_of(file)?))
    });
    object(ctx.clone(), stat, "fstat", None, |object, (stat, path, number)| {
        object.set("stat", stat_object(&ctx, &stat, &path, number)?)
    })
}

fn readdir(ctx: Ctx<'_>, path: String, with_kinds: bool) -> Result<'_> {
    let entries = files::entries(&path).map(|mut entries| {
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries
    });
    object(ctx.clone(), entries, "scandir", Some(&path), |object, entries| {
        let array = Array::new(ctx.clone())?;
        for (index, (name, kind)) in entries.into_iter().enumerate() {
            if !with_kinds {
                array.set(index, name)?;
                continue;
            }
            let entry = Object::new(ctx.clone())?;
            entry.set("name", name)?;
            entry.set(
                "fileType",
                match kind {
                    DescriptorType::Directory => "directory",
                    DescriptorType::SymbolicLink => "symlink",
                    DescriptorType::RegularFile => "file",
                    _ => "unknown",
                },
            )?;
            array.set(index, entry)?;
        }
        object.set("entries", array)
    })
}

fn access(ctx: Ctx<'_>, path: String, mode: i32) -> Result<'_> {
    const EXECUTE: i32 = 1;
    let stat =
        if device_of(&path).is_some() { Ok(None) } else { files::stat(&path, true).map(Some) };
    let allowed = stat.and_then(|stat| {
        let executable = mode_of(&path, true).unwrap_or(0o111) & 0o111 != 0;
        let is_file = stat.is_some_and(|stat| stat.type_ == DescriptorType::RegularFile);
        if mode & EXECUTE != 0 && is_file && !executable {
            return Err(ErrorCode::Access);
        }
        Ok(())
    });
    done(ctx, allowed, "access", Some(&path), None)
}

fn realpath(ctx: Ctx<'_>, path: String) -> Result<'_> {
    let real = if device_of(&path).is_some() { Ok(path.clone()) } else { files::real_path(&path) };
    object(ctx, real, "realpath", Some(&path), |object, path| object.set("result", path))
}

fn copy(ctx: Ctx<'_>, from: String, to: String) -> Result<'_> {
    let copied = read_checked(&from).and_then(|bytes| {
        let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let file = files::open(&to, how, DescriptorFlags::WRITE)?;
        files::write_all(&file, &bytes, 0)
    });
    done(ctx, copied, "copyfile", Some(&from), Some(&to))
}

fn link(ctx: Ctx<'_>, from: String, to: String) -> Result<'_> {
    done(ctx, files::link(&from, &to), "link", Some(&from), Some(&to))
}

fn symlink(ctx: Ctx<'_>, target: String, path: String) -> Result<'_> {
    done(ctx, files::symlink(&target, &path), "symlink", Some(&target), Some(&path))
}

fn readlink(ctx: Ctx<'_>, path: String) -> Result<'_> {
    let target = files::read_link(&path);
    object(ctx, target, "readlink", Some(&path), |object, target| object.set("result", target))
}

/// Returns the permission bits that a program of the run has set.
fn mode_of(path: &str, follow: bool) -> Option<u32> {
    modes::any().then(|| modes::get(&files::absolute(path), follow)).flatten()
}

/// Sets them for a file that exists. The only error is that too many files have bits of their own.
fn set_mode(path: &str, mode: u32) -> std::result::Result<(), ErrorCode> {
    modes::set(&files::absolute(path), mode & 0o7777, true)
        .map_err(|()| ErrorCode::InsufficientSpace)
}

fn chmod(ctx: Ctx<'_>, path: String, mode: u32) -> Result<'_> {
    let set = files::stat(&path, true).and_then(|_| set_mode(&path, mode));
    done(ctx, set, "chmod", Some(&path), None)
}

fn fchmod(ctx: Ctx<'_>, fd: i32, mode: u32) -> Result<'_> {
    let set = TABLE.with_borrow(|table| table.file(fd).and_then(|(_, path)| set_mode(path, mode)));
    done(ctx, set, "fchmod", None, None)
}

fn chown(ctx: Ctx<'_>, path: String, uid: f64, gid: f64) -> Result<'_> {
    let allowed = files::stat(&path, true).and_then(|_| check_owner(uid, gid));
    done(ctx, allowed, "chown", Some(&path), None)
}

fn lchown(ctx: Ctx<'_>, path: String, uid: f64, gid: f64) -> Result<'_> {
    let allowed = files::stat(&path, false).and_then(|_| check_owner(uid, gid));
    done(ctx, allowed, "lchown", Some(&path), None)
}

/// Lets files keep their owner, which is the user, and refuses any other, as Linux does for users other
/// than root. -1 changes nothing.
fn check_owner(uid: f64, gid: f64) -> files::Result<()> {
    const UNCHANGED: f64 = -1.0;
    const USER: f64 = 1000.0;
    let is_kept = |id: f64| id == UNCHANGED || id == USER || id == f64::from(u32::MAX);
    if is_kept(uid) && is_kept(gid) { Ok(()) } else { Err(ErrorCode::NotPermitted) }
}

fn utimes(ctx: Ctx<'_>, path: String, accessed: f64, modified: f64) -> Result<'_> {
    let set = files::set_times(&path, accessed, modified, true);
    done(ctx, set, "utime", Some(&path), None)
}

fn lutimes(ctx: Ctx<'_>, path: String, accessed: f64, modified: f64) -> Result<'_> {
    let set = files::set_times(&path, accessed, modified, false);
    done(ctx, set, "lutime", Some(&path), None)
}

fn futimes(ctx: Ctx<'_>, fd: i32, accessed: f64, modified: f64) -> Result<'_> {
    let set = TABLE.with_borrow(|table| {
        table.file(fd)?.0.set_times(files::timestamp(accessed)?, files::timestamp(modified)?)
    });
    done(ctx, set, "futime", None, None)
}

fn mkdir(ctx: Ctx<'_>, path: String, recursive: bool, mode: Opt<u32>) -> Result<'_> {
    let made = if recursive { files::create_dirs(&path) } else { files::create_dir(&path) };
    if let Some(mode) = mode.0.filter(|mode| made.is_ok() && mode & 0o777 != 0o777) {
        // As for files: the folder exists now.
        set_mode(&path, mode & !0o022).ok();
    }
    done(ctx, made, "mkdir", Some(&path), None)
}

/// Creates a folder, and returns the text of an error.
fn make_dir(path: String, recursive: bool) -> Option<String> {
    let made = if recursive { files::create_dirs(&path) } else { files::create_dir(&path) };
    made.err().map(|error| {
        format!("Failed to create directory {path:?}: {}", files::describe(error).text)
    })
}

fn rmdir(ctx: Ctx<'_>, path: String) -> Result<'_> {
    done(ctx, files::remove_dir(&path), "rmdir", Some(&path), None)
}

fn rm(ctx: Ctx<'_>, path: String, recursive: bool, force: bool) -> Result<'_> {
    let stat = match files::stat(&path, false) {
        Ok(stat) => stat,
        Err(ErrorCode::NoEntry) if force => return Ok(Value::new_undefined(ctx)),
        Err(error) => return done(ctx, Err(error), "lstat", Some(&path), None),
    };
    let removed = match stat.type_ {
        DescriptorType::Directory if recursive => files::remove_tree(&path),
        DescriptorType::Directory => {
            let object = error(&ctx, ErrorCode::IsDirectory, "rm", Some(&path), None)?;
            object.set("code", "ERR_FS_EISDIR")?;
            return Ok(object.into_value());
        }
        _ => files::unlink(&path),
    };
    done(ctx, removed, "rm", Some(&path), None)
}

fn mkdtemp(ctx: Ctx<'_>, prefix: String) -> Result<'_> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut random = [0; 6];
    system::random(&mut random);
    let end: String = random.iter().map(|byte| LETTERS[usize::from(*byte) % 62] as char).collect();
    let path = format!("{prefix}{end}");
    let made = files::create_dir(&path);
    let template = format!("{prefix}XXXXXX");
    object(ctx, made, "mkdtemp", Some(&template), |object, ()| object.set("result", path))
}

fn rename(ctx: Ctx<'_>, from: String, to: String) -> Result<'_> {
    done(ctx, files::rename(&from, &to), "rename", Some(&from), Some(&to))
}

fn unlink(ctx: Ctx<'_>, path: String) -> Result<'_> {
    done(ctx, files::unlink(&path), "unlink", Some(&path), None)
}

//! The standard library of CPython 3.14: its modules, those that the sandbox does not provide, and
//! those that were removed from Python.

/// The public modules, from `sys.stdlib_module_names`.
#[rustfmt::skip]
const MODULES: &[&str] = &[
    "abc", "annotationlib", "antigravity", "argparse", "array", "ast", "asyncio", "atexit", "base64", "bdb", "binascii", "bisect",
    "builtins", "bz2", "cProfile", "calendar", "cmath", "cmd", "code", "codecs", "codeop", "collections", "colorsys", "compileall",
    "compression", "concurrent", "configparser", "contextlib", "contextvars", "copy", "copyreg", "csv", "ctypes", "curses",
    "dataclasses", "datetime", "dbm", "decimal", "difflib", "dis", "doctest", "email", "encodings", "ensurepip", "enum", "errno",
    "faulthandler", "fcntl", "filecmp", "fileinput", "fnmatch", "fractions", "ftplib", "functools", "gc", "genericpath", "getopt",
    "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib", "heapq", "hmac", "html", "http", "idlelib", "imaplib",
    "importlib", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "linecache", "locale", "logging", "lzma", "mailbox",
    "marshal", "math", "mimetypes", "mmap", "modulefinder", "msvcrt", "multiprocessing", "netrc", "nt", "ntpath", "nturl2path",
    "numbers", "opcode", "operator", "optparse", "os", "pathlib", "pdb", "pickle", "pickletools", "pkgutil", "platform", "plistlib",
    "poplib", "posix", "posixpath", "pprint", "profile", "pstats", "pty", "pwd", "py_compile", "pyclbr", "pydoc", "pydoc_data",
    "pyexpat", "queue", "quopri", "random", "re", "readline", "reprlib", "resource", "rlcompleter", "runpy", "sched", "secrets",
    "select", "selectors", "shelve", "shlex", "shutil", "signal", "site", "smtplib", "socket", "socketserver", "sqlite3",
    "sre_compile", "sre_constants", "sre_parse", "ssl", "stat", "statistics", "string", "stringprep", "struct", "subprocess",
    "symtable", "sys", "sysconfig", "syslog", "tabnanny", "tarfile", "tempfile", "termios", "textwrap", "this", "threading", "time",
    "timeit", "tkinter", "token", "tokenize", "tomllib", "trace", "traceback", "tracemalloc", "tty", "turtle", "turtledemo",
    "types", "typing", "unicodedata", "unittest", "urllib", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser", "winreg",
    "winsound", "wsgiref", "xml", "xmlrpc", "zipapp", "zipfile", "zipimport", "zlib", "zoneinfo",
];

/// The private modules that the sandbox provides. Scripts can import them too.
#[rustfmt::skip]
const OWN: &[&str] = &[
    "__future__", "_abc", "_aix_support", "_android_support", "_apple_support", "_ast", "_ast_unparse", "_asyncio", "_bisect", "_blake2",
    "_bz2", "_codecs", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_collections", "_collections_abc",
    "_colorize", "_compat_pickle", "_contextvars", "_csv", "_datetime", "_decimal", "_elementtree", "_frozen_importlib",
    "_frozen_importlib_external", "_functools", "_heapq", "_hmac", "_imp", "_io", "_ios_support", "_json", "_locale", "_lsprof",
    "_lzma", "_markupbase", "_md5", "_multibytecodec", "_opcode", "_opcode_metadata", "_operator", "_osx_support", "_pickle", "_py_abc",
    "_py_warnings", "_pydatetime", "_pydecimal", "_pyio", "_pylong", "_pyrepl", "_queue", "_random", "_sha1", "_sha2", "_sha3", "_signal",
    "_sitebuiltins", "_socket", "_sqlite3", "_sre", "_stat", "_statistics", "_string", "_strptime", "_struct", "_suggestions", "_symtable",
    "_sysconfig", "_thread", "_threading_local", "_tokenize", "_tracemalloc", "_types", "_typing", "_warnings", "_weakref", "_weakrefset",
    "_zoneinfo", "_zstd",
];

/// The private modules that the sandbox does not provide.
#[rustfmt::skip]
const OWN_MISSING: &[&str] = &[
    "_ctypes", "_curses", "_curses_panel", "_dbm", "_gdbm", "_hashlib", "_interpchannels", "_interpqueues", "_interpreters",
    "_multiprocessing", "_overlapped", "_posixshmem", "_posixsubprocess", "_remote_debugging", "_scproxy", "_ssl", "_tkinter", "_uuid",
    "_winapi", "_wmi",
];

/// The modules that the sandbox does not provide: why, and what to use instead. They need an operating
/// system, or a library that is not built in.
const MISSING: &[(&str, &str, &str)] = &[
    ("concurrent.interpreters", "there is one interpreter", "use concurrent.futures"),
    ("ctypes", "no native library can be loaded", "use pure Python"),
    ("curses", "there is no terminal", "print lines, or use rich"),
    ("dbm.gnu", "the library is not built in", "use sqlite3"),
    ("dbm.ndbm", "the library is not built in", "use sqlite3"),
    ("ensurepip", "packages come with the runtime", "use --site-packages for others"),
    ("fcntl", "files cannot be locked", "write to a file of your own and rename it"),
    ("idlelib", "there is no display", "write a file for the user to open"),
    ("msvcrt", "this is not Windows", "read from stdin"),
    (
        "multiprocessing.shared_memory",
        "no memory is shared between programs",
        "pass data by files or pipes",
    ),
    ("nt", "this is not Windows", "use os"),
    ("pty", "there is no terminal", "use pipes"),
    ("readline", "there is no terminal", "read from stdin"),
    ("syslog", "there is no system log", "use logging"),
    ("termios", "there is no terminal", "read from stdin"),
    ("tkinter", "there is no display", "write a file for the user to open"),
    ("tty", "there is no terminal", "read from stdin"),
    ("turtle", "there is no display", "write a file for the user to open"),
    ("turtledemo", "there is no display", "write a file for the user to open"),
    ("venv", "packages come with the runtime", "use --site-packages for others"),
    ("winreg", "this is not Windows", "use a file"),
    ("winsound", "there is no sound", "leave it out"),
];

/// The modules that can be imported but do not work: why, and what to use instead.
const LIMITED: &[(&str, &str, &str)] = &[
    ("ftplib", "only HTTP leaves the sandbox", "use urllib.request or requests"),
    ("http.server", "nothing can listen for connections", "write a file for the user to open"),
    ("imaplib", "only HTTP leaves the sandbox", "use the service's HTTP API"),
    ("poplib", "only HTTP leaves the sandbox", "use the service's HTTP API"),
    ("smtplib", "only HTTP leaves the sandbox", "use the service's HTTP API"),
    ("socketserver", "nothing can listen for connections", "read from stdin or files"),
    ("webbrowser", "there is no browser", "print the address"),
    (
        "wsgiref.simple_server",
        "nothing can listen for connections",
        "call the application directly",
    ),
    ("xmlrpc.server", "nothing can listen for connections", "read from stdin or files"),
];

/// The modules that were removed from Python: the version, and what to use instead.
const REMOVED: &[(&str, &str, &str)] = &[
    ("aifc", "3.13", "use wave"),
    ("asynchat", "3.12", "use asyncio"),
    ("asyncore", "3.12", "use asyncio"),
    ("audioop", "3.13", "use array and struct"),
    ("cgi", "3.13", "use urllib.parse and email.message"),
    ("cgitb", "3.13", "use traceback"),
    ("chunk", "3.13", "use struct"),
    ("crypt", "3.13", "use hashlib.scrypt or hashlib.pbkdf2_hmac"),
    ("distutils", "3.12", "use shutil, or packaging for versions"),
    ("imghdr", "3.13", "compare the file's first bytes"),
    ("imp", "3.12", "use importlib"),
    ("lib2to3", "3.13", "use ast"),
    ("mailcap", "3.13", "use mimetypes"),
    ("nntplib", "3.13", "leave it out"),
    ("pipes", "3.13", "use shlex and subprocess"),
    ("smtpd", "3.12", "leave it out"),
    ("sndhdr", "3.13", "compare the file's first bytes"),
    ("telnetlib", "3.13", "leave it out"),
    ("uu", "3.13", "use base64"),
    ("xdrlib", "3.13", "use struct"),
];

/// Returns all modules, and whether the sandbox provides each, for a test that asks the runtime.
#[doc(hidden)]
pub fn standard_modules() -> impl Iterator<Item = (&'static str, bool)> {
    let missing = MISSING
        .iter()
        .map(|(name, ..)| *name)
        .chain(OWN_MISSING.iter().copied())
        .map(|name| (name, false));
    let limited = LIMITED.iter().map(|(name, ..)| *name);
    let is_missing = |name: &str| MISSING.iter().any(|(missing, ..)| *missing == name);
    let here = MODULES
        .iter()
        .chain(OWN)
        .copied()
        .chain(limited)
        .filter(move |name| !is_missing(name))
        .map(|name| (name, true));
    missing.chain(here)
}

/// The availability of a module of the standard library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standard {
    /// The sandbox provides it.
    Available,
    /// The sandbox does not provide it.
    Missing { why: &'static str, instead: Option<&'static str> },
    /// It can be imported, but does not work.
    Limited { why: &'static str, instead: &'static str },
    /// It was removed from Python in a version.
    Removed { since: &'static str, instead: &'static str },
}

/// Looks up a dotted name. Returns `None` if it is not in the standard library.
pub(super) fn find(module: &str) -> Option<Standard> {
    let root = module.split('.').next().unwrap_or(module);
    let is = |name: &str| {
        module == name || module.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    if let Some((_, why, instead)) = MISSING.iter().find(|(name, ..)| is(name)) {
        return Some(Standard::Missing { why, instead: Some(instead) });
    }
    if let Some((_, why, instead)) = LIMITED.iter().find(|(name, ..)| is(name)) {
        return Some(Standard::Limited { why, instead });
    }
    if let Some((_, since, instead)) = REMOVED.iter().find(|(name, ..)| is(name)) {
        return Some(Standard::Removed { since, instead });
    }
    if OWN_MISSING.contains(&root) {
        let why = "it is part of a module that is not available";
        return Some(Standard::Missing { why, instead: None });
    }
    (MODULES.binary_search(&root).is_ok() || OWN.contains(&root) || root == "__main__")
        .then_some(Standard::Available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_looked_up_by_their_whole_name() {
        for module in [
            "json",
            "os.path",
            "xml.etree.ElementTree",
            "__future__",
            "_thread",
            "http.client",
            "compression",
            "annotationlib",
        ] {
            assert_eq!(find(module), Some(Standard::Available), "{module}");
        }
        assert!(matches!(find("ctypes.util"), Some(Standard::Missing { .. })));
        assert!(matches!(find("http.server"), Some(Standard::Limited { .. })));
        assert!(matches!(find("distutils.version"), Some(Standard::Removed { since: "3.12", .. })));
        assert!(matches!(find("_ctypes"), Some(Standard::Missing { .. })));
        for module in ["requests", "ctypeslib", "yaml", "_mine", ""] {
            assert_eq!(find(module), None, "{module}");
        }
    }

    #[test]
    fn module_tables_are_sorted_and_consistent() {
        assert!(MODULES.is_sorted());
        let root = |name: &str| MODULES.binary_search(&name.split('.').next().unwrap()).is_ok();
        assert!(MISSING.iter().chain(LIMITED).all(|(name, ..)| root(name)));
        assert!(REMOVED.iter().all(|(name, ..)| !root(name)));
    }
}

//! The commands that the shell and the sandbox provide, and those that they do not. This is the only
//! list of them.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The availability of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// A builtin of bash, or another command of the shell component.
    BuiltIn,
    /// A separate program, which a script can start only if it is granted.
    Program,
    /// An installer. Whether the skill works depends on what it uses, not on the installer.
    Installer,
    /// Not available: what it does, as the end of a sentence, and what to use instead, if anything.
    Unavailable(&'static str, Option<&'static str>),
    /// Unknown.
    Unknown,
}

/// Looks up a command by name.
pub fn availability(name: &str) -> Availability {
    static TABLE: LazyLock<HashMap<&str, Availability>> = LazyLock::new(|| {
        let lists = [
            (BASH, Availability::BuiltIn),
            (COMMANDS, Availability::BuiltIn),
            (PROGRAMS, Availability::Program),
        ];
        let lists = lists.into_iter().chain([(INSTALLERS, Availability::Installer)]);
        let never = UNAVAILABLE
            .iter()
            .map(|(what, instead, names)| (*names, Availability::Unavailable(what, *instead)));
        lists
            .chain(never)
            .flat_map(|(names, is)| names.iter().map(move |name| (*name, is)))
            .collect()
    });
    TABLE.get(name).copied().unwrap_or(Availability::Unknown)
}

/// Returns the commands of the shell.
pub fn built_in_commands() -> impl Iterator<Item = &'static str> {
    BASH.iter().chain(COMMANDS).copied()
}

/// Returns the subcommands that work, for a command that is only partly supported, and a sentence
/// about it.
#[doc(hidden)]
pub fn subcommands(name: &str) -> Option<(&'static [&'static str], &'static str)> {
    match name {
        "git" => Some((GIT, "git in the sandbox only reads the local repository")),
        "openssl" => Some((&["rand"], "use sha256sum, base64 or Python's hashlib")),
        _ => None,
    }
}

/// The subcommands of git that work: those that only read the local repository.
#[rustfmt::skip]
const GIT: &[&str] = &[
    "branch", "cat-file", "config", "describe", "diff", "log", "ls-files", "ls-tree", "merge-base", "remote", "rev-list", "rev-parse", "show", "show-ref",
    "status", "symbolic-ref", "tag", "version",
];

/// The builtins of bash.
#[rustfmt::skip]
const BASH: &[&str] = &[
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt", "continue",
    "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help",
    "history", "jobs", "kill", "let", "local", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return",
    "set", "shift", "shopt", "source", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
];

/// The other commands of the shell.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "arch", "awk", "b2sum", "base32", "base64", "basename", "basenc", "bc", "bunzip2", "busybox", "bzcat", "bzip2", "cat", "chgrp", "chmod",
    "chown", "cksum", "clear", "cmp", "column", "comm", "cp", "curl", "cut", "date", "dd", "df", "diff", "dirname", "du", "egrep", "env",
    "envsubst", "expand", "expr", "factor", "fgrep", "file", "find", "flock", "fmt", "fold", "free", "gawk", "getconf", "git", "grep", "groups",
    "gunzip", "gzip", "head", "hexdump", "hostid", "hostname", "iconv", "id", "install", "join", "jq", "less", "link", "ln", "locale", "logname", "ls",
    "make", "man", "mawk", "md5sum", "mkdir", "mkfifo", "mktemp", "mv", "nawk", "nice", "nl", "nohup", "nproc", "numfmt", "od", "openssl", "paste",
    "patch", "pgrep", "pkill", "pr", "printenv", "ps", "readlink", "realpath", "rev", "rg", "rm", "rmdir", "sed", "seq", "sha1sum",
    "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shasum", "shuf", "sleep", "sort", "split", "sqlite3", "stat", "strings", "sudo",
    "sum", "sync", "tac", "tail", "tar", "tee", "time", "timeout", "tomlq", "touch", "tr", "tree", "truncate", "tsort", "tty", "uname",
    "unexpand", "uniq", "unlink", "unzip", "uptime", "users", "uuidgen", "wc", "which", "who", "whoami", "xargs", "xxd", "yes", "yq",
    "zcat", "zip",
];

/// The programs of the sandbox, with their aliases.
const PROGRAMS: &[&str] = &[
    "python3",
    "python",
    "python3.14",
    "bash",
    "sh",
    "uv",
    "pip",
    "pip3",
    "node",
    "nodejs",
    "bun",
    "deno",
    "tsx",
    "ts-node",
    "npm",
    "npx",
    "pnpm",
    "pnpx",
    "yarn",
    "bunx",
];

const INSTALLERS: &[&str] = &[
    "apt", "apt-get", "apk", "brew", "conda", "dnf", "dpkg", "gem", "mamba", "pacman", "pipx",
    "port", "snap", "winget", "yum", "choco", "scoop", "poetry", "pipenv", "rustup", "nvm", "asdf",
    "mise", "volta",
];

/// The commands that are not available: what they do, and what to use instead.
#[rustfmt::skip]
const UNAVAILABLE: &[(&str, Option<&str>, &[&str])] = &[
    ("is a JavaScript tool that is not in the package set", None, &["tsc", "vite", "next", "eslint", "prettier", "jest", "vitest", "electron", "webpack"]),
    ("processes audio and video with native code", None, &["ffmpeg", "ffprobe", "sox", "afplay", "aplay", "mpv", "vlc", "yt-dlp", "say", "espeak", "whisper", "whisper-cli", "mediainfo", "lame"]),
    ("converts documents with a native office suite", Some("read documents with zipfile and xml.etree.ElementTree, or openpyxl"), &["soffice", "libreoffice", "unoconv", "pandoc", "wkhtmltopdf", "xelatex", "pdflatex", "lualatex", "latexmk", "tectonic", "typst", "markitdown"]),
    ("reads PDF files with native code", Some("use pypdf"), &["pdftotext", "pdftoppm", "pdfinfo", "pdfimages", "qpdf", "pdftk", "mutool", "gs", "ocrmypdf"]),
    ("processes images with native code", Some("write SVG as text"), &["convert", "magick", "identify", "mogrify", "inkscape", "rsvg-convert", "dot", "tesseract", "exiftool", "cwebp", "optipng", "sips", "mmdc", "d2", "plantuml", "gnuplot", "blender"]),
    ("manages containers and machines", None, &["docker", "docker-compose", "podman", "kubectl", "helm", "minikube", "kind", "k9s", "kustomize", "argocd", "istioctl", "terraform", "tofu", "terragrunt", "pulumi", "ansible", "ansible-playbook", "vagrant", "packer", "nomad", "vault", "consul"]),
    ("is the client of a service", Some("call the service's HTTP API with curl, or with requests in Python"), &["gh", "glab", "hub", "aws", "az", "gcloud", "gsutil", "bq", "firebase", "heroku", "vercel", "netlify", "wrangler", "flyctl", "fly", "railway", "supabase", "stripe", "doctl", "oci", "sentry-cli", "slack", "op", "bw", "claude", "codex", "gemini", "opencode", "openclaw", "clawdbot", "clawhub", "ollama", "huggingface-cli", "hf", "himalaya", "gog", "sam", "cdk", "eksctl", "doppler", "snyk", "linear", "jira", "ngrok", "cloudflared", "agent-browser", "mcporter"]),
    ("connects to a database server", Some("use sqlite3 with a local file"), &["psql", "pg_dump", "pg_restore", "mysql", "mysqldump", "mongosh", "mongo", "redis-cli", "clickhouse-client", "duckdb", "cqlsh", "influx"]),
    ("controls a macOS desktop", None, &["osascript", "open", "pbcopy", "pbpaste", "defaults", "launchctl", "screencapture", "xcodebuild", "xcrun", "swift", "mdfind", "security", "plutil", "codesign", "diskutil", "terminal-notifier", "shortcuts", "memo", "remindctl", "imsg"]),
    ("needs a display or a terminal", None, &["xdg-open", "xclip", "xsel", "wl-copy", "notify-send", "xdotool", "tmux", "screen", "vim", "vi", "nvim", "nano", "emacs", "code", "cursor", "fzf", "dialog", "whiptail", "tput", "stty", "script", "expect", "chromium", "google-chrome", "chrome", "firefox", "playwright", "top", "htop", "watch"]),
    ("needs another machine, or connections other than HTTP", Some("use curl if the service supports HTTP"), &["ssh", "scp", "sftp", "rsync", "ssh-keygen", "ssh-add", "ssh-copy-id", "ping", "dig", "nslookup", "host", "nc", "ncat", "netcat", "telnet", "nmap", "traceroute", "whois", "gpg", "mail", "sendmail", "ip", "ifconfig", "netstat", "ss", "lsof", "tcpdump", "iptables", "ufw", "socat", "adb", "mosh"]),
    ("manages the machine", None, &["doas", "su", "systemctl", "service", "journalctl", "crontab", "at", "mount", "umount", "killall", "vmstat", "dmesg", "modprobe", "useradd", "passwd", "reboot", "shutdown", "lsblk", "fdisk", "nvidia-smi", "stdbuf", "strace", "gdb", "perf", "certbot", "nginx", "apachectl", "chroot", "renice", "ionice", "taskset", "setsid", "caffeinate"]),
    ("compiles or runs another language", None, &["gcc", "g++", "cc", "clang", "clang++", "cmake", "ninja", "cargo", "rustc", "go", "gofmt", "golangci-lint", "java", "javac", "mvn", "gradle", "kotlin", "kotlinc", "scala", "sbt", "dotnet", "ruby", "bundle", "rake", "rails", "rspec", "perl", "php", "composer", "artisan", "lua", "Rscript", "R", "julia", "elixir", "mix", "erl", "ghc", "stack", "flutter", "dart", "zig", "nim", "forge", "cast", "anvil", "solc", "hardhat", "pwsh", "powershell", "zsh", "fish", "just", "bazel", "wat2wasm", "wasm-pack"]),
    ("is a Python tool that is not in the package set", Some("if it is pure Python: add it with --site-packages, and start it with python3 -m"), &["pytest", "black", "ruff", "mypy", "flake8", "pylint", "isort", "pre-commit", "tox", "nox", "jupyter", "ipython", "streamlit", "uvicorn", "gunicorn", "flask", "django-admin", "alembic", "celery", "mkdocs", "sphinx-build", "bandit", "pip-audit", "uvx", "scrapy", "semgrep", "virtualenv", "coverage", "pyright", "twine", "dvc", "modal", "agentskills"]),
    ("creates devices, which the sandbox does not support", None, &["mknod"]),
    ("is an HTTP client that the sandbox does not provide", Some("use curl"), &["wget", "http", "https", "xh", "aria2c", "axel"]),
    ("runs commands in parallel", Some("use xargs, or & and wait"), &["parallel", "pigz", "pbzip2"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_listed_once() {
        assert!(BASH.is_sorted() && COMMANDS.is_sorted());
        let never = UNAVAILABLE.iter().flat_map(|(_, _, names)| names.iter());
        let mut all: Vec<&str> = [BASH, COMMANDS, PROGRAMS, INSTALLERS]
            .into_iter()
            .flatten()
            .chain(never)
            .copied()
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn commands_of_each_kind_are_found() {
        assert_eq!(availability("jq"), Availability::BuiltIn);
        assert_eq!(availability("["), Availability::BuiltIn);
        assert_eq!(availability("python3"), Availability::Program);
        assert_eq!(availability("npx"), Availability::Program);
        assert_eq!(availability("brew"), Availability::Installer);
        assert!(matches!(availability("docker"), Availability::Unavailable(..)));
        assert_eq!(availability("an-unknown-tool"), Availability::Unknown);
    }
}

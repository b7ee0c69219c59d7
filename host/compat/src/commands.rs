//! Commands: which the shell has in itself, which programs the sandbox has, and which it never
//! will. This is the one list of them.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Whether a command is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// The shell's own: a builtin of bash, or a command that the shell component brings along.
    BuiltIn,
    /// A program of its own, which a script starts by the grant's leave.
    Program,
    /// Puts software on a machine. What a skill needs of it is told by what it uses.
    Installer,
    /// Never here: what it does, as the end of a sentence, and what to do in its place, if
    /// anything.
    Never(&'static str, Option<&'static str>),
    /// Not here, and nothing is known of it.
    Unknown,
}

/// Looks a command up by its name alone.
pub fn availability(name: &str) -> Availability {
    static TABLE: LazyLock<HashMap<&str, Availability>> = LazyLock::new(|| {
        let lists = [
            (BASH, Availability::BuiltIn),
            (COMMANDS, Availability::BuiltIn),
            (PROGRAMS, Availability::Program),
        ];
        let lists = lists.into_iter().chain([(INSTALLERS, Availability::Installer)]);
        let never = NEVER
            .iter()
            .map(|(what, instead, names)| (*names, Availability::Never(what, *instead)));
        lists
            .chain(never)
            .flat_map(|(names, is)| names.iter().map(move |name| (*name, is)))
            .collect()
    });
    TABLE.get(name).copied().unwrap_or(Availability::Unknown)
}

/// The commands that the shell has in itself.
pub fn built_in_commands() -> impl Iterator<Item = &'static str> {
    BASH.iter().chain(COMMANDS).copied()
}

/// Of a command that does a part of what it does elsewhere: the subcommands that work, and what it
/// is about, as the end of a sentence.
#[doc(hidden)]
pub fn subcommands(name: &str) -> Option<(&'static [&'static str], &'static str)> {
    match name {
        "git" => Some((GIT, "git only reads, and only the repository")),
        "openssl" => Some((&["rand"], "sha256sum, base64 and Python's hashlib are")),
        _ => None,
    }
}

/// Subcommands of git that work: those that only read, and only the repository.
#[rustfmt::skip]
const GIT: &[&str] = &[
    "branch", "cat-file", "config", "describe", "diff", "log", "ls-files", "ls-tree", "merge-base", "remote", "rev-list", "rev-parse", "show", "show-ref",
    "status", "symbolic-ref", "tag", "version",
];

/// Bash's own.
#[rustfmt::skip]
const BASH: &[&str] = &[
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt", "continue",
    "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help",
    "history", "jobs", "kill", "let", "local", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return",
    "set", "shift", "shopt", "source", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
];

/// What the shell brings along beside them.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "arch", "awk", "b2sum", "base32", "base64", "basename", "basenc", "bc", "bunzip2", "busybox", "bzcat", "bzip2", "cat", "chgrp", "chmod",
    "chown", "cksum", "clear", "cmp", "column", "comm", "cp", "curl", "cut", "date", "dd", "df", "diff", "dirname", "du", "egrep", "env",
    "envsubst", "expand", "expr", "factor", "fgrep", "file", "find", "flock", "fmt", "fold", "free", "gawk", "getconf", "git", "grep", "groups",
    "gunzip", "gzip", "head", "hexdump", "hostid", "hostname", "iconv", "id", "install", "join", "jq", "less", "locale", "logname", "ls",
    "make", "man", "mawk", "md5sum", "mkdir", "mktemp", "mv", "nawk", "nice", "nl", "nohup", "nproc", "numfmt", "od", "openssl", "paste",
    "patch", "pgrep", "pkill", "pr", "printenv", "ps", "readlink", "realpath", "rev", "rg", "rm", "rmdir", "sed", "seq", "sha1sum",
    "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shasum", "shuf", "sleep", "sort", "split", "sqlite3", "stat", "strings", "sudo",
    "sum", "sync", "tac", "tail", "tar", "tee", "time", "timeout", "tomlq", "touch", "tr", "tree", "truncate", "tsort", "tty", "uname",
    "unexpand", "uniq", "unlink", "unzip", "uptime", "users", "uuidgen", "wc", "which", "who", "whoami", "xargs", "xxd", "yes", "yq",
    "zcat", "zip",
];

/// The sandbox's programs, and the stand-ins that lead to them.
const PROGRAMS: &[&str] = &["python3", "python", "python3.14", "bash", "sh", "uv", "pip", "pip3"];

const INSTALLERS: &[&str] = &[
    "apt", "apt-get", "apk", "brew", "conda", "dnf", "dpkg", "gem", "mamba", "pacman", "pipx",
    "port", "snap", "winget", "yum", "choco", "scoop", "poetry", "pipenv", "rustup", "nvm", "asdf",
    "mise", "volta",
];

const JAVASCRIPT: Option<&str> =
    Some("write it in Python or bash: JavaScript does not run here yet");

/// By what they are about, and what there is in their place.
#[rustfmt::skip]
const NEVER: &[(&str, Option<&str>, &[&str])] = &[
    ("runs JavaScript", JAVASCRIPT, &["node", "nodejs", "deno", "bun", "ts-node", "tsx"]),
    ("installs and runs JavaScript packages", JAVASCRIPT, &["npm", "npx", "pnpm", "yarn", "bunx", "tsc", "vite", "next", "eslint", "prettier", "jest", "vitest", "electron", "webpack"]),
    ("makes sound and video with native code", None, &["ffmpeg", "ffprobe", "sox", "afplay", "aplay", "mpv", "vlc", "yt-dlp", "say", "espeak", "whisper", "whisper-cli", "mediainfo", "lame"]),
    ("converts documents with a native office suite", Some("read documents with zipfile and xml.etree.ElementTree, or openpyxl"), &["soffice", "libreoffice", "unoconv", "pandoc", "wkhtmltopdf", "xelatex", "pdflatex", "lualatex", "latexmk", "tectonic", "typst", "markitdown"]),
    ("reads PDF files with native code", Some("use pypdf"), &["pdftotext", "pdftoppm", "pdfinfo", "pdfimages", "qpdf", "pdftk", "mutool", "gs", "ocrmypdf"]),
    ("works on pictures with native code", Some("write SVG as text"), &["convert", "magick", "identify", "mogrify", "inkscape", "rsvg-convert", "dot", "tesseract", "exiftool", "cwebp", "optipng", "sips", "mmdc", "d2", "plantuml", "gnuplot", "blender"]),
    ("manages containers and machines", None, &["docker", "docker-compose", "podman", "kubectl", "helm", "minikube", "kind", "k9s", "kustomize", "argocd", "istioctl", "terraform", "tofu", "terragrunt", "pulumi", "ansible", "ansible-playbook", "vagrant", "packer", "nomad", "vault", "consul"]),
    ("is a service's own client", Some("ask the service's HTTP API with curl, or with requests from Python"), &["gh", "glab", "hub", "aws", "az", "gcloud", "gsutil", "bq", "firebase", "heroku", "vercel", "netlify", "wrangler", "flyctl", "fly", "railway", "supabase", "stripe", "doctl", "oci", "sentry-cli", "slack", "op", "bw", "claude", "codex", "gemini", "opencode", "openclaw", "clawdbot", "clawhub", "ollama", "huggingface-cli", "hf", "himalaya", "gog", "sam", "cdk", "eksctl", "doppler", "snyk", "linear", "jira", "ngrok", "cloudflared", "agent-browser", "mcporter"]),
    ("talks to a database server", Some("use sqlite3, for a file of its own"), &["psql", "pg_dump", "pg_restore", "mysql", "mysqldump", "mongosh", "mongo", "redis-cli", "clickhouse-client", "duckdb", "cqlsh", "influx"]),
    ("works on a Mac's desktop", None, &["osascript", "open", "pbcopy", "pbpaste", "defaults", "launchctl", "screencapture", "xcodebuild", "xcrun", "swift", "mdfind", "security", "plutil", "codesign", "diskutil", "terminal-notifier", "shortcuts", "memo", "remindctl", "imsg"]),
    ("needs a display or a terminal", None, &["xdg-open", "xclip", "xsel", "wl-copy", "notify-send", "xdotool", "tmux", "screen", "vim", "vi", "nvim", "nano", "emacs", "code", "cursor", "fzf", "dialog", "whiptail", "tput", "stty", "script", "expect", "chromium", "google-chrome", "chrome", "firefox", "playwright", "top", "htop", "watch"]),
    ("needs another machine, or other connections than HTTP", Some("use curl, where the service speaks HTTP"), &["ssh", "scp", "sftp", "rsync", "ssh-keygen", "ssh-add", "ssh-copy-id", "ping", "dig", "nslookup", "host", "nc", "ncat", "netcat", "telnet", "nmap", "traceroute", "whois", "gpg", "mail", "sendmail", "ip", "ifconfig", "netstat", "ss", "lsof", "tcpdump", "iptables", "ufw", "socat", "adb", "mosh"]),
    ("manages the machine", None, &["doas", "su", "systemctl", "service", "journalctl", "crontab", "at", "mount", "umount", "killall", "vmstat", "dmesg", "modprobe", "useradd", "passwd", "reboot", "shutdown", "lsblk", "fdisk", "nvidia-smi", "stdbuf", "strace", "gdb", "perf", "certbot", "nginx", "apachectl", "chroot", "renice", "ionice", "taskset", "setsid", "caffeinate"]),
    ("compiles or runs another language", None, &["gcc", "g++", "cc", "clang", "clang++", "cmake", "ninja", "cargo", "rustc", "go", "gofmt", "golangci-lint", "java", "javac", "mvn", "gradle", "kotlin", "kotlinc", "scala", "sbt", "dotnet", "ruby", "bundle", "rake", "rails", "rspec", "perl", "php", "composer", "artisan", "lua", "Rscript", "R", "julia", "elixir", "mix", "erl", "ghc", "stack", "flutter", "dart", "zig", "nim", "forge", "cast", "anvil", "solc", "hardhat", "pwsh", "powershell", "zsh", "fish", "just", "bazel", "wat2wasm", "wasm-pack"]),
    ("is a Python tool that the package set does not hold", Some("if it is pure Python: bring it with --site-packages, and start it with python3 -m"), &["pytest", "black", "ruff", "mypy", "flake8", "pylint", "isort", "pre-commit", "tox", "nox", "jupyter", "ipython", "streamlit", "uvicorn", "gunicorn", "flask", "django-admin", "alembic", "celery", "mkdocs", "sphinx-build", "bandit", "pip-audit", "uvx", "scrapy", "semgrep", "virtualenv", "coverage", "pyright", "twine", "dvc", "modal", "agentskills"]),
    ("makes links, which the sandbox has none of", Some("copy the file with cp"), &["ln", "link", "mkfifo", "mknod"]),
    ("asks servers by a way of its own", Some("use curl"), &["wget", "http", "https", "xh", "aria2c", "axel"]),
    ("runs commands side by side", Some("use xargs, or & and wait"), &["parallel", "pigz", "pbzip2"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_place() {
        assert!(BASH.is_sorted() && COMMANDS.is_sorted());
        let never = NEVER.iter().flat_map(|(_, _, names)| names.iter());
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
    fn each_kind_is_found() {
        assert_eq!(availability("jq"), Availability::BuiltIn);
        assert_eq!(availability("["), Availability::BuiltIn);
        assert_eq!(availability("python3"), Availability::Program);
        assert_eq!(availability("brew"), Availability::Installer);
        assert!(matches!(availability("docker"), Availability::Never(..)));
        assert_eq!(availability("a-tool-of-nobody"), Availability::Unknown);
    }
}

//! Commands that are never available, and why: no permission would change that.

/// Returns why a command is never available, or `None` if it might be.
pub(super) fn reason(command: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next().unwrap_or(command);
    UNAVAILABLE.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
}

const NATIVE: &str = "native programs cannot run in the sandbox";

/// Grouped by the reason.
const UNAVAILABLE: &[(&[&str], &str)] = &[
    (
        &[
            "perl", "ruby", "php", "java", "javac", "go", "cargo", "rustc", "Rscript", "lua",
            "swift", "dotnet",
        ],
        "the sandbox has no runtime for its language",
    ),
    (
        &["gcc", "g++", "cc", "c++", "clang", "make", "cmake", "ld"],
        "the sandbox has no compiler, and cannot run native code",
    ),
    (
        &[
            "ffmpeg",
            "ffprobe",
            "magick",
            "convert",
            "identify",
            "sox",
            "exiftool",
            "gs",
            "tesseract",
            "yt-dlp",
        ],
        NATIVE,
    ),
    (
        &[
            "soffice",
            "libreoffice",
            "pandoc",
            "pdflatex",
            "xelatex",
            "latex",
            "pdftotext",
            "pdftoppm",
            "qpdf",
            "wkhtmltopdf",
            "dot",
        ],
        NATIVE,
    ),
    (
        &["chromium", "google-chrome", "chrome", "firefox", "playwright", "chromedriver"],
        "the sandbox has no browser",
    ),
    (
        &["docker", "podman", "kubectl", "helm", "minikube"],
        "the sandbox has no containers, and no access to container hosts",
    ),
    (
        &["gh", "glab", "aws", "gcloud", "az", "terraform", "vercel", "heroku"],
        "it is the native client of a service; use the service's HTTP API, which a `WebFetch` entry can grant",
    ),
    (&["psql", "mysql", "redis-cli", "mongosh"], "the sandbox has no sockets"),
    (
        &["ssh", "scp", "sftp", "rsync", "nc", "telnet", "ping", "dig", "nslookup"],
        "the sandbox has no sockets",
    ),
    (
        &["osascript", "open", "pbcopy", "pbpaste", "say", "defaults", "security", "launchctl"],
        "it belongs to macOS, and the sandbox has no access to the desktop",
    ),
    (
        &["xdg-open", "notify-send", "xclip", "xsel", "wl-copy"],
        "the sandbox has no access to the desktop",
    ),
    (&["tmux", "screen", "script", "expect"], "the sandbox cannot create terminals"),
    (&["sudo", "su", "doas"], "the sandbox has a single user, without privileges"),
    (
        &["systemctl", "service", "crontab", "at", "mount", "umount", "kill", "killall", "pkill"],
        "the sandbox has no access to the host's processes and services",
    ),
    (
        &["apt", "apt-get", "dnf", "yum", "apk", "brew", "conda", "mamba"],
        "nothing can be installed into the sandbox",
    ),
    (&["claude", "codex", "gemini", "aider"], "agents cannot be started from the sandbox"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_reason() {
        let mut all: Vec<_> = UNAVAILABLE.iter().flat_map(|(names, _)| names.iter()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn paths_are_matched_by_file_name() {
        assert!(reason("/usr/bin/ffmpeg").is_some());
        assert_eq!(reason("python3"), None);
    }
}

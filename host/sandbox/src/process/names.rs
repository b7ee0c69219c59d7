//! Commands that are never here, and why: so that nobody looks for a permission that would change
//! nothing.

/// Why a command that scripts call is never here; `None` where it might be.
pub(super) fn never(command: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next().unwrap_or(command);
    NEVER.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
}

const NATIVE: &str = "it is a native program, and nothing native runs here";

/// By what a script could do instead.
const NEVER: &[(&[&str], &str)] = &[
    (
        &["node", "nodejs", "npm", "npx", "yarn", "pnpm", "bun", "deno", "tsx", "ts-node"],
        "there is no JavaScript runtime here",
    ),
    (
        &[
            "perl", "ruby", "php", "java", "javac", "go", "cargo", "rustc", "Rscript", "lua",
            "swift", "dotnet",
        ],
        "there is no runtime for its language here",
    ),
    (
        &["gcc", "g++", "cc", "c++", "clang", "make", "cmake", "ld"],
        "there is no compiler here; what is compiled would be native, and not run",
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
        "there is no browser here",
    ),
    (
        &["docker", "podman", "kubectl", "helm", "minikube"],
        "there are no containers here, and no way to their hosts",
    ),
    (
        &["gh", "glab", "aws", "gcloud", "az", "terraform", "vercel", "heroku"],
        "it is a native client of a service; its HTTP interface can be asked where `WebFetch` allows",
    ),
    (&["psql", "mysql", "redis-cli", "mongosh"], "there are no sockets here"),
    (
        &["ssh", "scp", "sftp", "rsync", "nc", "telnet", "ping", "dig", "nslookup"],
        "there are no sockets here",
    ),
    (
        &["osascript", "open", "pbcopy", "pbpaste", "say", "defaults", "security", "launchctl"],
        "it belongs to macOS, and the desktop is out of reach",
    ),
    (&["xdg-open", "notify-send", "xclip", "xsel", "wl-copy"], "the desktop is out of reach"),
    (&["tmux", "screen", "script", "expect"], "there are no terminals to make here"),
    (&["sudo", "su", "doas"], "there is one user here, who gains nothing by being another"),
    (
        &["systemctl", "service", "crontab", "at", "mount", "umount", "kill", "killall", "pkill"],
        "the host's processes and services are out of reach",
    ),
    (
        &["apt", "apt-get", "dnf", "yum", "apk", "brew", "conda", "mamba"],
        "nothing can be installed into the sandbox",
    ),
    (&["claude", "codex", "gemini", "aider"], "agents are not started from here"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_two_reasons() {
        let mut all: Vec<_> = NEVER.iter().flat_map(|(names, _)| names.iter()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_path_means_its_name() {
        assert!(never("/usr/bin/ffmpeg").is_some());
        assert_eq!(never("python3"), None);
    }
}

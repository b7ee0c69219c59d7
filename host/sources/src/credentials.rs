//! Credentials from the operator's configuration: that of Docker for registries, that of Git for
//! repositories over HTTPS. Nothing that is fetched is read for them.

use std::fmt;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::bounded::read_text;
use crate::error::SourceError;
use crate::programs::Programs;

/// The most bytes of a configuration file.
const MAX: u64 = 1 << 20;

/// What a server requires credentials for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login<'a> {
    /// A registry, by its host and port.
    Registry(&'a str),
    /// A Git repository, by its URL.
    Git(&'a str),
}

/// A user and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user. `<token>` if the secret is an identity token of a registry.
    pub user: String,
    /// The password or token.
    pub secret: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credential {
    /// Returns the value of `Authorization` for the scheme `Basic`.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", self.user, self.secret)))
    }
}

/// Finds the credentials for a registry in a Docker configuration.
///
/// # Errors
/// The file is not valid, or a helper is not installed.
pub fn docker(
    config: &Path,
    host: &str,
    programs: &Programs,
) -> Result<Option<Credential>, SourceError> {
    let Some(text) = read(config)? else { return Ok(None) };
    let invalid = |why: &str| {
        let message = format!("{} is not valid: {why}", config.display());
        SourceError::request(message, "docker login")
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| invalid(&error.to_string()))?;
    // The configuration knows Docker's own registry by an old URL.
    let names = match host {
        "registry-1.docker.io" => {
            ["https://index.docker.io/v1/".to_owned(), "docker.io".to_owned()]
        }
        host => [host.to_owned(), format!("https://{host}")],
    };
    let helper = names
        .iter()
        .find_map(|name| value["credHelpers"][name].as_str())
        .or_else(|| value["credsStore"].as_str().filter(|name| !name.is_empty()));
    if let Some(helper) = helper {
        let program = format!("docker-credential-{helper}");
        for name in &names {
            let Some(answer) = programs.ask(&program, &["get"], name.as_bytes())? else { continue };
            let answer: Value = serde_json::from_slice(&answer)
                .map_err(|_| invalid(&format!("`{program}` did not return JSON")))?;
            if let (Some(user), Some(secret)) =
                (answer["Username"].as_str(), answer["Secret"].as_str())
            {
                return Ok(Some(Credential { user: user.to_owned(), secret: secret.to_owned() }));
            }
        }
    }
    let Some(entry) = names.iter().find_map(|name| value["auths"].get(name)) else {
        return Ok(None);
    };
    if let Some(token) = entry["identitytoken"].as_str() {
        return Ok(Some(Credential { user: "<token>".to_owned(), secret: token.to_owned() }));
    }
    let Some(auth) = entry["auth"].as_str().filter(|auth| !auth.is_empty()) else {
        return Ok(None);
    };
    let decoded = BASE64_STANDARD.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|text| text.split_once(':')) {
        Some((user, secret)) => {
            Ok(Some(Credential { user: user.to_owned(), secret: secret.to_owned() }))
        }
        None => Err(invalid(&format!("`auth` of {host}"))),
    }
}

/// Finds the credentials for a repository with the helpers that Git's configuration files name.
/// `configs`: the files, the most general first.
///
/// # Errors
/// A file cannot be read, or a helper is not installed.
pub fn git(
    configs: &[&Path],
    url: &str,
    programs: &Programs,
) -> Result<Option<Credential>, SourceError> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut helpers: Vec<String> = Vec::new();
    let mut with_path = false;
    for config in configs {
        let Some(text) = read(config)? else { continue };
        for (key, value) in settings(&text, url) {
            match key.as_str() {
                // An empty value removes those of more general files.
                "helper" if value.is_empty() => helpers.clear(),
                "helper" => helpers.push(value),
                "usehttppath" => {
                    with_path = matches!(value.as_str(), "" | "true" | "yes" | "on" | "1")
                }
                _ => {}
            }
        }
    }
    let path = if with_path { format!("path={path}\n") } else { String::new() };
    let request = format!("protocol={scheme}\nhost={host}\n{path}\n");
    for helper in &helpers {
        let mut words = helper.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
        if !name.chars().all(is_plain) {
            // `!COMMAND` is run by a shell, and a path may be anywhere.
            tracing::warn!(helper, "this credential helper of Git is not used: it is not a name");
            continue;
        }
        let args: Vec<&str> = words.chain(["get"]).collect();
        let program = format!("git-credential-{name}");
        let answer = programs.ask(&program, &args, request.as_bytes())?.unwrap_or_default();
        let answer = String::from_utf8(answer).map_err(|_| {
            let why = format!("`{program}` did not return UTF-8, so its credentials are not used");
            SourceError::request(why, "store the credentials again, without other characters")
        })?;
        let field =
            |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        if let (Some(user), Some(secret)) = (field("username"), field("password")) {
            return Ok(Some(Credential { user: user.to_owned(), secret: secret.to_owned() }));
        }
    }
    Ok(None)
}

/// Returns the settings of the sections `[credential]` and `[credential "URL"]` that apply to a URL,
/// with keys in lower case. Other files that the file includes are not read.
fn settings(text: &str, url: &str) -> Vec<(String, String)> {
    let (mut found, mut applies) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            let (name, pattern) = match section.split_once(char::is_whitespace) {
                Some((name, pattern)) => (name, Some(pattern.trim().trim_matches('"'))),
                None => (section, None),
            };
            applies = name.eq_ignore_ascii_case("credential")
                && pattern.is_none_or(|pattern| matches(pattern, url));
            continue;
        }
        if !applies || line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let value = value.trim().trim_matches('"');
        found.push((key.trim().to_ascii_lowercase(), value.to_owned()));
    }
    found
}

/// Checks whether the URL of a section is that of a repository, or of its server or a folder there.
fn matches(pattern: &str, url: &str) -> bool {
    let pattern = pattern.trim_end_matches('/');
    url.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads a file of the operator. `None` if it does not exist, or is for another user.
fn read(path: &Path) -> Result<Option<String>, SourceError> {
    let fail = |error: io::Error| SourceError::io(format!("read {}", path.display()), error);
    match read_text(path, MAX) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        text => text.map_err(fail),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests write configuration files")]

    use super::*;
    use crate::programs::tests::programs;

    fn pair(found: Result<Option<Credential>, SourceError>) -> Option<(String, String)> {
        found.unwrap().map(|found| (found.user, found.secret))
    }

    #[test]
    fn credentials_of_registries_are_those_of_docker() {
        let helper = "read host; [ \"$1 $host\" = 'get ghcr.io' ] || exit 1
            echo '{\"ServerURL\": \"x\", \"Username\": \"h\", \"Secret\": \"s\"}'";
        let (folder, programs) = programs(&[("docker-credential-test", helper)]);
        let config = folder.path().join("config.json");
        let find = |host: &str| docker(&config, host, &programs);
        assert_eq!(find("localhost:5000").unwrap(), None, "there is no configuration");
        let text = r#"{
            "auths": {
                "localhost:5000": { "auth": "dTpwOnc=" },
                "https://index.docker.io/v1/": { "auth": "ZDpw" },
                "token.io": { "auth": "", "identitytoken": "t" },
                "broken.io": { "auth": "?" }
            },
            "credHelpers": { "ghcr.io": "test", "evil.io": "../../x" }
        }"#;
        std::fs::write(&config, text).unwrap();
        let pair = |host: &str| pair(find(host));
        let expected = |user: &str, secret: &str| Some((user.to_owned(), secret.to_owned()));
        assert_eq!(pair("localhost:5000"), expected("u", "p:w"));
        assert_eq!(pair("registry-1.docker.io"), expected("d", "p"));
        assert_eq!(pair("token.io"), expected("<token>", "t"));
        assert_eq!(pair("ghcr.io"), expected("h", "s"));
        assert_eq!(pair("other.io"), None);
        assert!(find("broken.io").is_err() && find("evil.io").is_err());
        std::fs::write(&config, "{").unwrap();
        assert!(find("other.io").is_err());
    }

    #[test]
    fn credentials_of_repositories_are_those_of_the_helpers_of_git() {
        let helper = "request=$(cat); [ \"$*\" = '--file x get' ] || exit 1
            case $request in *host=git.example*) echo username=u; echo password=p=w;; esac";
        let binary = r"printf 'username=u\npassword=\377\n'";
        let (folder, programs) =
            programs(&[("git-credential-test", helper), ("git-credential-binary", binary)]);
        let config = folder.path().join("gitconfig");
        let general = folder.path().join("general");
        std::fs::write(&general, "[credential]\n\thelper = missing\n").unwrap();
        let find = |text: &str, url: &str| {
            std::fs::write(&config, text).unwrap();
            git(&[&general, &config], url, &programs)
        };
        let reset = "[user]\n\tname = x\n[credential]\n\thelper =\n\thelper = \"test --file x\"\n";
        let expected = Some(("u".to_owned(), "p=w".to_owned()));
        assert_eq!(pair(find(reset, "https://git.example/r")), expected);
        assert_eq!(pair(find(reset, "https://other.example/r")), None);
        assert!(find("", "https://git.example/r").is_err(), "the helper is not installed");
        let scoped =
            "[credential]\nhelper=\n[credential \"https://git.example\"]\nhelper = test --file x\n";
        assert_eq!(pair(find(scoped, "https://git.example/r")), expected);
        assert_eq!(pair(find(scoped, "https://git.example.org/r")), None);
        let binary = "[credential]\nhelper=\nhelper = binary\n";
        let error = find(binary, "https://git.example/r").unwrap_err().to_string();
        assert!(error.contains("`git-credential-binary` did not return UTF-8"), "{error}");
        let shell = "[credential]\nhelper=\nhelper = \"!echo username=x; echo password=x\"\nhelper = /bin/sh\n";
        assert_eq!(pair(find(shell, "https://git.example/r")), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        let credential = Credential { user: "u".into(), secret: "hidden".into() };
        assert!(!format!("{credential:?}").contains("hidden"));
    }
}

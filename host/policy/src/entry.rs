//! Parses entries of `allowed-tools` and of a policy's `allow` and `deny`: `Name` or
//! `Name(argument)`.
//!
//! An entry that the sandbox cannot enforce exactly is not granted. The result says why.

use std::net::IpAddr;

use super::client_tools::{self, Meaning};
use super::pattern::{CommandPattern, EVERY_PORT, HostName, HostPattern, PathGlob};
use super::printable;
use super::program_name::{canonical_name, installed_name, is_shell_keyword, script_interpreter};

/// The meaning of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Read these guest paths.
    Read(PathGlob),
    /// Read and write these guest paths.
    Write(PathGlob),
    /// Start these programs.
    Bash(CommandPattern),
    /// Send requests to these hosts.
    WebFetch(HostPattern),
    /// Nothing: the entry cannot be granted.
    NotGrantable {
        /// Why not, as the end of a sentence.
        why: String,
        /// What to write instead.
        fix: Option<String>,
    },
}

/// The list that contains an entry. An ambiguous entry means whatever grants less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryList {
    /// A skill's `allowed-tools`: requests, limited by what the operator allows.
    AllowedTools,
    /// A policy's `allow`.
    Allow,
    /// A policy's `deny`.
    Deny,
}

const READ: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];
const WRITE: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// Parses one entry.
pub fn parse(text: &str, side: EntryList) -> Permission {
    let text = text.trim();
    // Entries are printed in terminals, and in lines that an operator may paste.
    if printable(text) != text {
        return refuse("it contains invisible characters", None);
    }
    let (name, argument) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (name, Some(argument.trim())),
            None => return refuse("the closing parenthesis is missing", Some(format!("{text})"))),
        },
    };
    if argument == Some("") {
        return refuse("the parentheses are empty", Some(name.to_owned()));
    }
    match name {
        _ if READ.contains(&name) => path(name, argument).map_or_else(|why| why, Permission::Read),
        _ if WRITE.contains(&name) => {
            path(name, argument).map_or_else(|why| why, Permission::Write)
        }
        "Bash" if side == EntryList::Deny => {
            denied_command(argument).map_or_else(|why| why, Permission::Bash)
        }
        "Bash" => command(argument).map_or_else(|why| why, Permission::Bash),
        "WebFetch" => host(argument, side).map_or_else(|why| why, Permission::WebFetch),
        _ => unknown(name, argument),
    }
}

/// Parses one entry of a skill's `disallowed-tools`. An entry that cannot be enforced exactly
/// denies the whole tool that it names, also by another client's name. An entry for an unknown tool
/// denies nothing, because nothing grants such a tool.
pub(crate) fn parse_denial(text: &str) -> Permission {
    let name = name_of(text);
    let named = near(name).or_else(|| client_tools::find(name)?.meaning.own_name());
    match (parse(text, EntryList::Deny), named) {
        (Permission::NotGrantable { .. }, Some(known)) => parse(known, EntryList::Deny),
        (tool, _) => tool,
    }
}

/// Returns what an entry of `allowed-tools` requests by another client's name for a tool. `None` if
/// the name is ours, unknown, or has an argument.
pub fn parse_client_name(text: &str) -> Option<Permission> {
    client_tools::find(text.trim())?.meaning.permission()
}

/// Returns the tool that the name in an entry probably means, if it is neither ours nor another
/// client's.
pub(crate) fn misspelt(text: &str) -> Option<&'static str> {
    let name = name_of(text);
    let known = near(name)?;
    (name != known && client_tools::find(name).is_none()).then_some(known)
}

/// Checks whether an entry is about files, even if it is misspelt or cannot be granted. Only without
/// such an entry does `Bash` imply access to files.
pub fn names_paths(text: &str) -> bool {
    near(name_of(text)).is_some_and(|known| READ.contains(&known) || WRITE.contains(&known))
}

fn name_of(text: &str) -> &str {
    text.split('(').next().unwrap_or(text).trim()
}

fn refuse(why: impl Into<String>, fix: Option<String>) -> Permission {
    Permission::NotGrantable { why: why.into(), fix }
}

fn unknown(name: &str, argument: Option<&str>) -> Permission {
    if let Some(refusal) = client_name(name, argument) {
        return refusal;
    }
    match near(name) {
        Some(known) => {
            let fix = with_argument(known, argument);
            refuse(format!("unknown tool; did you mean `{known}`?"), Some(fix))
        }
        None => refuse("only Read, Write, Bash and WebFetch entries can be enforced", None),
    }
}

fn with_argument(name: &str, argument: Option<&str>) -> String {
    argument.map_or(name.to_owned(), |argument| format!("{name}({argument})"))
}

/// Says what another client's name means, and what to write instead.
fn client_name(name: &str, argument: Option<&str>) -> Option<Permission> {
    let tool = client_tools::find(name)?;
    let Some(client) = tool.client else {
        return Some(refuse(
            "clients use this name for different tools",
            near(name).map(|own| with_argument(own, argument)),
        ));
    };
    Some(match (tool.meaning.own_name(), tool.meaning) {
        (Some(own), _) => {
            let fix = with_argument(own, argument);
            refuse(format!("{client} calls `{own}` by this name"), Some(fix))
        }
        (None, Meaning::WebSearch) => refuse(
            "no rule can enforce which hosts a search engine reaches; name the hosts instead",
            Some("WebFetch(domain:HOST)".into()),
        ),
        (None, _) => refuse(
            format!("it is a tool of the client ({client}); no program in the sandbox can use it"),
            None,
        ),
    })
}

/// Returns the tool that a misspelt name probably means. One edit for every four letters: `bash`
/// and `WebFetsh` match, but `Task` does not match `Bash`.
fn near(name: &str) -> Option<&'static str> {
    let distance =
        |known: &str| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase());
    let known = READ
        .into_iter()
        .chain(WRITE)
        .chain(["Bash", "WebFetch"])
        .min_by_key(|known| distance(known))?;
    (distance(known) <= known.len() / 4).then_some(known)
}

/// Converts a path argument to an absolute guest glob.
fn path(name: &str, argument: Option<&str>) -> Result<PathGlob, Permission> {
    let Some(argument) = argument else { return Ok(PathGlob::everything()) };
    let skill = [
        "{baseDir}",
        "${CLAUDE_SKILL_DIR}",
        "$CLAUDE_SKILL_DIR",
        "${CLAUDE_PLUGIN_ROOT}",
        "$CLAUDE_PLUGIN_ROOT",
    ];
    let in_skill = skill
        .into_iter()
        .find_map(|v| argument.strip_prefix(v))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let absolute = match in_skill {
        Some(rest) => format!("/skill{rest}"),
        None if argument.starts_with('~') => {
            return Err(refuse(
                "guests see no home folder",
                Some(format!("{name}(/workspace/**)")),
            ));
        }
        None if argument.contains('$') => {
            return Err(refuse("variables in paths are not expanded", None));
        }
        None if argument.starts_with('!') => {
            return Err(refuse(
                "globs cannot be negated; use the policy's `deny` to exclude paths",
                None,
            ));
        }
        None if argument.starts_with('/') => argument.to_owned(),
        None => format!("/workspace/{argument}"),
    };
    PathGlob::new(&absolute).map_err(|why| refuse(why, None))
}

/// Characters that a shell interprets. A program's arguments no longer contain them, so a pattern
/// over arguments cannot enforce an entry that uses them.
pub const SHELL_CHARACTERS: &str = "|&;<>()$`\"'\\*?[]{}";

fn command(argument: Option<&str>) -> Result<CommandPattern, Permission> {
    let Some(argument) = argument else { return Ok(CommandPattern::any()) };
    if argument == "*" {
        return Ok(CommandPattern::any());
    }
    let (words, open) = match argument.strip_suffix(":*").or_else(|| argument.strip_suffix(" *")) {
        Some(words) => (words, true),
        None => (argument, false),
    };
    if words.trim().is_empty() {
        return Err(refuse("it does not name a program", Some("Bash".into())));
    }
    if words.trim_end().ends_with(":*") || words.contains(['*', '?']) {
        return Err(refuse(
            "a wildcard can only be at the end of a command (`git:*`, `git commit *`); others cannot be enforced exactly",
            None,
        ));
    }
    if let Some(c) = words.chars().find(|c| SHELL_CHARACTERS.contains(*c)) {
        return Err(refuse(
            format!("`{c}` is shell syntax, which cannot be enforced exactly"),
            None,
        ));
    }
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    if words.iter().any(|w| w.starts_with(['~', '#'])) {
        return Err(refuse("`~` and `#` are shell syntax, which cannot be enforced exactly", None));
    }
    if words[0].contains('=') {
        return Err(refuse("it sets a variable before the program's name", None));
    }
    Ok(CommandPattern { words, open })
}

/// Parses a denied command. A denial names a program, and applies to all its names and arguments.
/// Refuses denials that another spelling of the command would bypass.
fn denied_command(argument: Option<&str>) -> Result<CommandPattern, Permission> {
    let pattern = command(argument)?;
    let Some((program, arguments)) = pattern.words.split_first() else { return Ok(pattern) };
    let instead = |name: &str| Some(format!("Bash({name}:*)"));
    let name = installed_name(program).unwrap_or(program);
    if let Some(interpreter) = script_interpreter(name) {
        let why = "a script also runs under other paths, and as an argument of its interpreter; deny the interpreter instead";
        return Err(refuse(why, instead(interpreter)));
    }
    if name.contains('/') {
        return Err(refuse(
            "a file also runs under other paths; deny a program by its name instead",
            None,
        ));
    }
    if is_shell_keyword(name) {
        return Err(refuse(format!("`{name}` is a shell keyword, not a program"), None));
    }
    if matches!(name, "pip" | "pip3") {
        let why =
            format!("`{name}` is a Python module, which `python3 -m pip` and scripts can run too");
        return Err(refuse(why, instead("python3")));
    }
    if !arguments.is_empty() {
        let why = "other spellings of the arguments would bypass it; deny the whole program, or allow only some of its \
                   commands";
        return Err(refuse(why, instead(name)));
    }
    Ok(CommandPattern { words: vec![canonical_name(name).to_owned()], open: true })
}

fn host(argument: Option<&str>, side: EntryList) -> Result<HostPattern, Permission> {
    // A denial applies to every scheme, port and address of the host. An operator's `allow` means
    // public hosts over HTTPS.
    let generous = side != EntryList::Allow;
    let Some(argument) = argument else {
        return Ok(HostPattern {
            host: HostName::Any,
            port: None,
            plain: generous,
            private: generous,
        });
    };
    let (plain, authority) = if let Some(rest) = argument.strip_prefix("domain:") {
        (false, rest)
    } else if let Some(rest) = argument.strip_prefix("https://") {
        (false, rest.strip_suffix('/').unwrap_or(rest))
    } else if let Some(rest) = argument.strip_prefix("http://") {
        (true, rest.strip_suffix('/').unwrap_or(rest))
    } else {
        return Err(refuse(
            "the argument does not name a domain",
            Some(format!("WebFetch(domain:{argument})")),
        ));
    };
    let (name, port) = split_port(authority)?;
    let (host, literal) = host_name(name)?;
    let port = port.or((side == EntryList::Deny).then_some(EVERY_PORT));
    Ok(HostPattern {
        host,
        port,
        plain: plain || side == EntryList::Deny,
        private: generous || literal,
    })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Permission> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, rest)) if rest.starts_with(':') => (name, Some(&rest[1..])),
            _ => {
                return Err(refuse(
                    "write an IPv6 address in brackets: `[::1]` or `[::1]:8080`",
                    None,
                ));
            }
        },
        None if authority.matches(':').count() > 1 => {
            return Err(refuse("write an IPv6 address in brackets: `[::1]` or `[::1]:8080`", None));
        }
        None => {
            authority.split_once(':').map_or((authority, None), |(name, port)| (name, Some(port)))
        }
    };
    if authority.starts_with('[') && name.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(refuse(format!("`{}` is not an IPv6 address", name.escape_default()), None));
    }
    match port {
        None => Ok((name, None)),
        Some(text) => match text.parse::<u16>() {
            Ok(port) if port != EVERY_PORT && text.bytes().all(|b| b.is_ascii_digit()) => {
                Ok((name, Some(port)))
            }
            _ => Err(refuse(
                format!("`{}` is not a port between 1 and 65535", text.escape_default()),
                None,
            )),
        },
    }
}

/// Parses a host. The second value tells whether it is a literal address or `localhost`.
fn host_name(name: &str) -> Result<(HostName, bool), Permission> {
    if name == "*" {
        return Ok((HostName::Any, false));
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok((HostName::Exact(address.to_canonical().to_string()), true));
    }
    if !name.is_ascii() {
        return Err(refuse("write a non-ASCII host in its punycode form, `xn--...`", None));
    }
    let lower = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let (below, labels) =
        lower.strip_prefix("*.").map_or((false, lower.as_str()), |rest| (true, rest));
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    // URL parsers read a host with a numeric last label as an IPv4 address, even in unusual forms
    // such as 127.1 and 0x7f.1.
    let last = labels.rsplit('.').next().unwrap_or(labels);
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if labels.contains('*') {
        return Err(refuse(
            "a wildcard can only stand for whole names before a domain: `*.example.com`",
            None,
        ));
    }
    if labels.len() > 253 || !labels.split('.').all(label) || numeric {
        return Err(refuse(format!("`{}` is not a host name", name.escape_default()), None));
    }
    let host =
        if below { HostName::Below(labels.to_owned()) } else { HostName::Exact(labels.to_owned()) };
    Ok((host, !below && labels == "localhost"))
}

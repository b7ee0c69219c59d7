//! One entry of `allowed-tools`, or of a policy's `allow` and `deny`, understood: `Name` or
//! `Name(argument)`.
//!
//! What cannot be enforced exactly is not granted, and says why.

use std::net::IpAddr;

use super::printable;
use super::program_name::{canonical, installed_name, is_shell_keyword, script_interpreter};
use super::tool::{CommandPattern, EVERY_PORT, HostName, HostPattern, PathGlob};

/// What an entry means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// Reading these guest paths.
    Read(PathGlob),
    /// Reading and writing these guest paths.
    Write(PathGlob),
    /// Starting these programs.
    Bash(CommandPattern),
    /// Asking these hosts.
    WebFetch(HostPattern),
    /// Nothing that can be granted here.
    NotGrantable {
        /// Why, as the end of a sentence.
        why: String,
        /// What to write in its place.
        fix: Option<String>,
    },
}

/// Who speaks: what an entry leaves open is read in favour of the narrower grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A skill's `allowed-tools`: asks, and is held to what the operator allows.
    Asked,
    /// A policy's `allow`.
    Allow,
    /// A policy's `deny`.
    Deny,
}

const READ: [&str; 5] = ["Read", "Glob", "Grep", "LS", "NotebookRead"];
const WRITE: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// Understands one entry.
pub fn parse(text: &str, side: Side) -> Tool {
    let text = text.trim();
    // Entries end up in terminals and in lines that an operator may paste.
    if printable(text) != text {
        return refuse("it holds characters that cannot be seen", None);
    }
    let (name, argument) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(argument) => (name, Some(argument.trim())),
            None => return refuse("it has no closing parenthesis", Some(format!("{text})"))),
        },
    };
    if argument == Some("") {
        return refuse("its parentheses are empty", Some(name.to_owned()));
    }
    match name {
        _ if READ.contains(&name) => path(name, argument).map_or_else(|why| why, Tool::Read),
        _ if WRITE.contains(&name) => path(name, argument).map_or_else(|why| why, Tool::Write),
        "Bash" if side == Side::Deny => denied_command(argument).map_or_else(|why| why, Tool::Bash),
        "Bash" => command(argument).map_or_else(|why| why, Tool::Bash),
        "WebFetch" => host(argument, side).map_or_else(|why| why, Tool::WebFetch),
        _ => unknown(name, argument),
    }
}

/// Understands one entry of a skill's `disallowed-tools`. One that cannot be enforced exactly
/// denies all of the tool that it names; what names no tool of this host denies what nothing
/// grants.
pub(crate) fn parse_denial(text: &str) -> Tool {
    let name = text.split('(').next().unwrap_or(text).trim();
    match (parse(text, Side::Deny), near(name)) {
        (Tool::NotGrantable { .. }, Some(known)) => parse(known, Side::Deny),
        (tool, _) => tool,
    }
}

/// Whether an entry is about files, even one that cannot be granted or is misspelt: `Bash` beside
/// it does not stand alone.
pub fn names_paths(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or(text).trim();
    near(name).is_some_and(|known| READ.contains(&known) || WRITE.contains(&known))
}

fn refuse(why: impl Into<String>, fix: Option<String>) -> Tool {
    Tool::NotGrantable { why: why.into(), fix }
}

fn unknown(name: &str, argument: Option<&str>) -> Tool {
    match near(name) {
        Some(known) => {
            let fix = argument.map_or(known.to_owned(), |a| format!("{known}({a})"));
            refuse(format!("there is no tool of that name; did you mean `{known}`?"), Some(fix))
        }
        None => refuse(
            "nothing here can grant it: only Read, Write, Bash and WebFetch entries can be enforced",
            None,
        ),
    }
}

/// The tool whose name was probably meant. One slip for every four letters: `bash` and `WebFetsh`,
/// but not `Task` for `Bash`.
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

/// A path argument becomes an absolute guest glob.
fn path(name: &str, argument: Option<&str>) -> Result<PathGlob, Tool> {
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
                "a glob cannot be negated; the policy's `deny` can take paths away",
                None,
            ));
        }
        None if argument.starts_with('/') => argument.to_owned(),
        None => format!("/workspace/{argument}"),
    };
    PathGlob::new(&absolute).map_err(|why| refuse(why, None))
}

/// What the shell would interpret. An argv holds none of it, so that no pattern over argv can
/// promise what such an entry says.
pub const SHELL: &str = "|&;<>()$`\"'\\*?[]{}";

fn command(argument: Option<&str>) -> Result<CommandPattern, Tool> {
    let Some(argument) = argument else { return Ok(CommandPattern::any()) };
    if argument == "*" {
        return Ok(CommandPattern::any());
    }
    let (words, open) = match argument.strip_suffix(":*").or_else(|| argument.strip_suffix(" *")) {
        Some(words) => (words, true),
        None => (argument, false),
    };
    if words.trim().is_empty() {
        return Err(refuse("it names no program", Some("Bash".into())));
    }
    if words.trim_end().ends_with(":*") || words.contains(['*', '?']) {
        return Err(refuse(
            "a wildcard may only end a command (`git:*`, `git commit *`): others cannot be enforced exactly",
            None,
        ));
    }
    if let Some(c) = words.chars().find(|c| SHELL.contains(*c)) {
        return Err(refuse(
            format!("`{c}` is for the shell to interpret, and cannot be enforced exactly"),
            None,
        ));
    }
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    if words.iter().any(|w| w.starts_with(['~', '#'])) {
        return Err(refuse(
            "`~` and `#` are for the shell to interpret, and cannot be enforced exactly",
            None,
        ));
    }
    if words[0].contains('=') {
        return Err(refuse("it sets a variable before it names a program", None));
    }
    Ok(CommandPattern { words, open })
}

/// A denial names a program, all of whose names and arguments it stops. What another spelling would
/// pass is no denial.
fn denied_command(argument: Option<&str>) -> Result<CommandPattern, Tool> {
    let pattern = command(argument)?;
    let Some((program, arguments)) = pattern.words.split_first() else { return Ok(pattern) };
    let instead = |name: &str| Some(format!("Bash({name}:*)"));
    let name = installed_name(program).unwrap_or(program);
    if let Some(interpreter) = script_interpreter(name) {
        let why = "a script runs under other paths too, and as an argument of its interpreter; only the interpreter can be denied";
        return Err(refuse(why, instead(interpreter)));
    }
    if name.contains('/') {
        return Err(refuse(
            "a path names a file, which runs under other paths too; only the name of a program can be denied",
            None,
        ));
    }
    if is_shell_keyword(name) {
        return Err(refuse(
            format!("`{name}` is a word of the shell's language, and no program"),
            None,
        ));
    }
    if matches!(name, "pip" | "pip3") {
        let why = format!(
            "`{name}` is a module of Python, which `python3 -m pip` and a script run as well"
        );
        return Err(refuse(why, instead("python3")));
    }
    if !arguments.is_empty() {
        let why = "a denial with arguments is passed by other spellings of them; the program can be denied, or only certain commands of it \
                   allowed";
        return Err(refuse(why, instead(name)));
    }
    Ok(CommandPattern { words: vec![canonical(name).to_owned()], open: true })
}

fn host(argument: Option<&str>, side: Side) -> Result<HostPattern, Tool> {
    // A denial means the host whatever the scheme, port or address; an operator's `allow` means
    // public hosts over HTTPS.
    let generous = side != Side::Allow;
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
            "its argument names no domain",
            Some(format!("WebFetch(domain:{argument})")),
        ));
    };
    let (name, port) = split_port(authority)?;
    let (host, literal) = host_name(name)?;
    let port = port.or((side == Side::Deny).then_some(EVERY_PORT));
    Ok(HostPattern { host, port, plain: plain || side == Side::Deny, private: generous || literal })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Tool> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, rest)) if rest.starts_with(':') => (name, Some(&rest[1..])),
            _ => {
                return Err(refuse(
                    "an IPv6 address is written in brackets: `[::1]` or `[::1]:8080`",
                    None,
                ));
            }
        },
        None if authority.matches(':').count() > 1 => {
            return Err(refuse(
                "an IPv6 address is written in brackets: `[::1]` or `[::1]:8080`",
                None,
            ));
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

/// The host, and whether it is one literal address or `localhost`.
fn host_name(name: &str) -> Result<(HostName, bool), Tool> {
    if name == "*" {
        return Ok((HostName::Any, false));
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok((HostName::Exact(address.to_canonical().to_string()), true));
    }
    if !name.is_ascii() {
        return Err(refuse(
            "a host outside ASCII is written in its punycode form, `xn--...`",
            None,
        ));
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
    // The URL standard reads a last label of digits as an IPv4 address, in forms that few would
    // recognise: 127.1, 0x7f.1.
    let last = labels.rsplit('.').next().unwrap_or(labels);
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if labels.contains('*') {
        return Err(refuse(
            "a wildcard may only stand for whole names before a domain: `*.example.com`",
            None,
        ));
    }
    if labels.len() > 253 || !labels.split('.').all(label) || numeric {
        return Err(refuse(format!("`{}` is not a host's name", name.escape_default()), None));
    }
    let host =
        if below { HostName::Below(labels.to_owned()) } else { HostName::Exact(labels.to_owned()) };
    Ok((host, !below && labels == "localhost"))
}

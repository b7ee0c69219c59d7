//! The dependencies that a skill declares: PEP 723 blocks, `requirements.txt`, `pyproject.toml`.

/// A distribution's name, the versions that are wanted, and its place in the text.
pub(super) type Declared = (String, String, usize);

/// Dependencies that are told of one file.
const MAX: usize = 200;

/// Those of a script's inline metadata (PEP 723): `# /// script`, lines of TOML behind `# `,
/// `# ///`.
pub(super) fn inline(text: &str) -> Vec<Declared> {
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        match start {
            None if trimmed == "# /// script" => start = Some(at + line.len()),
            Some(from) if trimmed == "# ///" => return dependencies(text, from, at),
            Some(_) if !line.starts_with('#') => return Vec::new(),
            _ => {}
        }
        at += line.len();
    }
    Vec::new()
}

/// Those of a `pyproject.toml`: `dependencies` of `[project]`.
pub(super) fn project(text: &str) -> Vec<Declared> {
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with('[') {
            if let Some(from) = start {
                return dependencies(text, from, at);
            }
            start = (line.trim_end() == "[project]").then_some(at + line.len());
        }
        at += line.len();
    }
    start.map(|from| dependencies(text, from, text.len())).unwrap_or_default()
}

/// Those of a `requirements.txt`: one a line; options, files and addresses are left out.
pub(super) fn requirements(text: &str) -> Vec<Declared> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        found.extend(requirement(line, at + indent));
        at += line.len();
    }
    found.truncate(MAX);
    found
}

/// The texts of the list `dependencies = [...]` in a stretch of TOML, whose lines may start with
/// `#`.
fn dependencies(text: &str, from: usize, to: usize) -> Vec<Declared> {
    let part = &text[from..to];
    let mut at = from;
    let mut open = false;
    let mut found = Vec::new();
    for line in part.split_inclusive('\n') {
        let content = line.trim_start_matches(['#', ' ', '\t']);
        let mut offset = at + line.len() - content.len();
        at += line.len();
        let mut rest = content;
        if !open {
            let Some(value) = content
                .strip_prefix("dependencies")
                .map(str::trim_start)
                .and_then(|v| v.strip_prefix('='))
            else {
                continue;
            };
            let Some(list) = value.trim_start().strip_prefix('[') else { continue };
            offset += content.len() - list.len();
            rest = list;
            open = true;
        }
        while let Some(next) = rest.find(['"', '\'', ']', '#']) {
            let quote = rest[next..].chars().next().unwrap_or(']');
            if quote == ']' || found.len() == MAX {
                return found;
            }
            if quote == '#' {
                break;
            }
            let inner = &rest[next + 1..];
            let Some(end) = inner.find(quote) else { break };
            found.extend(requirement(&inner[..end], offset + next + 1));
            offset += next + 1 + end + 1;
            rest = &inner[end + 1..];
        }
    }
    found
}

/// A requirement as PEP 508 writes it.
fn requirement(text: &str, at: usize) -> Option<Declared> {
    let text = text.trim();
    let name = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
        .map_or(text, |end| &text[..end]);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let rest = text[name.len()..].trim_start();
    let rest =
        rest.strip_prefix('[').and_then(|r| r.split_once(']')).map_or(rest, |(_, after)| after);
    // An address, or a file's name.
    if rest.starts_with(['@', ':', '/', '\\', '+']) {
        return None;
    }
    let versions = rest.split([';', '#']).next().unwrap_or(rest).trim().trim_matches(['(', ')']);
    Some((name.to_owned(), versions.split_whitespace().collect::<Vec<_>>().join(""), at))
}

/// Whether a version is one of those that are wanted. What is not understood is taken to be.
pub(super) fn fits(version: &str, wanted: &str) -> bool {
    let have = numbers(version);
    wanted.split(',').filter(|part| !part.is_empty()).all(|part| {
        let operator = &part[..part.find(|c: char| !"=<>!~".contains(c)).unwrap_or(part.len())];
        let operand = &part[operator.len()..];
        let any = operand.strip_suffix(".*");
        let want = numbers(any.unwrap_or(operand));
        if want.is_empty() {
            return true;
        }
        let starts = |prefix: &[u64]| {
            prefix.iter().zip(have.iter().chain(std::iter::repeat(&0))).all(|(a, b)| a == b)
        };
        let order = compare(&have, &want);
        match operator {
            "==" if any.is_some() => starts(&want),
            "==" | "===" => order.is_eq(),
            "!=" if any.is_some() => !starts(&want),
            "!=" => order.is_ne(),
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            "~=" => order.is_ge() && starts(&want[..want.len() - 1]),
            _ => true,
        }
    })
}

/// The release of a version: `2.32.3` of `2.32.3rc1`.
fn numbers(version: &str) -> Vec<u64> {
    let end = version.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(version.len());
    version[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

fn compare(a: &[u64], b: &[u64]) -> std::cmp::Ordering {
    let at = |v: &[u64], i: usize| v.get(i).copied().unwrap_or(0);
    (0..a.len().max(b.len()))
        .map(|i| at(a, i).cmp(&at(b, i)))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and versions; each name stands where it is said to.
    fn shown(read: impl Fn(&str) -> Vec<Declared>, text: &str) -> Vec<String> {
        let shown = read(text).into_iter().map(|(name, wanted, at)| {
            assert!(text[at..].starts_with(&name), "{name} at {at}");
            name + &wanted
        });
        shown.collect()
    }

    #[test]
    fn inline_metadata_is_read_as_pep_723_has_it() {
        let text = "#!/x\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests>=2, <3\", 'rich', # \"no\"\n#   \"a[b]; x\",\n# ]\n# ///\n";
        assert_eq!(shown(inline, text), ["requests>=2,<3", "rich", "a"]);
        assert_eq!(shown(inline, "# /// script\n# dependencies = [\"x\"]\n# ///"), ["x"]);
        assert!(inline("# /// script\n# dependencies = [\"x\"]\nimport y\n# ///\n").is_empty());
        assert!(inline("# /// script\n# dependencies = [\"x").is_empty());
    }

    #[test]
    fn projects_and_requirements_are_read_too() {
        let text = "[tool.x]\ndependencies = [\"no\"]\n[project]\nname = \"n\"\ndependencies = [\"a>=1\",\n  \"b\"]\n[project.scripts]\n";
        assert_eq!(shown(project, text), ["a>=1", "b"]);
        let text = "# c\n-r other.txt\n  numpy==1.2 # why\nPyYAML ~= 6.0 ; python_version > '3'\ngit+https://x\nfoo @ https://x\n./local\n";
        assert_eq!(shown(requirements, text), ["numpy==1.2", "PyYAML~=6.0"]);
    }

    #[test]
    fn versions_are_compared_by_their_release() {
        for (version, wanted, fit) in [
            ("2.32.3", ">=2,<3", true),
            ("2.32.3", "==2.32.3", true),
            ("2.32", "==2.32.0", true),
            ("2.32.3", "==2.*", true),
            ("2.32.3", "~=2.31", true),
            ("3.0", "~=2.31", false),
            ("2.32.3", "!=2.32.3", false),
            ("2.32.3", "<2", false),
            ("2.32.3", ">2.32.3", false),
            ("2.32.3", "", true),
            ("2.32.3", "odd", true),
            ("2.32.3", "~=2", true),
        ] {
            assert_eq!(fits(version, wanted), fit, "{version} {wanted}");
        }
    }
}

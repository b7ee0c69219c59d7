//! Decides on each entry of `allowed-tools`, and explains the decision: the rule, and what would
//! grant the entry.

use super::capabilities::Mount;
use super::entry::Permission;
use super::grant::{EntryDecision, Patterns, Verdict};
use super::pattern::{CommandPattern, EVERY_PORT, HostName, HostPattern, PathGlob};
use super::{Layer, Origin, Rule, WORKSPACE, mounts, printable, protected};
use crate::manifest::ToolEntry;

/// Judges entries of `allowed-tools`.
pub(super) struct Judge<'a> {
    pub(super) skill: &'a str,
    pub(super) layers: &'a [&'a Layer],
    pub(super) allowed: &'a Patterns<&'a Rule>,
    pub(super) denied: &'a Patterns<&'a Rule>,
    /// The granted mounts.
    pub(super) mounts: &'a [Mount],
    /// The guest paths that the operator mounts read-only, and the place of each mount rule.
    pub(super) read_only: &'a [(String, String)],
}

/// The result of comparing one pattern with the operator's rules.
struct Ruling {
    verdict: Verdict,
    rule: String,
    /// Whether a denial covers the whole pattern. Then no `allow` would help.
    denied: bool,
}

impl Judge<'_> {
    /// Decides on one entry. `alone` means that no entry is about files, so `Bash` requests files
    /// too.
    pub(super) fn entry(&self, entry: &ToolEntry, tool: &Permission, alone: bool) -> EntryDecision {
        let mut decision = EntryDecision {
            entry: printable(&entry.text),
            place: entry.span,
            verdict: Verdict::Refused,
            meaning: meaning(tool),
            rule: String::new(),
            fix: None,
        };
        match tool {
            Permission::NotGrantable { why, fix } => {
                decision.meaning = printable(why);
                decision.rule = "entries that cannot be enforced are not granted".into();
                decision.fix = fix.as_ref().map(|f| format!("in SKILL.md: {}", printable(f)));
            }
            Permission::Read(glob) | Permission::Write(glob)
                if self.own_folder(tool, glob, &mut decision) => {}
            Permission::Read(glob) => {
                self.settle(&mut decision, self.read(glob), &entry.text);
                self.check_mounts(&mut decision, glob, false);
            }
            Permission::Write(glob) => {
                self.settle_write(&mut decision, glob, &entry.text);
                self.check_mounts(&mut decision, glob, true);
            }
            Permission::Bash(command) => {
                self.settle(
                    &mut decision,
                    rule_on(command, &self.allowed.spawn, &self.denied.spawn, self),
                    &entry.text,
                );
                if alone {
                    self.add_workspace(&mut decision);
                }
            }
            Permission::WebFetch(host) => {
                // Do not suggest to grant every host.
                let text =
                    if host.host == HostName::Any { "WebFetch(domain:HOST)" } else { &entry.text };
                self.settle(
                    &mut decision,
                    rule_on(host, &self.allowed.fetch, &self.denied.fetch, self),
                    text,
                );
            }
        }
        decision
    }

    /// Decides on a skill without `allowed-tools`.
    pub(super) fn default_grant(&self) -> EntryDecision {
        let rules: Vec<&Rule> = self.layers.iter().flat_map(|l| &l.allow).collect();
        let (verdict, meaning) = match rules.is_empty() {
            true => (Verdict::Refused, "nothing: the policy grants this skill no permissions"),
            false => (Verdict::Granted, "everything that the policy allows this skill"),
        };
        EntryDecision {
            entry: "(no allowed-tools)".into(),
            place: None,
            verdict,
            meaning: meaning.into(),
            rule: if rules.is_empty() { self.no_rule() } else { cite(&rules) },
            fix: None,
        }
    }

    fn read(&self, glob: &PathGlob) -> Ruling {
        rule_on(glob, &self.allowed.read, &self.denied.read, self)
    }

    fn settle(&self, decision: &mut EntryDecision, ruling: Ruling, text: &str) {
        decision.verdict = ruling.verdict;
        decision.fix =
            (ruling.verdict == Verdict::Refused && !ruling.denied).then(|| self.allow_line(text));
        decision.rule = ruling.rule;
        if decision.verdict == Verdict::Narrowed {
            decision.meaning.push_str(", within what the policy allows");
        }
    }

    /// Decides on writing. It implies reading, and is narrowed to it if only reading is allowed.
    fn settle_write(&self, decision: &mut EntryDecision, glob: &PathGlob, text: &str) {
        let read = self.read(glob);
        let write = match self.protection_of(glob) {
            Some(kind) => Ruling {
                verdict: Verdict::Refused,
                rule: format!(
                    "it configures {}, so only an `allow` that names it without wildcards grants writing",
                    kind.description()
                ),
                denied: false,
            },
            None => rule_on(glob, &self.allowed.write, &self.denied.write, self),
        };
        match (write.verdict, read.verdict) {
            (Verdict::Refused, Verdict::Granted | Verdict::Narrowed) => {
                let fix = (!write.denied).then(|| self.allow_line(text));
                let rule = format!("reading: {}; writing: {}", read.rule, write.rule);
                *decision = EntryDecision {
                    verdict: Verdict::Narrowed,
                    meaning: format!("read {}", show_glob(glob)),
                    rule,
                    fix,
                    ..decision.clone()
                };
            }
            // A denial of reading also denies writing, so `write` already includes it.
            _ => self.settle(decision, write, text),
        }
    }

    /// Returns the kind of a protected glob, unless an `allow` names it without wildcards.
    fn protection_of(&self, glob: &PathGlob) -> Option<protected::ProtectedKind> {
        let below = |path: &str| {
            let guests = self.mounts.iter().map(|mount| mount.guest.as_str()).chain([WORKSPACE]);
            guests
                .filter(|guest| mounts::is_within(path, guest))
                .find_map(|guest| protected::kind_of(&path[guest.len()..]))
        };
        let kind = below(&glob.literal_start())?;
        let names = |(allowed, _): &(PathGlob, &Rule)| {
            allowed.literal().is_some_and(|path| below(path).is_some()) && allowed.covers(glob)
        };
        (!self.allowed.write.iter().any(names)).then_some(kind)
    }

    /// Decides on an entry for a folder that every skill has, whatever the policy says. Returns
    /// `false` for other entries.
    fn own_folder(&self, tool: &Permission, glob: &PathGlob, decision: &mut EntryDecision) -> bool {
        let within = |folder: &str| {
            mounts::is_within(glob.pattern(), folder)
                && PathGlob::new(folder).is_ok_and(|f| f.covers(glob))
        };
        let writes = matches!(tool, Permission::Write(_));
        if within("/tmp") || (within("/skill") && !writes) {
            decision.verdict = Verdict::Granted;
            decision.rule =
                "the sandbox: every skill can read its own folder, and has a scratch folder at /tmp"
                    .into();
        } else if within("/skill") {
            decision.verdict = Verdict::Narrowed;
            decision.meaning = format!("read {}", show_glob(glob));
            decision.rule = "the sandbox: no skill can write to its own folder".into();
            decision.fix =
                Some("in SKILL.md: request Write(/workspace/**), or write to /tmp".into());
        } else {
            return false;
        }
        true
    }

    /// Adds to the decision that no folder is mounted for a file entry, or only a read-only one.
    fn check_mounts(&self, decision: &mut EntryDecision, glob: &PathGlob, write: bool) {
        if decision.verdict == Verdict::Refused {
            return;
        }
        let meets = |guest: &str| PathGlob::new(guest).is_ok_and(|m| m.overlaps(glob));
        let reached: Vec<&Mount> = self.mounts.iter().filter(|m| meets(&m.guest)).collect();
        if reached.is_empty() {
            decision.meaning.push_str("; no folder is mounted there");
            let workspace = PathGlob::new(WORKSPACE).is_ok_and(|w| w.overlaps(glob));
            decision.fix = Some(
                if workspace { "--workspace DIR" } else { "a `mounts` entry in a policy file" }
                    .into(),
            );
        } else if let Some((guest, place)) =
            self.read_only.iter().find(|(guest, _)| write && meets(guest))
        {
            decision.verdict = Verdict::Narrowed;
            decision.meaning.push_str(&format!("; {guest} is mounted read-only"));
            decision.rule.push_str(&format!("; mount at {place}"));
            let fix = if place == "--workspace" {
                "--workspace DIR, without `:ro`".into()
            } else {
                format!("`mode: write` at {place}")
            };
            decision.fix.get_or_insert(fix);
        }
    }

    /// Adds the files that `Bash` alone requests in addition to programs.
    fn add_workspace(&self, decision: &mut EntryDecision) {
        let everything = PathGlob::everything();
        let mut files = EntryDecision {
            meaning: "read and write every mounted folder".into(),
            ..decision.clone()
        };
        self.settle_write(&mut files, &everything, "Write");
        self.check_mounts(&mut files, &everything, true);
        let programs =
            if decision.verdict == Verdict::Refused { "no programs" } else { &decision.meaning };
        let folders = if files.verdict == Verdict::Refused { "no files" } else { &files.meaning };
        decision.meaning =
            if (decision.verdict, files.verdict) == (Verdict::Refused, Verdict::Refused) {
                decision.meaning.clone()
            } else {
                format!("{programs}; {folders}")
            };
        if decision.verdict != files.verdict {
            decision.verdict = Verdict::Narrowed;
        }
        if decision.rule != files.rule {
            decision.rule = format!("programs: {}; files: {}", decision.rule, files.rule);
        }
        decision.fix = decision.fix.take().or(files.fix);
    }

    /// Returns the flag and the policy lines that would allow an entry.
    fn allow_line(&self, text: &str) -> String {
        let text = text.trim();
        let quoted = text.replace('\'', r"'\''");
        let file = self.layers.iter().find_map(|l| {
            if let Origin::File(path) = &l.origin { Some(path.display().to_string()) } else { None }
        });
        let file = file.unwrap_or_else(|| "a policy file".into());
        let yaml = serde_json::Value::from(text);
        // A skill chooses its name. An invalid name, such as `*`, must not appear in a line that an
        // operator pastes.
        let is_name = !self.skill.is_empty()
            && self
                .skill
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let skill = if is_name { self.skill } else { "NAME" };
        format!("--allow '{quoted}', or in {file}: skills: {{ {skill}: {{ allow: [{yaml}] }} }}")
    }

    fn no_rule(&self) -> String {
        let name = |origin: &Origin| match origin {
            Origin::BuiltIn => "the built-in policy".to_owned(),
            Origin::File(path) => path.display().to_string(),
            Origin::CommandLine => "the command line".to_owned(),
        };
        let mut names: Vec<String> = Vec::new();
        let said =
            self.layers.iter().filter(|l| l.origin != Origin::CommandLine || !l.allow.is_empty());
        for name in said.map(|l| name(&l.origin)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("no `allow` of {}", names.join(" or "))
    }
}

/// The operations that all kinds of pattern have.
pub(super) trait Pattern {
    /// Checks whether this pattern matches everything that `other` matches.
    fn covers(&self, other: &Self) -> bool;
    /// Checks whether something may match both patterns.
    fn overlaps(&self, other: &Self) -> bool;
    /// Checks whether a denial of this pattern applies to everything that `other` matches.
    fn denies_all(&self, other: &Self) -> bool {
        self.covers(other)
    }
    /// Checks whether a denial of this pattern may apply to something that `other` matches.
    fn denies_some(&self, other: &Self) -> bool {
        self.overlaps(other)
    }
}

macro_rules! pattern {
    ($name:ty $(, $denial:ident)*) => {
        impl Pattern for $name {
            fn covers(&self, other: &Self) -> bool {
                <$name>::covers(self, other)
            }
            fn overlaps(&self, other: &Self) -> bool {
                <$name>::overlaps(self, other)
            }
            $(fn $denial(&self, other: &Self) -> bool {
                <$name>::$denial(self, other)
            })*
        }
    };
}
pattern!(PathGlob);
pattern!(CommandPattern, denies_all, denies_some);
pattern!(HostPattern);

/// Compares a requested pattern with what is allowed and denied.
fn rule_on<P: Pattern>(
    asked: &P,
    allowed: &[(P, &Rule)],
    denied: &[(P, &Rule)],
    judge: &Judge<'_>,
) -> Ruling {
    let allows: Vec<&Rule> =
        allowed.iter().filter(|(p, _)| p.overlaps(asked)).map(|(_, rule)| *rule).collect();
    // First, because an `allow` would not help against it.
    if let Some((_, rule)) = denied.iter().find(|(p, _)| p.denies_all(asked)) {
        return Ruling { verdict: Verdict::Refused, rule: rule.blocks(), denied: true };
    }
    if allows.is_empty() {
        return Ruling { verdict: Verdict::Refused, rule: judge.no_rule(), denied: false };
    }
    let whole = allowed.iter().find(|(p, _)| p.covers(asked)).map(|(_, rule)| *rule);
    let denials: Vec<&Rule> =
        denied.iter().filter(|(p, _)| p.denies_some(asked)).map(|(_, rule)| *rule).collect();
    let mut rule = format!("allow {}", whole.map_or_else(|| cite(&allows), |rule| cite(&[rule])));
    if !denials.is_empty() {
        rule.push_str(&format!("; deny {}", cite(&denials)));
    }
    let verdict =
        if whole.is_some() && denials.is_empty() { Verdict::Granted } else { Verdict::Narrowed };
    Ruling { verdict, rule, denied: false }
}

/// Lists rules with their places. Cuts a long list.
fn cite(rules: &[&Rule]) -> String {
    const MOST: usize = 4;
    let mut texts: Vec<String> = rules
        .iter()
        .take(MOST)
        .map(|r| format!("`{}` ({})", printable(&r.text), r.place))
        .collect();
    if rules.len() > MOST {
        texts.push(format!("and {} more", rules.len() - MOST));
    }
    texts.join(", ")
}

/// Describes what an entry requests.
fn meaning(tool: &Permission) -> String {
    match tool {
        Permission::Read(glob) => format!("read {}", show_glob(glob)),
        Permission::Write(glob) => format!("read and write {}", show_glob(glob)),
        Permission::Bash(command) if command.words.is_empty() => {
            "start any program in the sandbox".into()
        }
        Permission::Bash(command) if command.open => {
            format!("start `{}` with any arguments", command.words.join(" "))
        }
        Permission::Bash(command) => format!("start exactly `{}`", command.words.join(" ")),
        Permission::WebFetch(host) => show_host(host),
        Permission::NotGrantable { why, .. } => why.clone(),
    }
}

fn show_glob(glob: &PathGlob) -> String {
    if *glob == PathGlob::everything() {
        "every mounted folder".into()
    } else {
        printable(glob.pattern())
    }
}

/// Describes a host pattern.
pub(super) fn show_host(pattern: &HostPattern) -> String {
    let scheme = if pattern.plain { "HTTP and HTTPS" } else { "HTTPS" };
    let host = match &pattern.host {
        HostName::Any => "any host".to_owned(),
        HostName::Exact(name) => name.clone(),
        HostName::Below(parent) => format!("any subdomain of {parent}"),
    };
    match pattern.port {
        Some(EVERY_PORT) => format!("{scheme} to {host}, any port"),
        Some(port) => format!("{scheme} to {host}, port {port}"),
        None => format!("{scheme} to {host}"),
    }
}

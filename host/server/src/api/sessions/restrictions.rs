//! The policy of a session: what its client denies it, although the tenant's policy allows it.

use skillhost_policy::Rule;
use skillhost_policy::entry::{EntryList, Permission};
use skillhost_policy::limits::Limit;

use super::super::Answered;
use super::super::problem::Problem;
use super::types::SessionPolicy;

/// The maximum number of entries, and of bytes in one.
const ENTRIES: (usize, usize) = (64, 1024);
/// The maximum number of wildcards in all entries together. Each one is compiled, once for each
/// alternative of its entry, and copied for each program.
const WILDCARDS: usize = 256;
/// The folders that the rules of a policy do not apply to.
const FIXED: [&str; 3] = ["/tmp", "/state", "/skill"];

/// A checked [`SessionPolicy`].
#[derive(Debug, Default)]
pub(in super::super) struct Restrictions {
    /// The policy as the client wrote it.
    pub(super) policy: Option<SessionPolicy>,
    /// The rules of its entries.
    pub(in super::super) deny: Vec<Rule>,
}

impl Restrictions {
    /// Checks a policy.
    ///
    /// # Errors
    /// An entry is not valid or has no effect, or there are too many entries or wildcards.
    pub(super) fn new(policy: Option<SessionPolicy>) -> Answered<Restrictions> {
        let entries: &[String] = policy.as_ref().map_or(&[], |policy| &policy.deny);
        check_size(entries)?;
        let mut deny = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let place = format!("policy.deny[{index}]");
            let rule = Rule::new(entry, EntryList::Deny, &format!("{place} of the session"));
            let rule = rule.map_err(|finding| {
                let fix = finding.fix.map_or_else(String::new, |fix| format!("; try {fix}"));
                Problem::invalid(format!("{place}: {}{fix}", finding.message))
            })?;
            if is_of_fixed_folder(&rule.permission) {
                let detail = format!(
                    "{place}: rules do not apply to {}; limits bound what programs write there",
                    FIXED.join(", ")
                );
                return Err(Problem::invalid(detail));
            }
            deny.push(rule);
        }
        Ok(Restrictions { policy, deny })
    }

    /// Returns the limits that each program has at most.
    pub(in super::super) fn limits(&self) -> impl Iterator<Item = (Limit, u64)> {
        let limits = self.policy.iter().flat_map(|policy| &policy.limits);
        limits.map(|(limit, value)| (*limit, *value))
    }
}

/// Refuses entries that would take too much memory or time to compile.
fn check_size(entries: &[String]) -> Answered<()> {
    let (most, bytes) = ENTRIES;
    if entries.len() > most || entries.iter().any(|entry| entry.len() > bytes) {
        let detail = format!("`policy.deny` may have {most} entries of {bytes} bytes");
        return Err(Problem::invalid(detail));
    }
    let wildcards = |entry: &String| entry.bytes().filter(|byte| b"*?[\\".contains(byte)).count();
    if entries.iter().any(|entry| entry.contains('{'))
        || entries.iter().map(wildcards).sum::<usize>() > WILDCARDS
    {
        return Err(Problem::invalid(format!(
            "`policy.deny` may have {WILDCARDS} wildcards, and no `{{a,b}}`: write one entry for each alternative"
        )));
    }
    Ok(())
}

fn is_of_fixed_folder(permission: &Permission) -> bool {
    let (Permission::Read(glob) | Permission::Write(glob)) = permission else { return false };
    FIXED.iter().any(|folder| {
        let below = glob.pattern().strip_prefix(folder);
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    })
}

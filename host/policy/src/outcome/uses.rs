//! What a run used of what it was granted: evidence for the smallest grant that it needs. Noted
//! only where that was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a run used of its grants, in the guest's terms. `/skill`, `/tmp` and the packages need no
/// grant and are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Uses {
    /// The guest paths in granted folders that it saw, read or wrote: at most 10,000.
    pub paths: BTreeMap<String, PathUse>,
    /// The command lines that were let start, once each, as `Bash(...)` patterns see them: at most
    /// 1,000. The words may hold secrets.
    pub commands: BTreeSet<Vec<String>>,
    /// Where its HTTP requests went, once each.
    pub requests: BTreeSet<RequestUse>,
    /// The operator's variables that it was given. All come at once, so that which of them it read
    /// is not known.
    pub variables: BTreeSet<String>,
    /// Paths and command lines beyond those bounds.
    pub omitted: u64,
}

/// What was done with one path.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PathUse {
    /// It is a folder.
    pub folder: bool,
    /// It is a folder whose entries were listed. Those that were shown are paths of their own.
    pub listed: bool,
    /// It was written, created or removed, or its times were set.
    pub written: bool,
    /// It is a mounted folder in which a folder was renamed, for which all of it must be writable.
    pub whole: bool,
}

/// A request that was let through, by what the rules look at.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct RequestUse {
    /// `https`, else `http`.
    pub https: bool,
    /// The host, lower case, without a trailing dot or brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method, upper case.
    pub method: String,
}

impl PathUse {
    /// Both uses of one path.
    pub fn and(self, other: PathUse) -> PathUse {
        PathUse {
            folder: self.folder || other.folder,
            listed: self.listed || other.listed,
            written: self.written || other.written,
            whole: self.whole || other.whole,
        }
    }
}

impl Uses {
    /// Adds what another run used.
    pub fn add(&mut self, other: Uses) {
        for (path, use_) in other.paths {
            let entry = self.paths.entry(path).or_default();
            *entry = entry.and(use_);
        }
        self.commands.extend(other.commands);
        self.requests.extend(other.requests);
        self.variables.extend(other.variables);
        self.omitted += other.omitted;
    }
}

//! What a run used of its grants: evidence for the smallest grant that it needs. Collected only on
//! request.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a run used of its grants, in the guest's terms. Omits `/skill`, `/tmp` and the packages,
/// which need no grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GrantUse {
    /// The guest paths in granted folders that it looked up, read or wrote, at most 10,000.
    pub paths: BTreeMap<String, PathUse>,
    /// The command lines that were allowed to start, as `Bash(...)` patterns see them, without
    /// duplicates, at most 1,000. The words may be secret.
    pub commands: BTreeSet<Vec<String>>,
    /// The destinations of its HTTP requests, without duplicates.
    pub requests: BTreeSet<RequestUse>,
    /// The operator's variables that it received. It is unknown which of them it read.
    pub variables: BTreeSet<String>,
    /// The number of paths and command lines beyond these bounds.
    pub omitted: u64,
}

/// What a run did with one path.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PathUse {
    /// It is a folder.
    pub folder: bool,
    /// It is a folder that was listed. Each entry shown is a separate path.
    pub listed: bool,
    /// It was written, created or removed, or its times were changed.
    pub written: bool,
    /// It is a mount in which a folder was renamed. A rename requires that all of it is writable.
    pub whole: bool,
}

/// An allowed HTTP request: the parts that rules compare.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct RequestUse {
    /// `https`, else `http`.
    pub https: bool,
    /// The host in lower case, without a trailing dot or brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method, in upper case.
    pub method: String,
}

impl PathUse {
    /// Combines two uses of the same path.
    pub fn merge(self, other: PathUse) -> PathUse {
        PathUse {
            folder: self.folder || other.folder,
            listed: self.listed || other.listed,
            written: self.written || other.written,
            whole: self.whole || other.whole,
        }
    }
}

impl GrantUse {
    /// Adds what another run used.
    pub fn merge(&mut self, other: GrantUse) {
        for (path, use_) in other.paths {
            let entry = self.paths.entry(path).or_default();
            *entry = entry.merge(use_);
        }
        self.commands.extend(other.commands);
        self.requests.extend(other.requests);
        self.variables.extend(other.variables);
        self.omitted += other.omitted;
    }
}

//! What `try` statements mean for the imports in them, in Python and JavaScript.

/// A `try` statement, with regard to imports.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Try {
    /// Whether it handles failed imports.
    pub(super) catches: bool,
    /// Whether its handler throws, or ends the script.
    pub(super) gives_up: bool,
}

/// An import in a `try` statement.
pub(super) struct Tried {
    /// The `try` whose body contains it.
    pub(super) tried: Option<usize>,
    /// The `try` whose handler contains it.
    pub(super) instead_of: Option<usize>,
    /// Whether all that it imports is available.
    pub(super) is_met: bool,
}

/// What is known about the `try` statements of a text.
pub(super) struct Tries {
    /// Whether an import in the body can be missing.
    optional: Vec<bool>,
    /// Whether all imports in the body are available.
    met: Vec<bool>,
}

impl Tries {
    pub(super) fn of(tries: &[Try], imports: impl Iterator<Item = Tried>) -> Tries {
        let mut met = vec![true; tries.len()];
        let mut optional: Vec<bool> =
            tries.iter().map(|one| one.catches && !one.gives_up).collect();
        for Tried { tried, instead_of, is_met } in imports {
            if let Some(id) = instead_of {
                // The handler imports something else.
                optional[id] |= tries[id].catches;
            }
            if let Some(id) = tried {
                met[id] &= is_met;
            }
        }
        Tries { optional, met }
    }

    /// Checks whether an import only replaces others, which are available.
    pub(super) fn is_needless(&self, instead_of: Option<usize>) -> bool {
        instead_of.is_some_and(|id| self.met[id])
    }

    /// Checks whether the script also works without an import.
    pub(super) fn is_optional(&self, tried: Option<usize>) -> bool {
        tried.is_some_and(|id| self.optional[id])
    }
}

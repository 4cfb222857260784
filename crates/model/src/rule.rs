//! The type of a rule, and of its violation.

use std::fmt;

use crate::Record;

/// A condition that every run must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The condition as a sentence with underscores.
    pub name: &'static str,
    /// The decision or the row of `docs/features.md` that requires it.
    pub source: &'static str,
}

/// A rule that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The reason, in one sentence.
    pub reason: String,
    /// The index of the entry at which the violation was found.
    pub at: usize,
    /// The entries that concern the object, with their indexes, oldest first.
    pub entries: Vec<(usize, Record)>,
}

// === impl Violation ===

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { name, source } = self.rule;
        writeln!(f, "{name} ({source}): {}", self.reason)?;
        for (number, record) in &self.entries {
            let mark = if *number == self.at { '>' } else { ' ' };
            writeln!(f, "{mark}{number:>4} {record}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

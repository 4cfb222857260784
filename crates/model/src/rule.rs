//! Rules, and how one is broken.

use std::fmt;

use crate::Record;

/// Something that must hold of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A sentence with underscores: what must hold.
    pub name: &'static str,
    /// The decision or row of `docs/features.md` that says so.
    pub source: &'static str,
}

/// A rule that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// How, in one sentence.
    pub reason: String,
    /// The number of the entry where it was found.
    pub at: usize,
    /// The entries that concern the object, with their numbers, oldest first.
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

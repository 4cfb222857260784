//! One state of one object, in the form that the rules compare.

use std::{fmt, sync::Arc};

/// A version of an object: its `metadata.resourceVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// One state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// The version of this state.
    pub version: Version,
    /// `metadata.generation`, for kinds that have one.
    pub generation: Option<i64>,
    /// Whether it has a `metadata.deletionTimestamp`.
    pub terminating: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// The content without finalizers, managed fields and version, in a comparable form: its JSON,
    /// or a hash of it.
    pub content: Arc<str>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Whether it has one of these finalizers.
    #[must_use]
    pub fn has_any(&self, finalizers: &[String]) -> bool {
        self.finalizers.iter().any(|it| finalizers.contains(it))
    }

    /// Its finalizers without these.
    #[must_use]
    pub fn finalizers_without(&self, finalizers: &[String]) -> Vec<&str> {
        let others = self.finalizers.iter().filter(|it| !finalizers.contains(it));
        others.map(String::as_str).collect()
    }

    /// Whether this state ends a backoff that began at `before`: it has a new generation (for kinds
    /// without generations: new content), or it was marked for deletion.
    #[must_use]
    pub fn is_urgent_after(&self, before: &Self) -> bool {
        let changed = match (self.generation, before.generation) {
            (Some(own), Some(before)) => own != before,
            _ => self.content != before.content,
        };
        changed || (self.terminating && !before.terminating)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.uid, self.version)?;
        if let Some(generation) = self.generation {
            write!(f, " g{generation}")?;
        }
        if self.terminating {
            f.write_str(" terminating")?;
        }
        if !self.finalizers.is_empty() {
            write!(f, " [{}]", self.finalizers.join(" "))?;
        }
        Ok(())
    }
}

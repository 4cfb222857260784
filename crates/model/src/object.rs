//! One state of one object, as the rules compare it.

use std::{fmt, sync::Arc};

/// A version of an object: the epoch of its history, and its resource version in it.
///
/// A history that goes back (a restored backup) begins a new epoch, so that versions still
/// have one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// How often the history had gone back before.
    pub epoch: u64,
    /// `metadata.resourceVersion`.
    pub number: u64,
}

/// One state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// Which state it is.
    pub version: Version,
    /// `metadata.generation`, for kinds that have one.
    pub generation: Option<i64>,
    /// Whether it is marked for deletion.
    pub dying: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Everything but finalizers, managed fields and the version, in a form that can be
    /// compared: its JSON, or a hash of it.
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

    /// Whether work that is in backoff begins at once for this state: a new generation (new
    /// content, for kinds without one) or a new deletion mark since `before`.
    #[must_use]
    pub fn is_urgent_after(&self, before: &Self) -> bool {
        let changed = match (self.generation, before.generation) {
            (Some(own), Some(before)) => own != before,
            _ => self.content != before.content,
        };
        changed || (self.dying && !before.dying)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.epoch > 0 {
            write!(f, "{}.", self.epoch)?;
        }
        write!(f, "{}", self.number)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.uid, self.version)?;
        if let Some(generation) = self.generation {
            write!(f, " g{generation}")?;
        }
        if self.dying {
            f.write_str(" dying")?;
        }
        if !self.finalizers.is_empty() {
            write!(f, " [{}]", self.finalizers.join(" "))?;
        }
        Ok(())
    }
}

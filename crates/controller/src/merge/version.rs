//! Versions of objects, which are compared as numbers. *(pure)*

use super::Object;

/// The version of a state. `None` if it is not a number: then neither of two versions is older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(pub(super) Option<u64>);

// === impl Version ===

impl Version {
    pub(super) fn of(object: &Object) -> Self {
        let version = object.resource_version();
        Self(version.and_then(|version| version.parse().ok()))
    }

    /// Returns the later one of both, or `self` if they cannot be compared.
    pub(super) fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Whether it is certainly older than `other`.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.0.zip(other.0)).is_some_and(|(own, others)| own < others)
    }
}

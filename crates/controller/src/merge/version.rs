//! Versions of objects across the times that the history of the server went back. *(pure)*
//!
//! A version of a later epoch is newer than each one of an earlier epoch. Within an epoch, versions
//! are compared as numbers. Versions that are not numbers cannot be compared: neither is older.

use super::Object;

/// The position of a state in the history of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    /// The number of times that the history went back.
    pub(super) epoch: u32,
    /// `None` if it is not a number.
    pub(super) number: Option<u64>,
}

// === impl Version ===

impl Version {
    pub(super) fn of(object: &Object, epoch: u32) -> Self {
        let number = object.resource_version();
        Self {
            epoch,
            number: number.and_then(|number| number.parse().ok()),
        }
    }

    /// Returns the later one of both, or `self` if they cannot be compared.
    pub(super) fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Whether it is certainly older than `other`.
    pub(super) fn is_before(self, other: Self) -> bool {
        let numbers = self.number.zip(other.number);
        self.epoch < other.epoch
            || (self.epoch == other.epoch && numbers.is_some_and(|(own, others)| own < others))
    }
}

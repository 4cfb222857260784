//! The lock, in one place, so that the model test can put another here.

/// A mutex that a panic does not poison: a `Clone` of the user's that panics fails its own
/// caller and no other.
pub(crate) use parking_lot::Mutex;

//! The lock. A separate file, so that the model test can replace it.

/// A mutex without poisoning: a panic in a user's `Clone` fails only its own caller.
pub(crate) use parking_lot::Mutex;

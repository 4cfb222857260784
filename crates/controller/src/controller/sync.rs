//! The lock of the engine, `parking_lot`'s, which a panic does not poison, and what is changed
//! without one. The model test puts shuttle's in their places.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use parking_lot::Mutex;

//! The lock and the atomics (synchronization primitives) of the engine, which the model test
//! replaces. `parking_lot`'s lock is not poisoned by a panic.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use parking_lot::Mutex;

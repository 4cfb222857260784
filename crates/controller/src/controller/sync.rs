//! The lock of the engine, which the model test replaces. `parking_lot`'s lock is not poisoned by a
//! panic.

pub(crate) use parking_lot::Mutex;

//! The lock of the engine: `parking_lot`'s, which a panic does not poison. The model test puts
//! shuttle's in its place.

pub(crate) use parking_lot::Mutex;

//! Windlass.

pub use windlass_informer::*;

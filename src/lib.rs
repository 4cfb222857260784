#![doc = include_str!("../README.md")]

pub use windlass_controller::*;
pub use windlass_informer::*;
pub use windlass_listmap as listmap;
pub use windlass_operator::*;
#[cfg(feature = "simulate")]
pub use windlass_simulate as simulate;

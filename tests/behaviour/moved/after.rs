//! The operators with `windlass::runtime`.

pub(crate) use windlass::runtime;

#[path = "operators/borrowed.rs"]
pub(crate) mod borrowed;
#[path = "operators/configs.rs"]
pub(crate) mod configs;
#[path = "operators/discovered.rs"]
pub(crate) mod discovered;
#[path = "operators/filtered.rs"]
pub(crate) mod filtered;
#[path = "operators/finalized.rs"]
pub(crate) mod finalized;
#[path = "operators/secrets.rs"]
pub(crate) mod secrets;
#[path = "operators/shared.rs"]
pub(crate) mod shared;
#[path = "operators/triggered.rs"]
pub(crate) mod triggered;

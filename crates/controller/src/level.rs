//! Level-triggered controllers: each call gets the newest object, and not a change.

mod adapter;
mod reasons;

pub(crate) use self::adapter::LevelAdapter;
pub use self::reasons::Reasons;

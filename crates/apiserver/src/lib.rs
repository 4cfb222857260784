//! A Kubernetes API server in the process, in memory, for first steps and tests.

// What kinds there are.
mod registry;

// What the server answers when it refuses.
mod status;

pub use crate::status::{FieldError, FieldErrorKind, Status};

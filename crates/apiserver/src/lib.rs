//! A Kubernetes API server in the process, in memory, for first steps and tests.
//!
//! [`ApiServer`] speaks to a kube client as a tower service, without a socket, or to
//! kubectl and clients in other languages on a loopback port. What it does and does not
//! do is told in `docs/apiserver.md`.

// What a user holds: the server, its ports, its service.
mod authorize;
mod profile;
mod server;
mod service;

// What a request says.
mod patch;
mod selector;
mod wire;

// What it is about, and by which rules.
mod managed;
mod metadata;
mod registry;
mod schema;
mod typed;

// What it does.
mod cluster;
mod store;

// What comes back.
mod discovery;
mod encode;
mod status;
mod table;
mod watch;

pub use crate::authorize::{Attributes, Decision};
pub use crate::profile::Profile;
pub use crate::server::{ApiServer, ApiServerBuilder, ListenError, Listening};
pub use crate::service::{ApiService, ResponseBody};
pub use crate::status::{FieldError, FieldErrorKind, Status};

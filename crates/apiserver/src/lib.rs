//! A Kubernetes API server in the process, in memory, for first steps and tests.
//!
//! [`ApiServer`] speaks to a kube client as a tower service, without a socket, or to
//! kubectl and clients in other languages on a loopback port. `docs/apiserver.md` lists what it
//! does and what it does not.

// The server, its ports and its service.
mod authorize;
mod containers;
mod profile;
mod server;
mod service;
mod user;

// Requests.
mod manifest;
mod patch;
mod selector;
mod wire;

// Kinds and their rules.
mod managed;
mod metadata;
mod registry;
mod schema;
mod typed;

// The state of the server.
mod cluster;
mod store;

// Answers.
mod discovery;
mod encode;
mod json;
mod status;
mod table;
mod watch;

pub use crate::authorize::{Attributes, Decision};
pub use crate::containers::{ContainerSession, ForwardedPort, LogRequest};
pub use crate::manifest::{ManifestError, read_manifest};
pub use crate::profile::Profile;
pub use crate::server::{ApiServer, ApiServerBuilder, ListenError, Listening};
pub use crate::service::{ApiService, ResponseBody};
pub use crate::status::{FieldError, FieldErrorKind, Status};

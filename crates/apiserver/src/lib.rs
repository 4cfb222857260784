//! An in-process, in-memory Kubernetes API server for tutorials and operator tests.
//!
//! [`ApiServer`] serves a kube client as a tower service, without a socket, and serves kubectl and
//! clients in other languages on a loopback port. `docs/apiserver.md` lists the supported and
//! unsupported features of Kubernetes.

// The server, its ports and its tower service.
mod authorize;
mod containers;
mod mutating_limit;
mod profile;
mod server;
mod service;
mod shared;
mod user;

// Requests.
mod manifest;
mod patch;
mod selector;
mod wire;

// Kinds, their schemas and validation.
mod managed;
mod metadata;
mod registry;
mod schema;
mod timestamp;
mod typed;
mod view;

// The stored objects and the operations on them.
mod cluster;
mod revisions;
mod store;

// Responses.
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

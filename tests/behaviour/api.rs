//! The API as clients meet it on the wire, request by request, as `docs/apiserver.md` says.
//!
//! Each test names its row of that page's tables. They look past [`kube::Api`], which hides
//! what an answer looks like.

mod incomplete;
mod raw;
mod recorded;
mod widget;

pub(crate) mod admission;
pub(crate) mod apply;
pub(crate) mod autoscalers;
pub(crate) mod builtin;
pub(crate) mod cluster_objects;
pub(crate) mod definitions;
pub(crate) mod deletions;
pub(crate) mod discovery;
pub(crate) mod documents;
pub(crate) mod garbage;
pub(crate) mod impersonation;
pub(crate) mod kinds;
pub(crate) mod lists;
pub(crate) mod metadata;
pub(crate) mod namespaces;
pub(crate) mod openapi;
pub(crate) mod options;
pub(crate) mod protobuf;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod roles;
pub(crate) mod scales;
pub(crate) mod schema;
pub(crate) mod selectors;
pub(crate) mod servers;
pub(crate) mod sizes;
pub(crate) mod statuses;
pub(crate) mod strict;
pub(crate) mod subresources;
pub(crate) mod suites;
pub(crate) mod versions;
pub(crate) mod watch_cache;
pub(crate) mod watches;
pub(crate) mod writes;
pub(crate) mod yaml;

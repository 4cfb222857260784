//! The API as clients meet it on the wire, request by request, as `docs/apiserver.md` says.
//!
//! Each test names its row of that page's tables. They look past [`kube::Api`], which hides
//! what an answer looks like.

mod incomplete;
mod raw;
mod recorded;
mod widget;

mod admission;
mod apply;
mod autoscalers;
mod builtin;
mod cluster_objects;
mod definitions;
mod deletions;
mod discovery;
mod documents;
mod garbage;
mod impersonation;
mod kinds;
mod lists;
mod metadata;
mod namespaces;
mod openapi;
mod protobuf;
mod requests;
mod resources;
mod roles;
mod scales;
mod schema;
mod selectors;
mod servers;
mod sizes;
mod subresources;
mod watch_cache;
mod watches;
mod writes;
mod yaml;

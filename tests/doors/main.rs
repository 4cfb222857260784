//! Programs of other frameworks that moved: only their imports differ, or for Go the language.
//!
//! Each module is a program as its users wrote it, and a test that runs it on the embedded server in
//! virtual time.

#![expect(
    clippy::similar_names,
    clippy::struct_field_names,
    clippy::unwrap_used,
    reason = "the code is that of its users"
)]

mod cluster;
mod consul_catalog;
mod consul_functions;
mod k8s_bucket;
mod k8s_context;
mod k8s_pod_counter;
mod roperator_backoff;
mod roperator_config;
mod roperator_failable;
mod roperator_greeter;
mod roperator_namespaces;
mod roperator_server;
mod roperator_strategies;

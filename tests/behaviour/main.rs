//! Behaviour tests by subject, on the embedded and the real server.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the second half says so and passes;
//! `cargo xtask test` counts what was not run.

#[macro_use]
mod cluster;
mod commands;
mod connection;
mod kinds;
mod real;
mod running;
mod watched;

mod api;
mod clients;
mod controller;
mod finalizer;
mod helm;
mod history;
mod kubectl;
mod leader;
mod listing;
mod mapping;
mod objects;
mod opinionated;
mod raw_objects;
mod selector;
mod stored_json;

//! How Windlass behaves, by subject, on both servers.
//!
//! Each test body takes a [`Cluster`](cluster::Cluster) and runs twice: as `embedded::...`
//! on a fresh server in the process, and as `kube_apiserver::...` in a fresh namespace of
//! the real one. Where there is no real one, the second half says so and passes;
//! `cargo xtask test` counts what was not run.

#[macro_use]
mod cluster;
mod kinds;
mod line;
mod real;
mod running;
mod watched;

mod api;
mod controller;
mod finalizer;
mod foreign;
mod history;
mod kept;
mod kubectl;
mod leader;
mod mapping;
mod objects;
mod opinionated;
mod packed;
mod picture;
mod selector;

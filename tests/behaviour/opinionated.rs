//! Watchers and reconcilers with finalizers: what no downtime and no crash makes them miss.

// What there is.
mod configs;
mod operator;

// One operator, up and down, and what others do beside it.
mod life;

mod downtime;

mod others;

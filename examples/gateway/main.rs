//! A gateway controller: it says of Gateways and routes whether they are as they should be.
mod api;
mod conditions;
mod judge;
mod plan;
mod snapshot;
fn main() {}

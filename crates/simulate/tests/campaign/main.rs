//! Simulations of different operators with every fault at every step, and with random faults.
//!
//! `cargo xtask sim` runs these tests with more seeds.

// The kind of the objects, and the steps of the users.
mod site;

// The operators.
mod operators;

// The tests.
mod campaigns;
mod crashes;
mod determinism;
mod effects;
mod oracles;
mod planted;
mod testing;

//! Operators of all kinds, simulated: every fault at every step, and random combinations.
//!
//! `cargo xtask sim` runs these tests with more seeds.

// The kinds, and what users do with them.
mod site;

// The operators.
mod operators;

// What is tried.
mod campaigns;
mod determinism;
mod effects;
mod oracles;
mod planted;
mod testing;

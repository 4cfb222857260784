//! Random histories of an `InformerController`, checked against the reference model.
//!
//! `WINDLASS_HISTORIES` sets how many are played, and `WINDLASS_HISTORY` replays one: the number
//! that a failure prints, or a whole script.

// The script of a history: text, random, smaller.
mod random;
mod script;
mod shrink;

// What a script plays on.
mod engine;
mod handler;
mod play;
mod sight;
mod stage;
mod watchdog;

mod defects;
mod replay;

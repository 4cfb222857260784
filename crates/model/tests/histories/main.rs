//! Random histories of an `InformerController`, checked against the reference model.
//!
//! They are played on two stages: on scripted sources, where each informer may be as far behind as
//! the script says, and on the embedded API server, with the code that lists and watches.
//! `WINDLASS_HISTORIES` and `WINDLASS_SERVER_HISTORIES` set how many are played, and
//! `WINDLASS_HISTORY` replays one: the number that a failure prints, or a whole script.

// The script of a history: text, random, smaller.
mod random;
mod script;
mod shrink;

// What a script plays on.
mod engine;
mod handler;
mod live;
mod play;
mod server;
mod sight;
mod stage;
mod watchdog;

mod defects;
mod replay;

//! Random histories of an `InformerController` and of a `Controller`, checked against the reference
//! model.
//!
//! They run in two environments: with scripted sources, where the script says how far each informer
//! lags, and with the embedded API server, which also tests lists and watches.
//! `WINDLASS_HISTORIES` and `WINDLASS_SERVER_HISTORIES` set how many are played, and
//! `WINDLASS_HISTORY` replays one: the number that a failure prints, or a whole script.

// The script of a history: text, random, smaller.
mod random;
mod script;
mod shrink;

// What a script plays on.
mod engine;
mod handler;
mod informer_source;
mod live;
mod play;
mod server;
mod stage;
mod watchdog;

// Histories of a level-triggered controller.
mod level;

mod defects;
mod replay;

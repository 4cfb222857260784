//! Keyed resources over scripted informers, in virtual time.

mod background;
mod calls;
#[path = "../opinionated/lines.rs"]
mod lines;
mod retries;
mod runs;
mod stop;
mod support;

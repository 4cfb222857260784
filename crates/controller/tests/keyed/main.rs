//! Keyed resources over scripted informers, in virtual time.

mod background;
mod calls;
mod retries;
mod runs;
mod stop;
mod support;

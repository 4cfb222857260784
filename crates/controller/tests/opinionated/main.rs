//! Tests of the wrappers with finalizers through their public API, with a world in memory whose writes
//! come back as events, on paused time.

mod lines;
mod support;
mod world;

mod before_first_call;
mod contended;
mod crash;
mod debug;
mod direct;
mod disorder;
mod exhausted;
mod fenced;
mod filtered;
mod finalizers;
mod hidden;
mod inner_predicate;
mod lives;
mod model;
mod reconciler;
mod registry;
mod repeated;
mod reports;
mod selector_exit;
mod time_limit;
mod unfinished;
mod unwatched;
mod watcher;
mod wrapped;

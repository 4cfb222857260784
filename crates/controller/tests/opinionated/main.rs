//! The wrappers with finalizers through their public face, over a world in memory whose writes
//! come back as events, on paused time.

mod support;
mod world;

mod contended;
mod crash;
mod disorder;
mod filtered;
mod finalizers;
mod reconciler;
mod selector_exit;
mod watcher;
mod wrapped;

//! The names of consul-k8s' package `controller`, for programs that move from Go.
//!
//! | there | here |
//! |--|--|
//! | `Resource` | [`Resource`], with `async` methods that get a typed object |
//! | `Resource.Informer` | [`Resource::informer`], an [`Informer`] |
//! | `Resource.Upsert(key, obj)`, `Resource.Delete(key, obj)` | [`Resource::upsert`], [`Resource::delete`]; `key` is an [`ObjectKey`], displayed as `<namespace>/<name>` or `<name>` |
//! | `ResourceUpsertFunc`, `ResourceDeleteFunc` | closures of a key and an object |
//! | `NewResource` | [`new_resource`] |
//! | `Backgrounder.Run(ch)` | [`Resource::background`]; the channel is [`Background::stop`] |
//! | `&Controller{Resource: r}` | [`Controller::new`] |
//! | `Controller.Log` | the `tracing` subscriber; failed calls go to `on_error` of [`Controller::with_controller`] |
//! | `Controller.Run(ch)` | [`Controller::run`] with a `CancellationToken` |
//! | `Controller.HasSynced` | [`Controller::has_synced`] |
//! | `Controller.LastSyncResourceVersion` | [`Controller::last_sync_resource_version`]; `None` instead of an empty string |
//! | `Event` | none: the arguments of `upsert` and `delete` |
//! | `TestControllerRun` | [`test_controller_run`]; the returned function is [`TestRun::stop`] |
//!
//! There is no type of an event:
//!
//! ```compile_fail,E0432
//! use windlass::consul::Event;
//! ```
//!
//! `docs/from-consul.md` shows two programs before and after, and what changes in meaning.

pub use windlass_controller::{
    Background, Failure, KeyedResource as Resource, ResourceController as Controller, RunError,
    TestRun, new_resource, test_controller_run,
};
pub use windlass_informer::{Informer, ListWatch, ObjectKey, Store};

//! Watchers: one method for each action.

use std::{future::Future, sync::Arc};

use crate::{Failure, Filtered, FinalizerHook, Predicate};

mod call;
mod simple;

pub(crate) use self::call::{call_method, current_attempt, decline_current};
pub use self::simple::SimpleWatcher;

/// Receives the changes of the objects of a kind, with one method for each action.
///
/// # Contract
///
/// *Guaranteed.* The methods are called in the order of the events of an object, never concurrently
/// for one object, and after the watchers that were added before. A failed call is repeated as the
/// retry policy decides.
///
/// *Required.* Calls are idempotent: a call may be repeated, for example after a restart. A call
/// may be dropped at any `await`, when the process stops immediately or the call exceeds its time
/// limit; then it is repeated.
///
/// *Not guaranteed.* That `add` means a new object: at the start it is called for each existing
/// object.
///
/// The default methods do nothing. [`SimpleWatcher`] is a watcher made of closures.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::Watcher;
///
/// struct DeleteLogger;
///
/// impl Watcher<ConfigMap> for DeleteLogger {
///     type Error = Infallible;
///
///     async fn delete(&self, last: Arc<ConfigMap>) -> Result<(), Infallible> {
///         println!("{:?} was deleted", last.metadata.name);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a watcher of `{K}`",
    label = "does not implement `Watcher<{K}>`",
    note = "a watcher made of closures is a `SimpleWatcher`: `SimpleWatcher::new().on_add(|object: Arc<{K}>| async move {{ Ok::<_, E>(()) }})`",
    note = "a predicate that is a closure names the type of its argument: `|event: &Event<{K}>| true`",
    note = "`E` is any error, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `Failure`"
)]
pub trait Watcher<K: Send + Sync + 'static>: Send + Sync + 'static {
    /// The error type: any error, or a [`Failure`], which can carry more information.
    type Error: Into<Failure> + Send;

    /// `object` was created, or existed at the start.
    ///
    /// # Errors
    ///
    /// The call is repeated as the controller's retry policy decides.
    fn add(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = object;
        async { Ok(()) }
    }

    /// `old` was updated to `new`.
    ///
    /// # Errors
    ///
    /// The call is repeated as the controller's retry policy decides.
    fn update(
        &self,
        old: Arc<K>,
        new: Arc<K>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (old, new);
        async { Ok(()) }
    }

    /// The object was deleted. `last` is its last known state.
    ///
    /// # Errors
    ///
    /// The call is repeated as the controller's retry policy decides.
    fn delete(&self, last: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = last;
        async { Ok(()) }
    }

    /// `object` is dispatched again without a change: periodically, or because a
    /// [`Mapper`](crate::Mapper) returned its key. By default calls [`update`](Self::update) with the
    /// same old and new object, as in client-go.
    ///
    /// # Errors
    ///
    /// The call is repeated as the controller's retry policy decides.
    fn resync(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.update(Arc::clone(&object), object)
    }

    /// The predicates that an event must pass. By default none; each [`filter`](Self::filter) adds
    /// one.
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        vec![]
    }

    /// The finalizer of this watcher, if it is a wrapper with a finalizer or contains one. By default
    /// none.
    ///
    /// A watcher around a wrapper returns the finalizer of the wrapper ([`FinalizerHook`]). If it does
    /// not, each call of the wrapper fails.
    fn finalizer(&self) -> Option<FinalizerHook<'_, K>> {
        None
    }

    /// Calls this watcher only for events that pass `predicate`.
    fn filter<P: Predicate<K>>(self, predicate: P) -> Filtered<Self, P>
    where
        Self: Sized,
    {
        Filtered::new(self, predicate)
    }
}

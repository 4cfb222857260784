//! Watchers: one method for each action.

use std::{future::Future, sync::Arc};

use crate::{Failure, Filtered, Predicate};

mod simple;

pub use self::simple::SimpleWatcher;

/// Receives what happens to the objects of a kind.
///
/// # Contract
///
/// *Guaranteed.* The methods are called for each object in the order in which things happened,
/// never two at once for one object, and after the watchers of the kind that were added
/// before this one. A call that failed is made again as the retry policy says.
///
/// *Required.* A call may be made again after a restart; it should find out that there is
/// nothing left to do. It may be dropped at any `await`, when the process stops at once or the
/// call takes too long; then it is made again.
///
/// *Not guaranteed.* That `add` means a new object: at the start it is called for each one that
/// is there.
///
/// Methods that are left out do nothing. [`SimpleWatcher`] is a watcher made of closures.
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
///         println!("{:?} is gone", last.metadata.name);
///         Ok(())
///     }
/// }
/// ```
pub trait Watcher<K: Send + Sync + 'static>: Send + Sync + 'static {
    /// What can go wrong: any error, or a [`Failure`] where a failed call has more to say.
    type Error: Into<Failure> + Send;

    /// `object` came into being, or was there when we came.
    ///
    /// # Errors
    ///
    /// Whatever went wrong. The call is made again as the controller's retry policy says.
    fn add(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = object;
        async { Ok(()) }
    }

    /// `old` became `new`.
    ///
    /// # Errors
    ///
    /// Whatever went wrong. The call is made again as the controller's retry policy says.
    fn update(
        &self,
        old: Arc<K>,
        new: Arc<K>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = (old, new);
        async { Ok(()) }
    }

    /// The object is gone; `last` is its last known state.
    ///
    /// # Errors
    ///
    /// Whatever went wrong. The call is made again as the controller's retry policy says.
    fn delete(&self, last: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = last;
        async { Ok(()) }
    }

    /// `object` has not changed, and is dispatched again. By default an update from it to itself,
    /// as in client-go.
    ///
    /// # Errors
    ///
    /// Whatever went wrong. The call is made again as the controller's retry policy says.
    fn resync(&self, object: Arc<K>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.update(Arc::clone(&object), object)
    }

    /// What an event must pass for it to be told: by default nothing, and more with each
    /// [`filter`](Self::filter).
    fn predicates(&self) -> Vec<&dyn Predicate<K>> {
        Vec::new()
    }

    /// The finalizer that it writes, if it is a wrapper that writes one.
    #[doc(hidden)]
    fn finalizer(&self) -> Option<&str> {
        None
    }

    /// Whether `event` passes its predicates.
    #[doc(hidden)]
    fn receives(&self, event: &windlass_informer::Event<K>) -> bool {
        self.predicates().iter().all(|it| it.passes(event))
    }

    /// Whether the finalizer that it writes needs `event`, also if a predicate around it refuses
    /// that: the object is to be cleaned up, or its finalizer has changed. For wrappers that write
    /// a finalizer.
    #[doc(hidden)]
    fn needs(&self, event: &windlass_informer::Event<K>) -> bool {
        let _ = event;
        false
    }

    /// The next event of the object with `uid` is from a history before what this handler may
    /// remember of it: the API server was restored from a backup. For wrappers that remember
    /// versions.
    #[doc(hidden)]
    fn history_went_back(&self, uid: &str) {
        let _ = uid;
    }

    /// This watcher, told of nothing but what passes `predicate`.
    fn filter<P: Predicate<K>>(self, predicate: P) -> Filtered<Self, P>
    where
        Self: Sized,
    {
        Filtered::new(self, predicate)
    }
}

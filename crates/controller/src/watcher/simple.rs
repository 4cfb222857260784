//! `SimpleWatcher`: a watcher made of closures.

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt, future::BoxFuture};

use super::Watcher;
use crate::Failure;

/// A watcher made of closures. A method without a closure does nothing.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::SimpleWatcher;
///
/// let watcher = SimpleWatcher::new()
///     .on_add(|object: Arc<ConfigMap>| async move {
///         println!("{:?} exists", object.metadata.name);
///         Ok::<_, Infallible>(())
///     })
///     .on_delete(|last: Arc<ConfigMap>| async move {
///         println!("{:?} was deleted", last.metadata.name);
///         Ok::<_, Infallible>(())
///     });
/// # let _ = watcher;
/// ```
#[must_use = "a watcher does nothing until it is added to a controller"]
pub struct SimpleWatcher<K> {
    add: Option<ObjectFn<K>>,
    update: Option<UpdateFn<K>>,
    delete: Option<ObjectFn<K>>,
}

type CallFuture = BoxFuture<'static, Result<(), Failure>>;
type ObjectFn<K> = Box<dyn Fn(Arc<K>) -> CallFuture + Send + Sync>;
type UpdateFn<K> = Box<dyn Fn(Arc<K>, Arc<K>) -> CallFuture + Send + Sync>;

// === impl SimpleWatcher ===

impl<K> SimpleWatcher<K> {
    /// Creates a watcher that does nothing.
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }

    /// Calls `f` when an object was created, or existed at the start.
    pub fn on_add<F, Fut, E>(mut self, f: F) -> Self
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.add = Some(Box::new(move |object| boxed(f(object))));
        self
    }

    /// Calls `f` with the old and the new object when an object was updated.
    pub fn on_update<F, Fut, E>(mut self, f: F) -> Self
    where
        F: Fn(Arc<K>, Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.update = Some(Box::new(move |old, new| boxed(f(old, new))));
        self
    }

    /// Calls `f` with the last known state when an object was deleted.
    pub fn on_delete<F, Fut, E>(mut self, f: F) -> Self
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.delete = Some(Box::new(move |last| boxed(f(last))));
        self
    }
}

fn boxed<E: Into<Failure>>(
    future: impl Future<Output = Result<(), E>> + Send + 'static,
) -> CallFuture {
    future.map(|result| result.map_err(Into::into)).boxed()
}

impl<K> Default for SimpleWatcher<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Send + Sync + 'static> Watcher<K> for SimpleWatcher<K> {
    type Error = Failure;

    async fn add(&self, object: Arc<K>) -> Result<(), Failure> {
        match &self.add {
            Some(f) => f(object).await,
            None => Ok(()),
        }
    }

    async fn update(&self, old: Arc<K>, new: Arc<K>) -> Result<(), Failure> {
        match &self.update {
            Some(f) => f(old, new).await,
            None => Ok(()),
        }
    }

    async fn delete(&self, last: Arc<K>) -> Result<(), Failure> {
        match &self.delete {
            Some(f) => f(last).await,
            None => Ok(()),
        }
    }
}

impl<K> fmt::Debug for SimpleWatcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleWatcher")
            .field("add", &self.add.is_some())
            .field("update", &self.update.is_some())
            .field("delete", &self.delete.is_some())
            .finish()
    }
}

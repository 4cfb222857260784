//! A watcher that no delete passes by.

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use kube::Resource;
use serde::Serialize;

use super::{
    change,
    custody::{Custody, Fate},
    leaving::Leaving,
    ledger::{Behind, Progress},
    rule::{Duty, Told, duty},
};
use crate::{Failure, Finalizers, Watcher, finalizer::Standing};

/// A watcher around another, that keeps each object with a finalizer until the other has
/// cleaned up after it.
///
/// # Contract
///
/// *Promised.*
/// - An object that is new gets the in-progress finalizer, is told as an add, and gets the
///   finalizer once the add has succeeded. From before the first call on it cannot vanish
///   unseen: not while the operator is down, and not between a call and its finalizer.
/// - An object that is marked for deletion is told as a delete; once that has succeeded, and not
///   before, the finalizer goes. That it is then really gone is told to nobody.
/// - At the start, an object that has the finalizer has been added in an earlier life: it is told
///   as a [sync](Self::sync), not as an add. An add that had not succeeded is told again.
/// - An update is told if the generation has changed, or, for kinds without one, anything but the
///   status; or if the finalizers of others have. Our own patches are not told. An update that
///   failed is told again with its old state, whatever comes in between.
/// - The periodic resync is never hidden.
/// - Nothing is shared: handlers get states that nobody changes.
///
/// *Asked.* Add, update and delete find out what is done already: after a crash between a call
/// and its finalizer the call is made again. A delete can come for an object whose add did not
/// succeed.
///
/// *Not promised.* That a delete is told if somebody else removes our finalizer.
///
/// # Example
///
/// ```
/// use std::{convert::Infallible, sync::Arc};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_controller::{FinalizerName, Finalizers, OpinionatedWatcher, SimpleWatcher};
///
/// # fn example(client: kube::Client) -> Result<(), windlass_controller::InvalidFinalizer> {
/// let finalizers = Finalizers::new(client, FinalizerName::new("example.io/publisher")?)?;
/// let watcher = SimpleWatcher::new()
///     .on_add(|new: Arc<ConfigMap>| async move { publish(&new).await })
///     .on_delete(|dying: Arc<ConfigMap>| async move { withdraw(&dying).await });
/// let watcher = OpinionatedWatcher::new(finalizers, watcher).sync_to_add();
/// # let _ = watcher;
/// # Ok(())
/// # }
/// # async fn publish(_: &ConfigMap) -> Result<(), Infallible> { Ok(()) }
/// # async fn withdraw(_: &ConfigMap) -> Result<(), Infallible> { Ok(()) }
/// ```
///
/// Source: grafana-app-sdk, `operator.OpinionatedWatcher`, for the wrapper; its finalizer comes
/// only after the add, here an in-progress one comes before.
#[must_use = "a watcher does nothing until it is added to a controller"]
pub struct OpinionatedWatcher<K, W> {
    custody: Custody<K>,
    watcher: W,
    sync: OnSync<K>,
}

/// What a sync is.
enum OnSync<K> {
    /// At the start nothing, and what the watcher makes of it when it is periodic.
    Unset,
    /// An add.
    Add,
    /// This.
    Call(Box<dyn Fn(Arc<K>) -> Done + Send + Sync>),
}

type Done = BoxFuture<'static, Result<(), Failure>>;

// === impl OpinionatedWatcher ===

impl<K, W> OpinionatedWatcher<K, W>
where
    K: Resource + Serialize + Send + Sync + 'static,
    W: Watcher<K>,
{
    /// Wraps `watcher`.
    pub fn new(finalizers: Finalizers<K>, watcher: W) -> Self {
        Self {
            custody: Custody::new(finalizers),
            watcher,
            sync: OnSync::Unset,
        }
    }

    /// What to do with an object that was added in an earlier life, and with one that is told
    /// again. By default nothing for the first, and the watcher's
    /// [`resync`](Watcher::resync) for the second.
    pub fn sync<F, Fut, E>(self, f: F) -> Self
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let call = move |object| f(object).map(|done| done.map_err(Into::into)).boxed();
        Self {
            sync: OnSync::Call(Box::new(call)),
            ..self
        }
    }

    /// Tells such objects as adds.
    pub fn sync_to_add(self) -> Self {
        Self {
            sync: OnSync::Add,
            ..self
        }
    }

    /// What is done about an object that leaves the informer's selector. By default the
    /// finalizer goes.
    pub fn on_leave(mut self, leaving: Leaving) -> Self {
        self.custody.leaving = leaving;
        self
    }

    /// Does what is to be done about an object that is there.
    async fn see(&self, told: Told, old: Option<Arc<K>>, object: Arc<K>) -> Result<(), Failure> {
        let (mut told, mut old, mut object) = (told, old, object);
        let custody = &self.custody;
        match (custody.behind(&object), told) {
            // Even if it is again as it was: half of the call may have been done.
            (Some(Behind::Update(since)), _) => {
                told = Told::Updated { matters: true };
                old = Some(since);
            }
            (Some(Behind::Resume), Told::Updated { matters: false }) => told = Told::Resynced,
            _ => {}
        }
        let mut sight = custody.sight(&object);
        let mut progress = custody.progress(&object);
        if let (Standing::Held { tidy: true }, Some(Progress::Held { .. })) =
            (sight.standing, progress)
        {
            // It shows what we knew.
            progress = None;
            custody.take_progress(&object);
        }
        loop {
            match duty(told, sight, progress) {
                Duty::Nothing => return Ok(()),
                Duty::Hold => {
                    let Some(held) = custody.hold(&object).await? else {
                        return Ok(());
                    };
                    if let Some(Progress::Added { again }) = progress {
                        let held = Progress::Held { again };
                        progress = Some(held);
                        custody.note(&object, held);
                    }
                    if let Standing::Held { .. } = sight.standing {
                        sight.standing = Standing::Held { tidy: true };
                    }
                    object = held;
                }
                Duty::Add => {
                    let Some(guarded) = custody.guard(&object).await? else {
                        return Ok(());
                    };
                    object = guarded;
                    sight = custody.sight(&object);
                    if let Standing::Held { .. } = sight.standing {
                        // What we were told was old: it has been added.
                        told = Told::Added;
                        continue;
                    }
                    return self.begin(object).await;
                }
                Duty::Resume => return self.resume(told, object).await,
                Duty::Update => {
                    let old = old.unwrap_or_else(|| Arc::clone(&object));
                    custody.begin(&object, Behind::Update(Arc::clone(&old)));
                    let told = self.watcher.update(old, Arc::clone(&object)).await;
                    told.map_err(Into::into)?;
                    custody.catch_up(&object);
                    return Ok(());
                }
                Duty::Delete => return self.end(object).await,
                Duty::Release => return Ok(custody.release(&object).await?),
            }
        }
    }

    /// Adds an object that is guarded.
    async fn begin(&self, object: Arc<K>) -> Result<(), Failure> {
        let added = self.watcher.add(Arc::clone(&object)).await;
        added.map_err(Into::into)?;
        let custody = &self.custody;
        custody.note(&object, Progress::Added { again: false });
        // If it is on its way out, the guard goes on holding it: what matters is that it is not
        // added again for an older event.
        custody.hold(&object).await?;
        custody.note(&object, Progress::Held { again: false });
        Ok(())
    }

    /// Tells an object that has been added before.
    async fn resume(&self, told: Told, object: Arc<K>) -> Result<(), Failure> {
        self.custody.begin(&object, Behind::Resume);
        let again = Arc::clone(&object);
        match &self.sync {
            OnSync::Unset if told == Told::Resynced => {
                self.watcher.resync(again).await.map_err(Into::into)?;
            }
            OnSync::Unset => {}
            OnSync::Add => self.watcher.add(again).await.map_err(Into::into)?,
            OnSync::Call(call) => call(again).await?,
        }
        self.custody.catch_up(&object);
        Ok(())
    }

    /// Cleans up after an object that we hold, and lets it go.
    async fn end(&self, object: Arc<K>) -> Result<(), Failure> {
        let cleaned = self.watcher.delete(Arc::clone(&object)).await;
        cleaned.map_err(Into::into)?;
        self.custody.note(&object, Progress::Cleaned);
        self.custody.catch_up(&object);
        Ok(self.custody.release(&object).await?)
    }

    /// Finds out about an object that is out of sight.
    async fn miss(&self, last: Arc<K>) -> Result<(), Failure> {
        let custody = &self.custody;
        custody.catch_up(&last);
        let progress = custody.progress(&last);
        let free = custody.sight(&last).standing == Standing::Free && progress.is_none();
        if progress == Some(Progress::Released) || free {
            custody.take_progress(&last);
            return Ok(());
        }
        let fate = custody.fate(&last).await?;
        if progress == Some(Progress::Cleaned) {
            if let Fate::Dying(live) | Fate::Left(live) = fate {
                custody.part(&live).await?;
            }
            custody.take_progress(&last);
            return Ok(());
        }
        // From here on nothing is remembered: a call that is made again finds out anew.
        custody.take_progress(&last);
        match (fate, custody.leaving) {
            (Fate::Gone | Fate::Free, _) => Ok(()),
            (Fate::Dying(live), _) | (Fate::Left(live), Leaving::CleanUp) => {
                self.depart(live).await
            }
            (Fate::Left(live), Leaving::Release) => Ok(custody.part(&live).await?),
            (Fate::Left(live), Leaving::Report) => {
                custody.report(&live);
                Ok(())
            }
        }
    }

    /// Cleans up after an object that is out of sight, and lets it go.
    async fn depart(&self, live: Arc<K>) -> Result<(), Failure> {
        let cleaned = self.watcher.delete(Arc::clone(&live)).await;
        cleaned.map_err(Into::into)?;
        Ok(self.custody.part(&live).await?)
    }
}

impl<K, W> Watcher<K> for OpinionatedWatcher<K, W>
where
    K: Resource + Serialize + Send + Sync + 'static,
    W: Watcher<K>,
{
    type Error = Failure;

    async fn add(&self, object: Arc<K>) -> Result<(), Failure> {
        self.see(Told::Added, None, object).await
    }

    async fn update(&self, old: Arc<K>, new: Arc<K>) -> Result<(), Failure> {
        let matters = change::matters(&self.custody.finalizers, &old, &new);
        self.see(Told::Updated { matters }, Some(old), new).await
    }

    async fn delete(&self, last: Arc<K>) -> Result<(), Failure> {
        self.miss(last).await
    }

    async fn resync(&self, object: Arc<K>) -> Result<(), Failure> {
        self.see(Told::Resynced, None, object).await
    }
}

impl<K, W: fmt::Debug> fmt::Debug for OpinionatedWatcher<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpinionatedWatcher")
            .field("custody", &self.custody)
            .field("watcher", &self.watcher)
            .finish_non_exhaustive()
    }
}

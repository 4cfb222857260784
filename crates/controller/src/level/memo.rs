//! Memos: values in memory that the calls for one object share.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use kube::Resource;
use parking_lot::Mutex;
use windlass_informer::Uid;

use super::{Context, Watchable};
use crate::work::call_user_code;

/// The memos of the objects of a controller, by uid and type, while the objects exist.
#[derive(Default)]
pub(super) struct Memos(Mutex<HashMap<Uid, ByType>>);

type ByType = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

// === impl Memos ===

impl Memos {
    fn get<M: Send + Sync + 'static>(&self, uid: &Uid) -> Option<Arc<M>> {
        let memo = Arc::clone(self.0.lock().get(uid)?.get(&TypeId::of::<M>())?);
        memo.downcast().ok()
    }

    /// Keeps `memo`, unless there is one already or the object does not exist any more. Returns the
    /// one that is kept.
    fn keep<M: Send + Sync + 'static>(
        &self,
        uid: Uid,
        memo: Arc<M>,
        exists: impl FnOnce() -> bool,
    ) -> Arc<M> {
        let mut memos = self.0.lock();
        // Under the lock: the store loses an object before its memos are dropped.
        if !memos.contains_key(&uid) && !exists() {
            return memo;
        }
        let kept = memos.entry(uid).or_default().entry(TypeId::of::<M>());
        let kept = Arc::clone(kept.or_insert_with(|| Arc::clone(&memo) as _));
        drop(memos);
        kept.downcast().unwrap_or(memo)
    }

    /// Drops the memos of an object that was deleted.
    pub(super) fn forget(&self, object: &impl Resource) {
        let uid = object.meta().uid.as_deref().map(Uid::from);
        let memos = uid.and_then(|uid| self.0.lock().remove(&uid));
        // Without the lock, because this is code of the user.
        call_user_code("drop of a memo", || drop(memos));
    }
}

// === impl Context ===

impl<K: Watchable> Context<K> {
    /// The value of type `M` that all calls for this object share, in memory. The first call that
    /// asks for it creates it with `M::default()`.
    ///
    /// Use it for what can be computed or read again, but not cheaply: a connection, a counter, the
    /// hash of the last answer of an external system. A [`state`](Self::state) is for one retry or
    /// requeue only.
    ///
    /// *Guaranteed.* The value stays the same over all calls for the object, whether they succeed,
    /// fail or panic. Each object has its own, by its uid, and one of each type: a successor with the
    /// same name starts with a new value, also if the watch missed the deletion. It is dropped
    /// after the last call for a deleted object, so that a [clean-up](super::ObjectReconciler::cleanup)
    /// still has it.
    ///
    /// *Required.* `M` changes its content through a lock or an atomic. Do not keep the `Arc` after
    /// the call: the value is dropped with its last `Arc`.
    ///
    /// *Not guaranteed.* It does not survive a restart, and another leader does not have it: a call
    /// must be correct with a new value. A clean-up that fails after the object has disappeared is
    /// repeated with a new value. Objects of a watch that was [removed](super::Informers::remove) keep
    /// their values while the controller exists.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_controller::{Context, Failure, Outcome};
    ///
    /// #[derive(Default)]
    /// struct Calls(AtomicU32);
    ///
    /// async fn reconcile(cx: Context<ConfigMap>) -> Result<Outcome, Failure> {
    ///     let before = cx.memo::<Calls>().0.fetch_add(1, Ordering::Relaxed);
    ///     println!("call number {} for {}", before + 1, cx.key());
    ///     Ok(Outcome::done())
    /// }
    /// # _ = reconcile;
    /// ```
    #[must_use]
    pub fn memo<M: Default + Send + Sync + 'static>(&self) -> Arc<M> {
        let memos = &self.call.setup.memos;
        let Some(uid) = self.object().meta().uid.as_deref().map(Uid::from) else {
            return Arc::default();
        };
        match memos.get(&uid) {
            Some(memo) => memo,
            None => memos.keep(uid, Arc::default(), || self.stored().is_some()),
        }
    }
}

//! Children of the object of a call: apply, delete and prune.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::Resource;
use parking_lot::Mutex;
use serde::Serialize;
use windlass_informer::{LazyObject, ObjectIdentity, ObjectKey, Uid, log};

use super::{Context, Mode, Owned, Watchable, claims::slot};
use crate::{
    Failure, ObjectEvent, Outcome,
    children::{
        Applied, CheckedChild, ChildError, ChildKeys, ChildKind, ChildMemory, Children, ClaimBy,
        Contention, Deleted, IntoDesired, InvalidChild, Parent,
    },
};

/// What the calls for each object remember of its children, while the object exists.
#[derive(Default)]
pub(super) struct Memories(Mutex<HashMap<Uid, Arc<Mutex<ChildMemory>>>>);

/// What one call has written.
#[derive(Default)]
pub(super) struct CallWrites {
    /// The children that were applied, and those of [`Dependents`](super::Dependents): they are not
    /// pruned.
    applied: Mutex<ChildKeys>,
    /// When the call has to be repeated, although it succeeds.
    repeat_after: Mutex<Option<Duration>>,
}

/// When a call is repeated that did not delete children because its stores did not show its own
/// writes: they do at the next change of the watch, and a watch that hangs is renewed within minutes.
pub(super) const STALE_DELETE: Duration = Duration::from_secs(5);

// === impl Memories ===

impl Memories {
    pub(super) fn of(&self, object: &impl Resource) -> Arc<Mutex<ChildMemory>> {
        let uid = object.meta().uid.as_deref().map(Uid::from);
        let Some(uid) = uid else {
            // Refused by `Parent::of`.
            return Arc::new(Mutex::new(ChildMemory::new()));
        };
        let mut memories = self.0.lock();
        let memory = memories.entry(uid);
        Arc::clone(memory.or_insert_with(|| Arc::new(Mutex::new(ChildMemory::new()))))
    }

    /// Forgets an object that was deleted.
    pub(super) fn forget(&self, object: &impl Resource) {
        if let Some(uid) = &object.meta().uid {
            self.0.lock().remove(&Uid::from(uid.as_str()));
        }
    }
}

// === impl CallWrites ===

impl CallWrites {
    /// Prevents that these children are pruned.
    pub(super) fn keep(&self, children: ChildKeys) {
        self.applied.lock().extend(children);
    }

    pub(super) fn repeat_after(&self, wait: Duration) {
        let mut known = self.repeat_after.lock();
        *known = Some(known.map_or(wait, |known| known.min(wait)));
    }

    /// The outcome of a call that has succeeded: repeated earlier, if a child was delayed.
    pub(super) fn outcome(&self, outcome: Outcome) -> Outcome {
        match *self.repeat_after.lock() {
            Some(wait) if outcome.delay().is_none_or(|delay| delay > wait) => outcome.delayed(wait),
            _ => outcome,
        }
    }
}

// === impl Context ===

impl<K: Watchable> Context<K> {
    /// The children of the object, with what earlier calls remembered of them.
    ///
    /// # Errors
    ///
    /// [`ChildError::NoUid`] if the object does not come from an API server.
    #[doc(hidden)]
    pub fn children(&self) -> Result<Children, ChildError> {
        let setup = &self.call.setup;
        Ok(Children {
            client: self.client(),
            parent: Parent::of(&**self.object(), setup.types(), self.field_manager())?,
            memory: setup.memories.of(&**self.object()),
        })
    }

    /// Whether the object is deleted without its children, with `--cascade=orphan`.
    pub(super) fn leaves_children(&self) -> bool {
        let metadata = self.object().meta();
        let finalizers = metadata.finalizers.iter().flatten();
        metadata.deletion_timestamp.is_some() && finalizers.into_iter().any(|it| it == "orphan")
    }

    /// The object in the store, unless it was deleted.
    #[doc(hidden)]
    #[must_use]
    pub fn stored(&self) -> Option<LazyObject<K>> {
        let stored = self.call.setup.primaries.get_lazy(self.key())?;
        (stored.uid() == self.object().meta().uid.as_deref()).then_some(stored)
    }

    /// Logs a Warning and publishes an Event about the object: another writer reverts a child of it.
    #[doc(hidden)]
    pub fn report_contention(&self, contention: &Contention) {
        let Contention {
            resource,
            key,
            conflicts,
        } = contention;
        let fields = conflicts.join("; ");
        log::warn!(
            component = "Controller",
            object = %self.key(),
            child = %key,
            fields,
            "another writer reverts a child, applying it less often"
        );
        let note =
            format!("another writer reverts {resource} {key}, applying it less often: {fields}");
        self.event(ObjectEvent::warning("ChildContended", note).action("Apply"));
    }
}

// === impl Owned ===

impl<K: Watchable, C: Watchable + Serialize> Owned<K, C> {
    /// Brings one child of the object of `cx` to its desired state, by server-side apply. Returns the
    /// newest known state of the child.
    ///
    /// Namespace, owner reference and labels are added, and the name of the object of `cx` if
    /// `desired` has none. A child that is as desired causes no request, except once after a start. A
    /// change of a field in `desired` by another writer is reverted, and fields that are not in
    /// `desired` are left alone. If another writer reverts the child again and again, it is applied
    /// less often, down to once in 5 minutes, with a Warning Event.
    ///
    /// While the object is [paused](Mode::Paused), nothing is sent: the result is the child of the
    /// store or, if there is none, the desired one without a uid. If it does not decode because it has
    /// too few fields, the call ends as after a refused write.
    ///
    /// # Errors
    ///
    /// [`ChildError`]: an invalid child; an object of this name that is not a child of the object of
    /// `cx`; a refused request. After [`ChildError::Invalid`] nothing was written.
    pub async fn apply(
        &self,
        cx: &Context<K>,
        desired: impl IntoDesired<C> + Send,
    ) -> Result<Arc<C>, Failure> {
        let (kind, mut known) = (self.kind(), ChildKeys::new());
        let children = cx.children().map_err(failure)?;
        let checked = (children.parent).check_one(&kind, desired.into_desired(), &mut known);
        let child = checked.map_err(failure)?;
        if cx.mode() == Mode::Paused {
            if let Some(stored) = self.newest(cx, child.key()) {
                return Ok(stored.get()?);
            }
            let refuse = || (cx.call.writer).refuse("PATCH", &kind.resource(), child.key());
            return child.unsent().map(Arc::new).ok_or_else(refuse);
        }
        cx.call.writes.keep(known);
        let applied = self.apply_checked(cx, &children, &child).await;
        Ok(applied.map_err(failure)?.object)
    }

    /// Applies a child, and reports another writer that reverts it.
    pub(super) async fn apply_checked(
        &self,
        cx: &Context<K>,
        children: &Children,
        child: &CheckedChild,
    ) -> Result<Applied<C>, ChildError> {
        self.check_selected(cx, child)?;
        let stored = self.newest(cx, child.key());
        let applied = children.apply(child, stored).await?;
        if let Some(wait) = applied.repeat_after {
            cx.call.writes.repeat_after(wait);
        }
        if let Some(contention) = &applied.contention {
            cx.report_contention(contention);
        }
        Ok(applied)
    }

    /// Adopts and releases children by the selector of the object of `cx`, and returns its children,
    /// sorted by key. Call it first: it decides which children the object has.
    ///
    /// - An object that the selector matches and that has no controller is adopted: the object of `cx`
    ///   becomes its controller, and its other owners stay.
    /// - A child that the selector does not match is released: its owner reference to the object of
    ///   `cx`, and the labels and the annotation that [`apply`](Self::apply) adds, are removed. It keeps
    ///   its name, so that further children need other names, and an [`apply`](Self::apply) with its name
    ///   is an error.
    /// - An object with another controller is left alone. If the selectors of two objects match the same
    ///   one, the first that adopts it keeps it.
    /// - An object that is being deleted is not adopted. An object of `cx` that is being deleted or
    ///   [paused](Mode::Paused) adopts and releases nothing.
    ///
    /// The objects are those of the store, and nothing is sent if there is nothing to adopt or release.
    /// Before the first adoption the object of `cx` is read from the API server. Each request names the
    /// uid and the version of the child, so that it is neither adopted nor released if it has changed
    /// since.
    ///
    /// Without a selector, of a kind that was added with
    /// [`owns`](super::ControllerBuilder::owns), these are the children that [`of`](Self::of) returns.
    ///
    /// # Errors
    ///
    /// [`ChildError::InvalidSelector`] if the selector is invalid or empty;
    /// [`ChildError::ParentGone`] if the object of `cx` was deleted or replaced; a refused request,
    /// after all were tried; a child that does not decode.
    ///
    /// Source: Kubernetes, `pkg/controller/controller_ref_manager.go`.
    pub async fn claim(&self, cx: &Context<K>) -> Result<Vec<Arc<C>>, Failure> {
        let Some(claims) = &self.claims else {
            return Ok(self.of(cx));
        };
        let parent = ChildKind::of::<K>(cx.call.setup.types());
        let selector = claims.selector(&parent, cx.object()).map_err(failure)?;
        let children = cx.children().map_err(failure)?;
        let mut candidates = self.lazy(cx);
        let known: HashSet<_> = candidates.iter().map(ObjectIdentity::key).collect();
        let slot = slot(cx.key().namespace(), selector.required());
        // The index is declared in all informers of this kind.
        let orphans = self.informers().keys_by(&claims.orphans, &slot);
        let orphans = orphans.unwrap_or_default().into_iter();
        let orphans = orphans.filter(|key| !known.contains(key));
        candidates.extend(orphans.filter_map(|key| self.newest(cx, &key)));
        candidates.sort_by_cached_key(ObjectIdentity::key);
        let is_terminating = cx.object().meta().deletion_timestamp.is_some();
        let by = ClaimBy {
            selector: &selector,
            parent: &parent,
            writes: cx.mode() == Mode::Normal && !is_terminating,
        };
        let claimed = children.claim(&self.kind(), &by, candidates).await;
        claimed.map_err(failure)
    }

    /// Checks that the selector of the object of `cx` matches the labels of a desired child.
    fn check_selected(&self, cx: &Context<K>, child: &CheckedChild) -> Result<(), ChildError> {
        let Some(claims) = &self.claims else {
            return Ok(());
        };
        let parent = ChildKind::of::<K>(cx.call.setup.types());
        let selector = claims.selector(&parent, cx.object())?;
        if selector.matches(Some(&child.labels())) {
            return Ok(());
        }
        Err(ChildError::Invalid {
            resource: self.kind().resource(),
            name: child.key().to_string(),
            source: InvalidChild::NotSelected {
                selector: selector.to_string(),
            },
        })
    }

    /// Deletes a child of the object of `cx`, and no other object of its name. While the object of
    /// `cx` is [paused](Mode::Paused), it does nothing.
    ///
    /// # Errors
    ///
    /// [`ChildError`] if it is not a child of the object of `cx`, or the request is refused.
    pub async fn delete(&self, cx: &Context<K>, child: &C) -> Result<Deleted, Failure> {
        if cx.mode() == Mode::Paused {
            return Ok(Deleted::Skipped);
        }
        let children = cx.children().map_err(failure)?;
        let deleted = children.delete(&self.kind(), child.meta()).await;
        deleted.map_err(failure)
    }

    /// Deletes the children of the object of `cx` that this call has not applied, except those of
    /// [`Dependents`](super::Dependents) and those with the annotation `windlass.dev/keep`. Returns their
    /// number. Call it after all children were applied.
    ///
    /// The garbage collector does not know the annotation: Kubernetes deletes a child with an owner
    /// reference together with the object.
    ///
    /// It does nothing while the object is [paused](Mode::Paused), or is deleted with
    /// `--cascade=orphan`. In a [stale](Context::is_stale) call it does nothing either, and the call is
    /// repeated.
    ///
    /// # Errors
    ///
    /// [`ChildError`] if a request is refused, after all were tried, except for further ones of a
    /// namespace in which the permission to delete is missing.
    pub async fn prune(&self, cx: &Context<K>) -> Result<usize, Failure> {
        if cx.mode() == Mode::Paused || cx.leaves_children() {
            return Ok(0);
        }
        if cx.is_stale() {
            cx.call.writes.repeat_after(STALE_DELETE);
            return Ok(0);
        }
        let (kind, children) = (self.kind(), cx.children().map_err(failure)?);
        let applied = cx.call.writes.applied.lock().clone();
        let is_desired = |key: &ObjectKey| applied.contains(&(kind.resource(), key.clone()));
        let stored = self.lazy(cx);
        let pruned = children
            .prune(&kind, stored, is_desired)
            .await
            .map_err(failure)?;
        Ok(pruned.deleted.len())
    }

    pub(super) fn kind(&self) -> ChildKind {
        ChildKind::of::<C>(self.informers().types())
    }
}

pub(super) fn failure(error: ChildError) -> Failure {
    let (is_conflict, is_invalid) = (error.is_conflict(), error.is_invalid());
    let contended = match &error {
        ChildError::Contended { wait, .. } => Some(*wait),
        _ => None,
    };
    let failure = Failure::new(error);
    match (is_conflict, is_invalid, contended) {
        (true, _, _) => failure.conflict(),
        // The next event may have a valid one.
        (_, true, _) => failure.permanent(),
        (_, _, Some(wait)) => failure.retry_after(wait),
        _ => failure,
    }
}

//! `ErasedDependent`: a dependent without the type of its children.

use futures::future::BoxFuture;
use serde::Serialize;
use windlass_informer::{ObjectIdentity as _, ObjectKey};

use super::{Context, Dependent, Watchable, check::is_observed};
use crate::children::{
    CheckedChild, ChildError, ChildKeys, ChildKind, ChildOutcome, Children, Parent,
};
use crate::{level::children::STALE_DELETE, work::call_user_code};

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Ready,
    NotReady,
    Failed,
    /// It was not updated, because that is left to another client.
    Outdated,
}

/// A dependent without the type of its children.
pub(super) trait ErasedDependent<K: Watchable>: Send + Sync {
    fn kind(&self) -> ChildKind;

    /// The keys of the children, also of invalid ones.
    fn keys(&self, parent: &Parent) -> Vec<ObjectKey>;

    /// Checks the desired children, once.
    fn check(
        &mut self,
        parent: &Parent,
        known: &mut ChildKeys,
    ) -> Result<Vec<CheckedChild>, ChildError>;

    /// Whether a child exists, as far as it is known.
    fn exists(&self, cx: &Context<K>, key: &ObjectKey) -> bool;

    /// The state of a child, as it is known. Not ready if it does not exist.
    fn progress(&self, cx: &Context<K>, key: &ObjectKey) -> Result<Progress, ChildError>;

    /// How many children are updated at a time.
    fn at_most(&self) -> Option<usize>;

    /// The state of a child that exists and has to be updated, if children are updated a few at a time.
    fn outdated(
        &self,
        cx: &Context<K>,
        children: &Children,
        child: &CheckedChild,
    ) -> Option<Progress>;

    /// Applies a child.
    fn apply<'a>(
        &'a self,
        cx: &'a Context<K>,
        children: &'a Children,
        child: &'a CheckedChild,
    ) -> BoxFuture<'a, Result<Progress, ChildError>>;

    /// Deletes a child. Returns whether it no longer exists. `is_clean_up`: one that the garbage
    /// collector does not delete is read, if it is not known.
    fn delete<'a>(
        &'a self,
        cx: &'a Context<K>,
        children: &'a Children,
        key: &'a ObjectKey,
        is_clean_up: bool,
    ) -> BoxFuture<'a, Result<bool, ChildError>>;
}

// === impl Dependent ===

impl<K: Watchable, C: Watchable + Serialize> Dependent<K, C> {
    const fn has_checks(&self) -> bool {
        self.ready.is_some() || self.failed.is_some()
    }

    /// The state of `child`, which has this key.
    fn progress_of(&self, key: &ObjectKey, child: &C) -> Result<Progress, ChildError> {
        let progress = call_user_code("check of a dependent", || self.checked(child));
        progress.ok_or_else(|| ChildError::CheckPanicked {
            resource: self.owned.kind().resource(),
            key: key.clone(),
        })
    }

    fn checked(&self, child: &C) -> Progress {
        let is_terminating = child.meta().deletion_timestamp.is_some();
        if is_terminating || (self.has_checks() && !is_observed(child)) {
            Progress::NotReady
        } else if self.failed.as_ref().is_some_and(|check| check(child)) {
            Progress::Failed
        } else if self.ready.as_ref().is_none_or(|check| check(child)) {
            Progress::Ready
        } else {
            Progress::NotReady
        }
    }
}

impl<K: Watchable, C: Watchable + Serialize> ErasedDependent<K> for Dependent<K, C> {
    fn kind(&self) -> ChildKind {
        self.owned.kind()
    }

    fn keys(&self, parent: &Parent) -> Vec<ObjectKey> {
        let kind = self.owned.kind();
        let keys = self.desired.iter().filter_map(|it| it.key(parent, &kind));
        keys.collect()
    }

    fn check(
        &mut self,
        parent: &Parent,
        known: &mut ChildKeys,
    ) -> Result<Vec<CheckedChild>, ChildError> {
        let kind = self.owned.kind();
        let desired = std::mem::take(&mut self.desired).into_iter();
        let checked = desired.map(|it| parent.check_one(&kind, it, known));
        checked.collect()
    }

    fn exists(&self, cx: &Context<K>, key: &ObjectKey) -> bool {
        self.owned.child(cx, key).is_some()
    }

    fn progress(&self, cx: &Context<K>, key: &ObjectKey) -> Result<Progress, ChildError> {
        match self.owned.child(cx, key) {
            Some(child) => self.progress_of(key, &child),
            None => Ok(Progress::NotReady),
        }
    }

    fn at_most(&self) -> Option<usize> {
        self.at_most
    }

    fn outdated(
        &self,
        cx: &Context<K>,
        children: &Children,
        child: &CheckedChild,
    ) -> Option<Progress> {
        self.at_most?;
        // Also one that is to be adopted, or does not decode.
        let Some(existing) = self.owned.newest(cx, child.key()) else {
            // The store of a stale call can lack it. It is updated once the store has it.
            let is_outdated = cx.is_stale() && children.was_applied_differently(child);
            return is_outdated.then_some(Progress::NotReady);
        };
        let is_outdated = children.is_outdated(child, &existing.metadata());
        let progress = || {
            let existing = existing.get().ok()?;
            self.progress_of(child.key(), &existing).ok()
        };
        is_outdated.then(|| progress().unwrap_or(Progress::NotReady))
    }

    fn apply<'a>(
        &'a self,
        cx: &'a Context<K>,
        children: &'a Children,
        child: &'a CheckedChild,
    ) -> BoxFuture<'a, Result<Progress, ChildError>> {
        Box::pin(async move {
            let applied = self.owned.apply_checked(cx, children, child).await?;
            Ok(match applied.outcome {
                // Its status can be that of an earlier desired state.
                ChildOutcome::Unchanged if cx.is_stale() && self.has_checks() => {
                    cx.call.writes.repeat_after(STALE_DELETE);
                    Progress::NotReady
                }
                // The event of the last apply follows.
                ChildOutcome::Unchanged
                    if self.has_checks() && children.is_behind(child, applied.object.meta()) =>
                {
                    Progress::NotReady
                }
                ChildOutcome::Changed | ChildOutcome::Unchanged
                    if self.at_most.is_some()
                        && children.is_outdated(child, applied.object.meta()) =>
                {
                    Progress::Outdated
                }
                ChildOutcome::Created | ChildOutcome::Changed | ChildOutcome::Unchanged => {
                    self.progress_of(child.key(), &applied.object)?
                }
                _ => Progress::NotReady,
            })
        })
    }

    fn delete<'a>(
        &'a self,
        cx: &'a Context<K>,
        children: &'a Children,
        key: &'a ObjectKey,
        is_clean_up: bool,
    ) -> BoxFuture<'a, Result<bool, ChildError>> {
        Box::pin(async move {
            let (kind, stored) = (self.owned.kind(), self.owned.newest(cx, key));
            let reads = is_clean_up && !children.parent.can_own(key.namespace());
            let removed = children.remove(&kind, key, stored.as_ref(), reads);
            if !removed.await? {
                return Ok(true);
            }
            let Some(stored) = stored else {
                // Its deletion causes no event.
                cx.call.writes.repeat_after(STALE_DELETE);
                return Ok(false);
            };
            // The answer to the delete says whether it was deleted, or waits for its finalizers.
            let left = self.owned.newest(cx, key);
            Ok(left.is_none_or(|left| left.uid() != stored.uid()))
        })
    }
}

//! One apply or delete of `Dependents`.

use serde::Serialize;
use windlass_informer::ObjectKey;

use super::{
    Context, Dependent, DependentState, Watchable,
    erased::{ErasedDependent, Progress},
    rollout::Rollout,
    states::Reported,
};
use crate::{
    Failure,
    children::{CheckedChild, ChildError, ChildErrors, ChildKeys, Children},
    level::{
        Mode,
        children::{STALE_DELETE, failure},
    },
};

/// A dependent of a plan.
pub(super) struct Node<K: Watchable> {
    pub(super) is_wanted: bool,
    /// The indexes of the dependents that it depends on. All are less than its own.
    after: Vec<usize>,
    dependent: Box<dyn ErasedDependent<K>>,
    /// The kind of its children, as `plural.group`.
    resource: String,
    keys: Vec<ObjectKey>,
    /// Empty before the check, and if it is not wanted.
    checked: Vec<CheckedChild>,
}

/// One apply or delete.
pub(super) struct Run<'a, K: Watchable> {
    cx: &'a Context<K>,
    children: Children,
    nodes: Vec<Node<K>>,
    /// Of each node.
    states: Vec<Reported>,
    pub(super) is_clean_up: bool,
    errors: Vec<ChildError>,
}

// === impl Node ===

impl<K: Watchable> Node<K> {
    pub(super) fn new<C: Watchable + Serialize>(
        dependent: Dependent<K, C>,
        after: Vec<usize>,
        is_wanted: bool,
    ) -> Self {
        Self {
            is_wanted,
            after,
            dependent: Box::new(dependent),
            resource: String::new(),
            keys: Vec::new(),
            checked: Vec::new(),
        }
    }

    /// The name of the dependent: that of its first child.
    fn name(&self) -> String {
        let first = self.keys.first().map(ToString::to_string);
        format!("{} {}", self.resource, first.unwrap_or_default())
    }
}

// === impl Run ===

impl<'a, K: Watchable> Run<'a, K> {
    /// From here on [`Owned::prune`](super::Owned::prune) leaves the children, whether they are valid.
    pub(super) fn new(cx: &'a Context<K>, mut nodes: Vec<Node<K>>) -> Result<Self, Failure> {
        let children = cx.children().map_err(failure)?;
        for node in &mut nodes {
            node.resource = node.dependent.kind().resource();
            node.keys = node.dependent.keys(&children.parent);
            let keys = node.keys.iter().cloned();
            (cx.call.writes).keep(keys.map(|key| (node.resource.clone(), key)).collect());
        }
        Ok(Self {
            cx,
            children,
            states: vec![(DependentState::Waiting, None); nodes.len()],
            nodes,
            is_clean_up: false,
            errors: Vec::new(),
        })
    }

    /// Checks all dependents before the first write.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        let (parent, mut known) = (&self.children.parent, ChildKeys::new());
        for node in &mut self.nodes {
            if node.is_wanted {
                let checked = node.dependent.check(parent, &mut known);
                node.checked = checked.map_err(failure)?;
                continue;
            }
            let kind = node.dependent.kind();
            for key in &node.keys {
                let checked = parent.check_new(&kind, key, &mut known);
                checked.map_err(failure)?;
            }
        }
        Ok(())
    }

    /// Deletes the dependents that are not wanted, the last one first.
    pub(super) async fn delete_unwanted(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            if !self.nodes[index].is_wanted {
                let (state, errors) = self.delete(index).await;
                self.states[index] = state;
                self.errors.extend(errors);
            }
        }
    }

    async fn delete(&self, index: usize) -> (Reported, Vec<ChildError>) {
        let node = &self.nodes[index];
        let is_held = |&later: &usize| {
            let is_deleted = self.states[later].0 == DependentState::Deleted;
            self.nodes[later].after.contains(&index) && !is_deleted
        };
        if let Some(holder) = (index + 1..self.nodes.len()).find(is_held) {
            let (name, holder) = (node.name(), self.nodes[holder].name());
            let reason = format!("{name} waits for the deletion of {holder}");
            return ((DependentState::Deleting, Some(reason)), Vec::new());
        }
        let (mut state, mut errors) = ((DependentState::Deleted, None), Vec::new());
        for key in &node.keys {
            let is_deleted = self.delete_child(node, key).await;
            if !is_deleted.as_ref().is_ok_and(|is_deleted| *is_deleted) {
                let reason = format!("{} {key} is being deleted", node.resource);
                state = (DependentState::Deleting, Some(reason));
            }
            errors.extend(is_deleted.err());
        }
        (state, errors)
    }

    /// Deletes a child, unless nothing is deleted in this call. Returns whether it no longer exists.
    async fn delete_child(&self, node: &Node<K>, key: &ObjectKey) -> Result<bool, ChildError> {
        if self.cx.mode() == Mode::Paused {
            return Ok(!node.dependent.exists(self.cx, key));
        }
        if self.cx.is_stale() {
            self.cx.call.writes.repeat_after(STALE_DELETE);
            return Ok(false);
        }
        let (children, is_clean_up) = (&self.children, self.is_clean_up);
        (node.dependent.delete(self.cx, children, key, is_clean_up)).await
    }

    /// Applies the dependents that are wanted, the first one first.
    pub(super) async fn apply_wanted(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].is_wanted {
                let (state, errors) = self.apply(index).await;
                self.states[index] = state;
                self.errors.extend(errors);
            }
        }
    }

    async fn apply(&self, index: usize) -> (Reported, Vec<ChildError>) {
        let node = &self.nodes[index];
        let is_ready = |earlier: &&usize| self.states[**earlier].0 == DependentState::Ready;
        if let Some(&earlier) = node.after.iter().find(|it| !is_ready(it)) {
            let reason = format!("{} waits for {}", node.name(), self.nodes[earlier].name());
            return ((DependentState::Waiting, Some(reason)), Vec::new());
        }
        let (mut rollout, mut outdated) = (Rollout::default(), Vec::new());
        for child in &node.checked {
            match node.dependent.outdated(self.cx, &self.children, child) {
                Some(progress) => outdated.push((child, progress)),
                None => self.apply_child(node, child, &mut rollout).await,
            }
        }
        if !outdated.is_empty() && self.cx.is_stale() {
            self.cx.call.writes.repeat_after(STALE_DELETE);
        }
        let at_most = match self.cx.mode() {
            Mode::Normal if !self.cx.is_stale() => node.dependent.at_most(),
            _ => Some(0),
        };
        let at_most = at_most.unwrap_or(usize::MAX);
        // A child that is ready is updated after those that are not, so that no more than the limit are
        // not ready because of updates, and a bad state is replaced.
        outdated.sort_by_key(|(_, progress)| *progress == Progress::Ready);
        for (child, _) in outdated {
            if rollout.allows_update(at_most) {
                self.apply_child(node, child, &mut rollout).await;
            } else {
                rollout.wait();
            }
        }
        rollout.reported(&node.name())
    }

    async fn apply_child(&self, node: &Node<K>, child: &CheckedChild, rollout: &mut Rollout) {
        let progress = if self.cx.mode() == Mode::Paused {
            node.dependent.progress(self.cx, child.key())
        } else {
            (node.dependent.apply(self.cx, &self.children, child)).await
        };
        let name = format!("{} {}", node.resource, child.key());
        rollout.add(&name, progress);
    }

    /// The states of all dependents, and the failure of those that were not written or deleted.
    pub(super) fn finish(self) -> (Vec<Reported>, Option<Failure>) {
        let errors = ChildErrors::new(self.errors);
        (self.states, errors.map(ChildErrors::into_failure))
    }
}

//! Sets of paths, as trees.

use std::collections::{BTreeMap, BTreeSet};

use super::path::PathElement;
use super::types::Shape;

/// A set of paths.
///
/// Each path is a separate member: a set with `.spec.a` does not contain `.spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// The paths of one step.
    pub(super) members: BTreeSet<PathElement>,
    /// The rest of longer paths, by their first step.
    pub(super) children: BTreeMap<PathElement, Set>,
}

// === impl Set ===

impl Set {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Adds a path, unless it is empty: the path of the object itself.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => _ = self.members.insert(last.clone()),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Adds a path of fields.
    pub(super) fn insert_fields(&mut self, path: &[&str]) {
        let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
        self.insert(&path);
    }

    pub(super) fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self
                .children
                .get(first)
                .is_some_and(|child| child.contains(rest)),
        }
    }

    /// Returns the rest of the paths that begin with `step`.
    pub(super) fn below(&self, step: &PathElement) -> Option<&Self> {
        self.children.get(step).filter(|child| !child.is_empty())
    }

    /// Adds the path of one step if `is_member`, and the paths that begin with it.
    pub(super) fn add(&mut self, step: impl Fn() -> PathElement, is_member: bool, below: Self) {
        if is_member {
            self.members.insert(step());
        }
        if !below.is_empty() {
            self.children.entry(step()).or_default().extend(below);
        }
    }

    /// Returns the paths that are in one of the sets.
    pub(super) fn union(mut self, other: Self) -> Self {
        self.extend(other);
        self
    }

    fn extend(&mut self, other: Self) {
        if self.members.is_empty() && self.children.is_empty() {
            *self = other;
            return;
        }
        self.members.extend(other.members);
        for (step, child) in other.children {
            self.children.entry(step).or_default().extend(child);
        }
    }

    /// Returns the paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, child)| {
            let both = child.intersection(other.children.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns the paths that are not in `other`. Paths below those of `other` are not removed.
    pub(super) fn difference(mut self, other: &Self) -> Self {
        self.remove(other, false);
        self
    }

    /// Returns the paths that are not in `other` and not below one of its paths.
    pub(super) fn without_below(mut self, other: &Self) -> Self {
        self.remove(other, true);
        self
    }

    /// Removes the paths of `other`, and the paths below them if `and_below`.
    fn remove(&mut self, other: &Self, and_below: bool) {
        for step in &other.members {
            self.members.remove(step);
            if and_below {
                self.children.remove(step);
            }
        }
        for (step, other) in &other.children {
            let Some(child) = self.children.get_mut(step) else {
                continue;
            };
            child.remove(other, and_below);
            if child.is_empty() {
                self.children.remove(step);
            }
        }
    }

    /// Returns the paths and their parents that the type has as fields: for `.spec.a` also `.spec`.
    pub(super) fn with_named_fields(&self, shape: Shape<'_>) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (step, child) in &self.children {
            if let PathElement::Field(name) = step
                && shape.names(name)
            {
                members.insert(step.clone());
            }
            let child = child.with_named_fields(shape.step(step));
            children.insert(step.clone(), child);
        }
        Self { members, children }
    }

    /// Returns the ownership after a change of the type: a value that was granular and is atomic now
    /// is owned as a whole.
    pub(super) fn reconciled(mut self, shape: Shape<'_>) -> Self {
        for (step, child) in std::mem::take(&mut self.children) {
            let below = shape.step(&step);
            if below.is_atomic() {
                self.members.insert(step);
            } else {
                self.children.insert(step, child.reconciled(below));
            }
        }
        self
    }

    /// Returns all paths, the shorter ones first.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for step in &self.members {
            let mut path = prefix.clone();
            path.push(step.clone());
            paths.push(path);
        }
        for (step, child) in &self.children {
            prefix.push(step.clone());
            child.collect(prefix, paths);
            prefix.pop();
        }
    }
}

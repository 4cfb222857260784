//! `ChildConfig`: how the children of one kind are written.

use windlass_controller::{Desired, UpdateStrategy};

/// How the children of one kind are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a configuration has an effect when it is given to a builder"]
pub struct ChildConfig {
    strategy: UpdateStrategy,
    is_adopted: bool,
    pub(crate) is_elsewhere: bool,
    pub(crate) is_cluster_scoped: bool,
    earlier_managers: Vec<String>,
}

// === impl ChildConfig ===

impl ChildConfig {
    /// Changes children by server-side apply: fields of other writers stay. The default.
    #[doc(alias = "replace")]
    pub fn apply() -> Self {
        Self::default()
    }

    /// Deletes a changed child and creates it again, for kinds whose objects cannot be changed, such
    /// as Pods. See [`UpdateStrategy::Recreate`].
    pub fn recreate() -> Self {
        Self::of(UpdateStrategy::Recreate)
    }

    /// Leaves existing children as they are. See [`UpdateStrategy::OnDelete`].
    pub fn on_delete() -> Self {
        Self::of(UpdateStrategy::OnDelete)
    }

    fn of(strategy: UpdateStrategy) -> Self {
        Self {
            strategy,
            ..Self::default()
        }
    }

    /// Takes over objects that exist already and that no other object controls. By default such an
    /// object is an error, and is not changed.
    pub fn adopt(self) -> Self {
        Self {
            is_adopted: true,
            ..self
        }
    }

    /// Allows children in other namespaces than their parent, and cluster-scoped children of a parent
    /// with a namespace. Kubernetes does not delete them together with their parent: the controller
    /// does, before it removes the finalizer. Without this, such a child is an error.
    pub fn elsewhere(self) -> Self {
        Self {
            is_elsewhere: true,
            ..self
        }
    }

    /// Takes over the fields that `manager` has set with creates and updates, so that those that a
    /// response does not have are removed. See [`Desired::migrate_from`].
    pub fn migrate_from(mut self, manager: impl Into<String>) -> Self {
        self.earlier_managers.push(manager.into());
        self
    }

    /// Declares that the objects of a kind that is known only at run time have no namespace.
    pub fn cluster_scoped(self) -> Self {
        Self {
            is_cluster_scoped: true,
            ..self
        }
    }

    /// A desired child of this kind.
    pub(crate) fn desired<C>(&self, child: serde_json::Value) -> Desired<C> {
        let mut desired = Desired::json(child).strategy(self.strategy);
        if self.is_adopted {
            desired = desired.adopt();
        }
        if self.is_elsewhere {
            desired = desired.untracked_owner();
        }
        let earlier = self.earlier_managers.iter();
        earlier.fold(desired, Desired::migrate_from)
    }
}

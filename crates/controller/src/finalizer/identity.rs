//! `FinalizerIdentity`: the names of a finalizer on the objects of one resource.

use std::sync::Arc;

use super::{FinalizerName, plan::Names};

/// The names of a finalizer on the objects of one resource: its name, its in-progress form, and its
/// legacy names.
#[derive(Clone, Debug)]
pub(crate) struct FinalizerIdentity {
    pub(crate) names: Names,
    /// The kind, as `plural.group`.
    pub(crate) resource: Arc<str>,
}

// === impl FinalizerIdentity ===

impl FinalizerIdentity {
    /// The finalizer called `name` on the objects of `resource`, which is `plural.group`.
    pub(crate) fn new(resource: impl Into<Arc<str>>, name: FinalizerName) -> Self {
        Self {
            names: Names::new(name),
            resource: resource.into(),
        }
    }

    /// The name of the finalizer.
    pub(crate) const fn name(&self) -> &FinalizerName {
        &self.names.own
    }

    /// The first of these names that is also a name of `other` on the same resource.
    pub(crate) fn name_shared_with(&self, other: &Self) -> Option<&FinalizerName> {
        let mut names = self.names.all();
        names.find(|it| self.resource == other.resource && other.names.is_ours(it.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_resource_clash_in_each_form() {
        check("own", "own", Some("own"));
        check("own", "other", None);
        check("own", "own.in-progress", Some("own.in-progress"));
        check("own.in-progress", "own", Some("own.in-progress"));
        check("new was own", "own", Some("own"));
        check("own", "new was own", Some("own"));
        check("new was own", "own.in-progress", Some("own.in-progress"));
        check("new was own", "newer was own", Some("own"));
    }

    #[test]
    fn names_of_different_resources_do_not_clash() {
        let name = || FinalizerName::new("own").expect("a name");
        let configs = FinalizerIdentity::new("configmaps", name());
        let leases = FinalizerIdentity::new("leases.coordination.k8s.io", name());
        assert_eq!(configs.name_shared_with(&leases), None);
        assert_eq!(configs.name_shared_with(&configs), Some(&name()));
    }

    #[track_caller]
    fn check(own: &str, other: &str, expected: Option<&str>) {
        let name = |name: &str| FinalizerName::new(name).expect("a name");
        let identity = |text: &str| {
            let (own, legacy) = text.split_once(" was ").unwrap_or((text, ""));
            let mut identity = FinalizerIdentity::new("configmaps", name(own));
            if !legacy.is_empty() {
                identity.names.add_legacy(name(legacy));
            }
            identity
        };
        let (own, other) = (identity(own), identity(other));
        let shared = own.name_shared_with(&other);
        assert_eq!(shared.map(FinalizerName::as_str), expected);
    }
}

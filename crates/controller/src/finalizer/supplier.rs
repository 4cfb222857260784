//! `FinalizerSupplier`: the finalizer name of an operator for each kind.

use kube::core::GroupVersionKind;

use super::{FinalizerName, InvalidFinalizer};

/// Returns the finalizer name of an operator for a kind.
///
/// A [`FinalizerName`] returns itself for each kind. Every `Fn(&GroupVersionKind) -> S` is a
/// supplier, where `S` converts to a [`FinalizerName`], like `String`.
///
/// # Example
///
/// ```
/// use kube::core::GroupVersionKind;
/// use windlass_controller::FinalizerSupplier;
///
/// let supplier = |kind: &GroupVersionKind| format!("example.io/{}", kind.kind);
/// let website = GroupVersionKind::gvk("example.io", "v1", "Website");
/// assert_eq!(supplier.finalizer(&website)?.as_str(), "example.io/Website");
/// # Ok::<(), windlass_controller::InvalidFinalizer>(())
/// ```
pub trait FinalizerSupplier {
    /// Returns the finalizer name for `kind`.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalizer`] if Kubernetes would reject the name.
    fn finalizer(&self, kind: &GroupVersionKind) -> Result<FinalizerName, InvalidFinalizer>;
}

/// `operator.{version}.{kind}.{group}`, as in grafana-app-sdk.
///
/// Use it only to continue with objects of grafana-app-sdk, and a [`FinalizerName`] otherwise: two
/// operators that use it for one kind have the same name and treat each other's objects as their
/// own. It has no domain, so it is an error for built-in kinds, and for kinds with long names.
///
/// # Example
///
/// ```
/// use kube::core::GroupVersionKind;
/// use windlass_controller::{DefaultFinalizerSupplier, FinalizerSupplier};
///
/// let website = GroupVersionKind::gvk("example.io", "v1", "Website");
/// let name = DefaultFinalizerSupplier.finalizer(&website)?;
/// assert_eq!(name.as_str(), "operator.v1.Website.example.io");
/// # Ok::<(), windlass_controller::InvalidFinalizer>(())
/// ```
///
/// Source: grafana-app-sdk, `operator.DefaultFinalizerSupplier`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultFinalizerSupplier;

/// `{group}/operator.{version}.{kind}`: the same with a domain, as Kubernetes requires.
///
/// It is an error for kinds of the core group. For other built-in kinds the group is not your
/// domain: use a [`FinalizerName`] with your domain instead.
///
/// # Example
///
/// ```
/// use kube::core::GroupVersionKind;
/// use windlass_controller::{FinalizerSupplier, QualifiedFinalizerSupplier};
///
/// let website = GroupVersionKind::gvk("example.io", "v1", "Website");
/// let name = QualifiedFinalizerSupplier.finalizer(&website)?;
/// assert_eq!(name.as_str(), "example.io/operator.v1.Website");
/// # Ok::<(), windlass_controller::InvalidFinalizer>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QualifiedFinalizerSupplier;

/// Checks that an object of `kind` can have `finalizer`.
pub(super) fn check(
    finalizer: FinalizerName,
    kind: &GroupVersionKind,
) -> Result<FinalizerName, InvalidFinalizer> {
    // The group of a `CustomResourceDefinition` has a dot. Some built-in kinds also have one, and
    // cannot be distinguished by it.
    let built_in = !kind.group.contains('.');
    if built_in && !finalizer.is_qualified() {
        return Err(InvalidFinalizer::NotQualified {
            finalizer: finalizer.to_string(),
            kind: kind.kind.clone(),
        });
    }
    Ok(finalizer)
}

/// The group of `kind` and `operator.{version}.{kind}`. An empty group is an error.
fn group_and_name(kind: &GroupVersionKind) -> Result<(&str, String), InvalidFinalizer> {
    let name = format!("operator.{}.{}", kind.version, kind.kind);
    if kind.group.is_empty() {
        return Err(InvalidFinalizer::NotQualified {
            finalizer: name,
            kind: kind.kind.clone(),
        });
    }
    Ok((&kind.group, name))
}

// === impl FinalizerSupplier ===

impl FinalizerSupplier for FinalizerName {
    fn finalizer(&self, _: &GroupVersionKind) -> Result<FinalizerName, InvalidFinalizer> {
        Ok(self.clone())
    }
}

impl<F, S> FinalizerSupplier for F
where
    F: Fn(&GroupVersionKind) -> S,
    S: TryInto<FinalizerName, Error: Into<InvalidFinalizer>>,
{
    fn finalizer(&self, kind: &GroupVersionKind) -> Result<FinalizerName, InvalidFinalizer> {
        self(kind).try_into().map_err(Into::into)
    }
}

impl FinalizerSupplier for DefaultFinalizerSupplier {
    fn finalizer(&self, kind: &GroupVersionKind) -> Result<FinalizerName, InvalidFinalizer> {
        let (group, name) = group_and_name(kind)?;
        check(FinalizerName::new(format!("{name}.{group}"))?, kind)
    }
}

impl FinalizerSupplier for QualifiedFinalizerSupplier {
    fn finalizer(&self, kind: &GroupVersionKind) -> Result<FinalizerName, InvalidFinalizer> {
        let (group, name) = group_and_name(kind)?;
        FinalizerName::new(format!("{group}/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_kubernetes_rejects_is_an_error() {
        for (group, kind, reason) in [
            ("", "ConfigMap", "not_qualified"),
            ("apps", "Deployment", "not_qualified"),
            (
                "observability.platform.example.io",
                "NotificationPolicyTemplate",
                "name_too_long",
            ),
        ] {
            let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
            let refused = DefaultFinalizerSupplier.finalizer(&kind).expect_err(group);
            assert_eq!(refused.reason(), reason, "{refused}");
        }
    }

    #[test]
    fn with_a_domain_long_kinds_fit() {
        let group = "observability.platform.example.io";
        let kind = GroupVersionKind::gvk(group, "v1alpha1", "NotificationPolicyTemplate");
        assert!(QualifiedFinalizerSupplier.finalizer(&kind).is_ok());
        let core = GroupVersionKind::gvk("", "v1", "Pod");
        let refused = QualifiedFinalizerSupplier
            .finalizer(&core)
            .expect_err("core");
        assert_eq!(refused.reason(), "not_qualified");
    }
}

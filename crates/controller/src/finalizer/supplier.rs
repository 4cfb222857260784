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
/// let supplier = |kind: &GroupVersionKind| format!("example.io/{}.{}", kind.version, kind.kind);
/// let website = GroupVersionKind::gvk("example.io", "v1", "Website");
/// assert_eq!(supplier.finalizer(&website)?.as_str(), "example.io/v1.Website");
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
        let GroupVersionKind {
            group,
            version,
            kind: name,
        } = kind;
        if group.is_empty() {
            return Err(InvalidFinalizer::NotQualified {
                finalizer: format!("operator.{version}.{name}"),
                kind: name.clone(),
            });
        }
        check(
            FinalizerName::new(format!("operator.{version}.{name}.{group}"))?,
            kind,
        )
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
}

//! `IntoDesired`: what can be applied as a child.

use serde::Serialize;

use super::Desired;

/// A child as it should be, of kind `C`: a `C` with the desired fields, or a [`Desired`].
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass_controller::{Desired, IntoDesired};
///
/// fn name<C>(child: impl IntoDesired<C>) -> String {
///     format!("{:?}", child.into_desired())
/// }
///
/// assert!(name(ConfigMap::default()).starts_with("Desired"));
/// let fields = Desired::<ConfigMap>::json(json!({ "data": { "color": "blue" } }));
/// assert!(name(fields).starts_with("Desired"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a desired `{C}`",
    label = "the handle of this call applies children of kind `{C}`",
    note = "each kind of children has a handle of its own, which `builder.owns(Watch::<Kind>::all())` returns",
    note = "`Desired::json(json!({{ .. }}))` is a child of any kind, with the fields that it names"
)]
pub trait IntoDesired<C> {
    /// Returns the desired child.
    fn into_desired(self) -> Desired<C>;
}

impl<C: Serialize> IntoDesired<C> for C {
    fn into_desired(self) -> Desired<C> {
        Desired::from(self)
    }
}

impl<C> IntoDesired<C> for Desired<C> {
    fn into_desired(self) -> Self {
        self
    }
}

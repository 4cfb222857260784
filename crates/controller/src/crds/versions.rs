//! Definitions of kinds with several versions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};
use kube::core::crd::{MergeError, merge_crds};

/// Joins the definitions of the versions of a kind, each with one version, into one definition that
/// stores objects in the version `stored` and has them converted by a webhook.
///
/// The webhook is that of a `WebhookServer` with a `Conversion` of the same types. Leave out its
/// `ca_bundle` if cert-manager writes it (the annotation `cert-manager.io/inject-ca-from` of the
/// definition): [`install_crds`](crate::install_crds) then keeps what it has written.
///
/// To stop serving a version, first store all objects in another one: the API server refuses to remove a
/// version that is in `status.storedVersions` of the definition.
///
/// # Errors
///
/// [`MergeError`] of kube if no definition has the version `stored`, or if group, kind or scope differ.
///
/// # Example
///
/// ```
/// use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
///     CustomResourceDefinition, ServiceReference, WebhookClientConfig,
/// };
/// use windlass_controller::join_versions;
///
/// # use serde_json::json;
/// # fn version(name: &str) -> Result<CustomResourceDefinition, serde_json::Error> {
/// #     serde_json::from_value(json!({
/// #         "metadata": { "name": "websites.example.io" },
/// #         "spec": {
/// #             "group": "example.io", "scope": "Namespaced", "names": { "kind": "Website", "plural": "websites" },
/// #             "versions": [{ "name": name, "served": true, "storage": true }],
/// #         },
/// #     }))
/// # }
/// let service = ServiceReference {
///     name: "website-webhooks".to_owned(),
///     namespace: "websites".to_owned(),
///     path: Some("/convert-website".to_owned()),
///     port: None,
/// };
/// let webhook = WebhookClientConfig { service: Some(service), ..Default::default() };
/// // In a program with these kinds: `v1::Website::crd()` and `v1beta1::Website::crd()`.
/// # let (v1, v1beta1) = (version("v1")?, version("v1beta1")?);
/// let definition = join_versions([v1, v1beta1], "v1", webhook)?;
/// let stored = definition.spec.versions.iter().filter(|it| it.storage);
/// assert!(stored.map(|it| &*it.name).eq(["v1"]));
/// assert_eq!(definition.spec.conversion.expect("set").strategy, "Webhook");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_versions(
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    stored: &str,
    webhook: WebhookClientConfig,
) -> Result<CustomResourceDefinition, MergeError> {
    let mut definition = merge_crds(definitions.into_iter().collect(), stored)?;
    definition.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(webhook),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    Ok(definition)
}

//! Compares the definitions of a program with those of the cluster.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::Value;
use windlass_informer::{ObjectKey, api_request, one_line};

use super::{requests, schema::missing_fields};
use crate::children::{ChildError, ChildKind};

/// Why a definition in the cluster does not fit the Rust type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The API server refused a request.
    #[error("cannot read the CustomResourceDefinition {name}")]
    Request {
        /// The name of the definition.
        name: String,
        /// The error.
        source: Box<ChildError>,
    },

    /// The definition does not exist.
    #[error("the CustomResourceDefinition {name} is not installed; install it")]
    NotInstalled {
        /// The name of the definition.
        name: String,
    },

    /// The cluster does not serve the version.
    #[error(
        "the CustomResourceDefinition {name} does not serve the version {version} of this program, \
         but {}; install the definition of this program",
        if served.is_empty() { "none".to_owned() } else { served.join(", ") }
    )]
    NotServed {
        /// The name of the definition.
        name: String,
        /// The version.
        version: String,
        /// The versions that the cluster serves.
        served: Vec<String>,
    },

    /// A version lacks fields of the Rust type. The API server removes them from each object without an
    /// error.
    #[error(
        "the version {version} of the CustomResourceDefinition {name} lacks {}, so that the API server \
         removes these fields from objects; install the definition of this program",
        fields.join(", ")
    )]
    MissingFields {
        /// The name of the definition.
        name: String,
        /// The version that lacks them: that of the type, or the stored one.
        version: String,
        /// The paths of the fields. `[*]` stands for the elements of a list and the keys of a map.
        fields: Vec<String>,
    },

    /// A webhook should convert the objects, and the cluster does not call it.
    #[error(
        "the CustomResourceDefinition {name} has no conversion webhook, so that objects are read in \
         another version without a conversion; install the definition of this program"
    )]
    NotConverted {
        /// The name of the definition.
        name: String,
    },
}

/// Checks that the cluster has these definitions, so that it stores each field of their Rust types.
///
/// A definition in the cluster can be older than the program, because definitions are often installed by
/// another team or by a Helm chart, which does not update them. The API server then removes the fields
/// that it does not know from each object, without an error. Call it before the operator runs.
///
/// *Guaranteed.* Each version of a definition is served, and its schema in the cluster has all its fields.
/// If objects are not converted by a webhook, the stored version has them too: without one, only the
/// `apiVersion` changes, and what the stored version lacks is removed. The cluster may have more fields
/// and versions. If a webhook converts the objects of a definition, it does so in the cluster.
///
/// *Not guaranteed.* That types, formats and rules of fields are equal: the API server refuses what they
/// do not allow, and says so.
///
/// Needs the permission `get` on `customresourcedefinitions`.
///
/// # Errors
///
/// [`CheckError`], at the first definition that does not fit.
///
/// # Example
///
/// ```
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// # use serde_json::json;
/// use windlass_controller::{CheckError, check_crds};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
/// #     let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
/// #     http::Response::builder().status(404).body(kube::client::Body::from(status.as_bytes().to_vec()))
/// # });
/// # let client = kube::Client::new(service, "default");
/// # let definition: CustomResourceDefinition = serde_json::from_value(json!({
/// #     "metadata": { "name": "websites.example.io" },
/// #     "spec": {
/// #         "group": "example.io", "scope": "Namespaced", "names": { "kind": "Website", "plural": "websites" },
/// #         "versions": [{ "name": "v1", "served": true, "storage": true,
/// #             "schema": { "openAPIV3Schema": { "type": "object" } } }],
/// #     },
/// # }))?;
/// // In a program with the kind `Website`: `Website::crd()`.
/// let checked = check_crds(&client, [definition]).await;
/// assert!(matches!(checked, Err(CheckError::NotInstalled { name }) if name == "websites.example.io"));
/// # Ok(())
/// # }
/// ```
pub async fn check_crds(
    client: &Client,
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
) -> Result<(), CheckError> {
    let kind = ChildKind::of::<CustomResourceDefinition>(&());
    for definition in definitions {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let key = ObjectKey::new(name.as_str());
        let found = requests(client, &kind, &key).get().await;
        let found = found.map_err(|source| CheckError::Request {
            name: name.clone(),
            source: Box::new(source),
        })?;
        let Some(found) = found else {
            return Err(CheckError::NotInstalled { name });
        };
        let installed: Value = api_request::decode(&found).unwrap_or_default();
        let definition = serde_json::to_value(definition).unwrap_or_default();
        check(&name, &definition, &installed)?;
    }
    Ok(())
}

/// Compares each served version of `definition` with the same version and the stored one of `installed`.
fn check(name: &str, definition: &Value, installed: &Value) -> Result<(), CheckError> {
    let converts = |of: &Value| of["spec"]["conversion"]["strategy"] == "Webhook";
    let is_converted = converts(installed);
    if converts(definition) && !is_converted {
        return Err(CheckError::NotConverted {
            name: name.to_owned(),
        });
    }
    let stored = versions(installed).find(|it| it["storage"] == true && !is_converted);
    for version in versions(definition).filter(|it| it["served"] == true) {
        let served = || versions(installed).filter(|it| it["served"] == true);
        let Some(same) = served().find(|it| it["name"] == version["name"]) else {
            return Err(CheckError::NotServed {
                name: name.to_owned(),
                version: text(&version["name"]),
                served: served().map(|it| text(&it["name"])).collect(),
            });
        };
        for installed in [same].into_iter().chain(stored) {
            let schema = |of: &'_ Value| of["schema"]["openAPIV3Schema"].clone();
            let fields = missing_fields(&schema(version), &schema(installed));
            if !fields.is_empty() {
                return Err(CheckError::MissingFields {
                    name: name.to_owned(),
                    version: text(&installed["name"]),
                    fields,
                });
            }
        }
    }
    Ok(())
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = definition["spec"]["versions"].as_array();
    versions.into_iter().flatten()
}

fn text(name: &Value) -> String {
    one_line(name.as_str().unwrap_or_default()).into_owned()
}

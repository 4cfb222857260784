//! Installs `CustomResourceDefinition`s, waits until the API server serves them, and compares them with
//! those of the cluster.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use windlass_informer::{ErrorChain, ObjectKey, api_request};

use self::schema::missing_fields;
use crate::children::{ApplyMode, ChildError, ChildKind, ObjectRequests};

mod check;
mod schema;
mod versions;

pub use self::{
    check::{CheckError, check_crds},
    versions::join_versions,
};

/// The annotation with the version of a definition, as numbers and dots: `7` or `1.12.0`.
pub(crate) const CRD_VERSION: &str = "windlass.dev/crd-version";

/// The field manager of definitions.
const MANAGER: &str = "windlass-install-crds";

/// The time between two reads of a definition that is not served yet.
const POLL: Duration = Duration::from_millis(100);

/// Why a definition is not served if no request had a response.
const NO_RESPONSE: &str = "the API server has not responded";

/// Why definitions were not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The API server refused a request.
    #[error("cannot install the CustomResourceDefinition {name}")]
    Request {
        /// The name of the definition.
        name: String,
        /// The error.
        source: Box<ChildError>,
    },

    /// The cluster has a newer definition. Replacing it would remove its fields, and with them the
    /// values of the objects that have them.
    #[error(
        "the CustomResourceDefinition {name} has version {installed} in the cluster, and this \
         program has {given}; it was not replaced, because fields of its objects would be lost; \
         install a newer program"
    )]
    Newer {
        /// The name of the definition.
        name: String,
        /// The version in the cluster.
        installed: String,
        /// The version of the definition that was to be installed, or `none`.
        given: String,
    },

    /// Another tool has installed the definition, and it has fields or versions that the given one lacks.
    /// The API server would remove these fields from objects.
    #[error(
        "the CustomResourceDefinition {name} was installed by another tool, and that of this program \
         lacks {}; it was not replaced; add fields to the Rust type and versions with \
         `join_versions`, or use `replace_crds`",
        lost.join(", ")
    )]
    Lossy {
        /// The name of the definition.
        name: String,
        /// The paths of the fields with their version, such as `spec.title of v1`, and the versions, such
        /// as `v1`. `[*]` stands for the elements of a list and the keys of a map.
        lost: Vec<String>,
    },

    /// The API server does not serve the kind.
    #[error(
        "timed out after {timeout:?} waiting for the CustomResourceDefinition {name} to be served: \
         {reason}"
    )]
    NotServed {
        /// The name of the definition.
        name: String,
        /// The timeout.
        timeout: Duration,
        /// The condition that is not true, and its message, or the error of the last read.
        reason: String,
    },
}

/// Installs or updates `definitions` by server-side apply, and waits until the API server serves
/// their kinds, for `timeout` in total, requests included. A read that fails while it waits, because the
/// API server is overloaded or cannot be reached, is repeated.
///
/// A definition with the annotation `windlass.dev/crd-version` (numbers and dots, such as `7` or
/// `1.12.0`) does not replace one with a greater version: during a rolling update an old replica
/// would remove the fields of the new one. Neither does a definition without the annotation replace
/// one that has it. Call it when this replica is the leader.
///
/// A definition that another tool has installed, such as one of controller-gen, is not replaced by one that
/// lacks its fields or versions; [`replace_crds`] replaces it. One that this function has written before is
/// replaced. The comparison is of fields: defaults, CEL rules and columns that only the other tool's
/// definition has are removed.
///
/// Needs the permissions `get`, `create` and `patch` on `customresourcedefinitions`: an apply that creates
/// an object needs `create` too.
///
/// # Errors
///
/// [`InstallError`], at the first definition that fails. The earlier ones are installed.
///
/// # Cancel safety
///
/// After the future is dropped, some definitions may be installed. Call it again.
pub async fn install_crds(
    client: &Client,
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    timeout: Duration,
) -> Result<(), InstallError> {
    install(client, definitions, timeout, check_lost).await
}

/// As [`install_crds`], and also replaces definitions of other tools, with the loss of the fields and
/// versions that `definitions` lack.
///
/// # Errors
///
/// [`InstallError`], except [`InstallError::Lossy`], at the first definition that fails. The earlier ones
/// are installed.
///
/// # Cancel safety
///
/// As of [`install_crds`].
pub async fn replace_crds(
    client: &Client,
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    timeout: Duration,
) -> Result<(), InstallError> {
    install(client, definitions, timeout, |_, _| Ok(())).await
}

/// Refuses to replace a definition.
type Check = fn(&CustomResourceDefinition, &Value) -> Result<(), InstallError>;

async fn install(
    client: &Client,
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    timeout: Duration,
    check: Check,
) -> Result<(), InstallError> {
    let kind = ChildKind::of::<CustomResourceDefinition>(&());
    // None if the clock has no such time: then it waits without end.
    let deadline = Instant::now().checked_add(timeout);
    let timed_out = |key: &ObjectKey, reason: &str| InstallError::NotServed {
        name: key.name().to_owned(),
        timeout,
        reason: reason.to_owned(),
    };
    let mut applied = Vec::new();
    for definition in definitions {
        let key = ObjectKey::new(definition.metadata.name.as_deref().unwrap_or_default());
        let applying = apply(requests(client, &kind, &key), definition, check);
        let installed = before(deadline, applying).await;
        installed.ok_or_else(|| timed_out(&key, NO_RESPONSE))??;
        applied.push(key);
    }
    for key in applied {
        let mut reason = NO_RESPONSE.to_owned();
        let served = served(requests(client, &kind, &key), &mut reason);
        let served = before(deadline, served).await;
        served.ok_or_else(|| timed_out(&key, &reason))??;
    }
    Ok(())
}

/// Installs one definition, unless the cluster has a newer one.
async fn apply(
    requests: ObjectRequests<'_>,
    definition: CustomResourceDefinition,
    check: Check,
) -> Result<(), InstallError> {
    let failed = |source| request_failed(requests.key, source);
    if let Some(installed) = requests.get().await.map_err(failed)? {
        let installed = api_request::decode(&installed).unwrap_or_default();
        check_version(&definition, &installed)?;
        check(&definition, &installed)?;
    }
    let sent = requests.apply(&body(definition), ApplyMode::Force).await;
    sent.map_err(|error| failed(requests.error("patch", error)))?;
    Ok(())
}

/// Waits until the API server serves a definition. `reason` is why it does not yet.
async fn served(requests: ObjectRequests<'_>, reason: &mut String) -> Result<(), InstallError> {
    loop {
        *reason = match requests.get().await {
            Ok(found) => match not_served(found.as_deref()) {
                Some(reason) => reason,
                None => return Ok(()),
            },
            Err(error) if is_transient(&error) => ErrorChain::new(&error).to_string(),
            Err(error) => return Err(request_failed(requests.key, error)),
        };
        sleep(POLL).await;
    }
}

/// The output of `future`. None if it does not end before `deadline`.
async fn before<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

fn request_failed(key: &ObjectKey, source: ChildError) -> InstallError {
    InstallError::Request {
        name: key.name().to_owned(),
        source: Box::new(source),
    }
}

/// Whether the same request can succeed later: the API server is overloaded or cannot be reached.
fn is_transient(error: &ChildError) -> bool {
    match error.request() {
        Some(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
        cause => cause.is_some(),
    }
}

fn requests<'a>(client: &'a Client, kind: &'a ChildKind, key: &'a ObjectKey) -> ObjectRequests<'a> {
    ObjectRequests {
        client,
        kind,
        key,
        manager: MANAGER,
        subresource: "",
    }
}

/// The body of the apply, without the status, which only the API server writes.
fn body(definition: CustomResourceDefinition) -> Value {
    let definition = CustomResourceDefinition {
        status: None,
        ..definition
    };
    serde_json::to_value(definition).unwrap_or_default()
}

/// Refuses to replace a definition with a greater version.
fn check_version(
    definition: &CustomResourceDefinition,
    installed: &Value,
) -> Result<(), InstallError> {
    let annotation = |value: &Value| {
        let version = value["metadata"]["annotations"][CRD_VERSION].as_str();
        version.map(str::to_owned)
    };
    let Some(installed) = annotation(installed) else {
        return Ok(());
    };
    let annotations = definition.metadata.annotations.as_ref();
    let given = annotations.and_then(|annotations| annotations.get(CRD_VERSION));
    if given.is_some_and(|given| numbers(given) >= numbers(&installed)) {
        return Ok(());
    }
    Err(InstallError::Newer {
        name: definition.metadata.name.clone().unwrap_or_default(),
        installed: windlass_informer::one_line(&installed).into_owned(),
        given: given.map_or_else(|| "none".to_owned(), Clone::clone),
    })
}

/// Refuses to replace a definition of another tool that has more fields or versions.
fn check_lost(
    definition: &CustomResourceDefinition,
    installed: &Value,
) -> Result<(), InstallError> {
    let managers = installed["metadata"]["managedFields"].as_array();
    let is_ours = (managers.into_iter().flatten()).any(|it| it["manager"] == MANAGER);
    let given = serde_json::to_value(&definition.spec.versions).unwrap_or_default();
    let versions = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let (given, mut lost) = (versions(&given), Vec::new());
    for installed in versions(&installed["spec"]["versions"]) {
        let name = installed["name"].as_str().unwrap_or_default();
        let schema = |of: &Value| of["schema"]["openAPIV3Schema"].clone();
        match given.iter().find(|it| it["name"] == name) {
            Some(given) => {
                let fields = missing_fields(&schema(&installed), &schema(given));
                lost.extend(fields.iter().map(|field| format!("{field} of {name}")));
            }
            None => lost.push(name.to_owned()),
        }
    }
    if is_ours || lost.is_empty() {
        return Ok(());
    }
    let name = definition.metadata.name.clone().unwrap_or_default();
    Err(InstallError::Lossy { name, lost })
}

/// The numbers of a version, without zeros at the end. A part that is no number counts as 0.
fn numbers(version: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = (version.split('.'))
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// Why the API server does not serve the kind. `None` if it does.
fn not_served(definition: Option<&[u8]>) -> Option<String> {
    let Some(definition) = definition else {
        return Some("it does not exist".to_owned());
    };
    let definition: Value = api_request::decode(definition).unwrap_or_default();
    let conditions = definition["status"]["conditions"].as_array();
    for wanted in ["NamesAccepted", "Established"] {
        let found = (conditions.into_iter().flatten()).find(|it| it["type"] == wanted);
        let Some(found) = found else {
            return Some(format!("{wanted} is not set"));
        };
        if found["status"] != "True" {
            let message = found["message"].as_str().unwrap_or_default();
            let message = windlass_informer::one_line(message);
            return Some(format!("{wanted} is not true: {message}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_newer_definition_is_not_replaced() {
        let definition = |version: Option<&str>| {
            let mut definition = CustomResourceDefinition::default();
            definition.metadata.annotations =
                version.map(|version| [(CRD_VERSION.to_owned(), version.to_owned())].into());
            definition
        };
        let check = |given: Option<&str>, installed: Value| {
            let installed = json!({ "metadata": { "annotations": installed } });
            check_version(&definition(given), &installed).is_ok()
        };
        let version = |version: &str| json!({ CRD_VERSION: version });
        assert!(check(None, json!({})));
        assert!(check(None, Value::Null));
        assert!(check(Some("1"), json!({})));
        assert!(check(Some("2"), version("1")));
        assert!(check(Some("2"), version("2")));
        assert!(check(Some("1.10"), version("1.9.7")));
        assert!(check(Some("2.0"), version("2")));
        assert!(!check(Some("1.9"), version("1.10")));
        assert!(!check(Some("1"), version("2")));
        assert!(!check(None, version("1")));
    }

    #[test]
    fn a_definition_is_served_when_its_names_are_accepted_and_it_is_established() {
        let check = |conditions: Value| {
            let definition = json!({ "status": { "conditions": conditions } });
            not_served(Some(definition.to_string().as_bytes()))
        };
        let condition = |name: &str, status: &str| json!({ "type": name, "status": status });
        let names = |status| condition("NamesAccepted", status);
        let established = |status| condition("Established", status);
        assert_eq!(check(json!([names("True"), established("True")])), None);
        assert!(check(json!([names("True"), established("False")])).is_some());
        assert!(check(json!([names("False"), established("True")])).is_some());
        assert!(check(json!([])).is_some());
        assert!(check(Value::Null).is_some());
        assert!(not_served(None).is_some());
    }
}

//! The requests for children: each is sent once, and its response is limited in size and time.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, header::CONTENT_TYPE};
use kube::{Client, api::ObjectMeta};
use serde_json::{Value, json};
use windlass_informer::{
    ObjectKey,
    api_request::{self, NOT_FOUND, RequestError, ResponseLimits, ServerStatus},
};

use super::{ChildError, ChildKind, migrate, plan::Preconditions};
use crate::finalizer::kube_error;

/// The limits of a response: objects of etcd have at most 1.5 MiB by default.
const LIMITS: ResponseLimits = ResponseLimits {
    time: Duration::from_secs(30),
    bytes: 16 * 1024 * 1024,
};

/// Sends the requests for one object.
pub(crate) struct ObjectRequests<'a> {
    pub(crate) client: &'a Client,
    pub(crate) kind: &'a ChildKind,
    pub(crate) key: &'a ObjectKey,
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The subresource of applies, for example `/status`, or nothing.
    pub(crate) subresource: &'static str,
}

/// How an apply is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    /// Takes over fields of other managers.
    Force,
    /// Like `Force`, but nothing is stored.
    DryRun,
    /// Nothing is stored, and the response names the managers of fields that would be taken over.
    FindConflicts,
}

// === impl ObjectRequests ===

impl ObjectRequests<'_> {
    /// Reads the object. `None` if it does not exist.
    pub(crate) async fn get(&self) -> Result<Option<Bytes>, ChildError> {
        let request = http::Request::get(self.kind.path(self.key)).body(Vec::new());
        match self.send(request).await {
            Ok(body) => Ok(Some(body)),
            Err(RequestError::Status(status)) if is_not_found(&status) => Ok(None),
            Err(error) => Err(self.error("get", error)),
        }
    }

    /// Reads the metadata of the object. `None` if it does not exist. A response that is no object is an
    /// error: nothing follows from it.
    pub(super) async fn get_metadata(&self) -> Result<Option<ObjectMeta>, ChildError> {
        #[derive(serde::Deserialize)]
        struct WithMetadata {
            metadata: ObjectMeta,
        }

        let Some(body) = self.get().await? else {
            return Ok(None);
        };
        let decoded = api_request::decode::<WithMetadata>(&body);
        let decoded = decoded.map_err(|error| self.error("get", RequestError::Connection(error)));
        Ok(Some(decoded?.metadata))
    }

    /// Applies `body` with server-side apply.
    pub(crate) async fn apply(&self, body: &Value, mode: ApplyMode) -> Result<Bytes, RequestError> {
        let path = self.kind.path(self.key);
        let subresource = self.subresource;
        let manager: String = form_urlencoded::byte_serialize(self.manager.as_bytes()).collect();
        let options = match mode {
            ApplyMode::Force => "&force=true",
            ApplyMode::DryRun => "&force=true&dryRun=All",
            ApplyMode::FindConflicts => "&dryRun=All",
        };
        let request = http::Request::patch(format!(
            "{path}{subresource}?fieldManager={manager}{options}"
        ))
        // JSON is YAML.
        .header(CONTENT_TYPE, "application/apply-patch+yaml")
        .body(body.to_string().into_bytes());
        self.send(request).await
    }

    /// Merges `body` into the object.
    pub(super) async fn merge(&self, body: &Value) -> Result<Bytes, RequestError> {
        let path = self.kind.path(self.key);
        let manager: String = form_urlencoded::byte_serialize(self.manager.as_bytes()).collect();
        let request = http::Request::patch(format!("{path}?fieldManager={manager}"))
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(body.to_string().into_bytes());
        self.send(request).await
    }

    /// The merge patch that moves the fields of `earlier` managers in `answer`, the response to an apply,
    /// to our applies. An apply after it removes those that it does not have. `None` if there are none.
    pub(super) fn migration(&self, answer: &Value, earlier: &[String]) -> Option<Value> {
        let subresource = self.subresource.trim_start_matches('/');
        let entries = migrate::moved(answer, self.manager, earlier, subresource)?;
        let text = |field: &str| answer["metadata"][field].as_str().unwrap_or_default();
        let preconditions = Preconditions {
            uid: text("uid").to_owned(),
            version: text("resourceVersion").to_owned(),
        };
        let body = json!({ "metadata": { "managedFields": entries } });
        Some(preconditions.added_to(&body, true))
    }

    /// Asks the API server whether it would create `body`, under a generated name.
    pub(super) async fn try_create(&self, body: &Value) -> Result<Bytes, RequestError> {
        let mut body = body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            let prefix: String = self.key.name().chars().take(50).collect();
            metadata.insert("generateName".to_owned(), format!("{prefix}-").into());
            metadata.remove("name");
        }
        let path = self.kind.collection(self.key.namespace());
        let request = http::Request::post(format!("{path}?dryRun=All"))
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        self.send(request).await
    }

    /// Deletes the object, if it has this uid and, if there is one, this version. Its own children
    /// are deleted afterwards.
    pub(super) async fn delete(
        &self,
        uid: &str,
        version: Option<&str>,
    ) -> Result<Bytes, RequestError> {
        let mut preconditions = json!({ "uid": uid });
        if let Some(version) = version {
            preconditions["resourceVersion"] = version.into();
        }
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": preconditions,
        });
        let request = http::Request::builder()
            .method(Method::DELETE)
            .uri(self.kind.path(self.key))
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        self.send(request).await
    }

    async fn send(
        &self,
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<Bytes, RequestError> {
        let request = request.map_err(kube::Error::HttpError);
        let request = request.map_err(RequestError::Connection)?;
        api_request::send(self.client, request, LIMITS).await
    }

    /// The error of a request with this verb.
    pub(crate) fn error(&self, verb: &'static str, error: RequestError) -> ChildError {
        let refused_verb = match &error {
            RequestError::Status(status) if status.code == 403 => refused_verb(&status.message),
            _ => None,
        };
        let is_conflict = matches!(&error, RequestError::Status(status) if is_conflict(status));
        let (resource, key) = (self.kind.resource(), self.key.clone());
        let source = Box::new(kube_error(error));
        match refused_verb {
            _ if is_conflict => ChildError::Conflict {
                resource,
                key,
                source,
            },
            Some(verb) => ChildError::Forbidden {
                verb,
                resource: resource + self.subresource,
                key,
                source,
            },
            None => ChildError::Request {
                verb,
                resource,
                key,
                source,
            },
        }
    }
}

// === impl Preconditions ===

impl Preconditions {
    /// Returns `body` with these preconditions. Without the version only the uid is compared.
    pub(super) fn added_to(&self, body: &Value, with_version: bool) -> Value {
        let mut body = body.clone();
        if !self.uid.is_empty() {
            body["metadata"]["uid"] = self.uid.clone().into();
        }
        if with_version && !self.version.is_empty() {
            body["metadata"]["resourceVersion"] = self.version.clone().into();
        }
        body
    }
}

/// The verb that the user may not use, from the text of a refusal: an apply that creates needs `create`
/// too. `None` if another rule refuses the request, such as a quota, a webhook or a policy of Pods.
fn refused_verb(message: &str) -> Option<&'static str> {
    let (_, refused) = message.split_once(" cannot ")?;
    let (verb, rest) = refused.split_once(' ')?;
    let verbs = ["get", "create", "patch", "update", "delete"];
    let known = verbs.into_iter().find(|it| *it == verb);
    known.filter(|_| rest.starts_with("resource "))
}

/// Whether the API server says that the object does not exist.
pub(super) fn is_not_found(status: &ServerStatus) -> bool {
    status.code == 404 && status.reason == NOT_FOUND
}

/// Whether the object has changed: 409, or 422 because another object has the name.
pub(super) fn is_conflict(status: &ServerStatus) -> bool {
    let names_uid = || (status.causes.iter()).any(|cause| cause.field == "metadata.uid");
    status.code == 409 || status.code == 422 && names_uid()
}

#[cfg(test)]
mod tests {
    use super::refused_verb;

    #[test]
    fn only_a_missing_permission_names_a_verb() {
        let created = r#"configmaps "a" is forbidden: User "u" cannot create resource "configmaps" in API group "" in the namespace "shop""#;
        assert_eq!(refused_verb(created), Some("create"));
        for other in [
            r#"pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"#,
            r#"pods "a" is forbidden: violates PodSecurity "restricted:latest""#,
            r#"admission webhook "deny.example.io" denied the request: you cannot create objects today"#,
            r#"pods "a" is forbidden: User "u" cannot use resource "x""#,
        ] {
            assert_eq!(refused_verb(other), None, "{other}");
        }
    }
}

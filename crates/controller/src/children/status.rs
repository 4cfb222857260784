//! Writes the status of a parent, by server-side apply of its subresource.

use serde_json::{Value, json};
use windlass_informer::{
    api_request::{self, RequestError},
    one_line,
};

use super::{
    ChildError, ChildKind, Children,
    digest::{self, Digest},
    requests::{ApplyMode, ObjectRequests, is_not_found},
};

/// The last apply of a status.
#[derive(Clone, Debug)]
pub(crate) struct RememberedStatus {
    /// Of the desired status.
    desired: Digest,
    /// Of the status in the response, cut to the fields of the desired status.
    answer: Digest,
    /// Of the response.
    version: String,
}

// === impl RememberedStatus ===

impl RememberedStatus {
    /// Of an apply of `desired`, whose response has the status `answer`.
    pub(crate) fn new(desired: &Value, answer: &Value, version: Option<&str>) -> Self {
        Self {
            desired: Digest::of(desired),
            answer: digest_of(answer, desired),
            version: version.unwrap_or_default().to_owned(),
        }
    }

    /// Whether the last apply was of `desired`, and `observed` has its fields as the response to it.
    pub(crate) fn shows(&self, desired: &Value, observed: &Value) -> bool {
        self.desired == Digest::of(desired) && self.answer == digest_of(observed, desired)
    }
}

// === impl Children ===

impl Children {
    /// Brings the status of the parent to `status`: fields that an earlier call has set and `status`
    /// does not have are removed, and fields of other managers stay. `kind` is that of the parent,
    /// `version` and `observed` are the version and the status of its newest known state. Returns whether a request was sent:
    /// none is sent for a status that is as desired, except once after a start.
    ///
    /// # Errors
    ///
    /// [`ChildError::Conflict`] if the parent does not exist any more;
    /// [`ChildError::NoStatusSubresource`]; [`ChildError::UndeclaredField`]; the error of the request.
    pub async fn apply_status(
        &self,
        kind: &ChildKind,
        status: &Value,
        version: &str,
        observed: &Value,
    ) -> Result<bool, ChildError> {
        let remembered = self.memory.lock().status.clone();
        let is_written = match &remembered {
            None => observed == status,
            Some(last) => {
                // A state from before our last write counts as the response to it.
                let is_stale = windlass_informer::is_older(version, &last.version);
                last.shows(status, observed) || (is_stale && last.desired == Digest::of(status))
            }
        };
        if is_written {
            return Ok(false);
        }
        let key = self.parent.key();
        let mut metadata = json!({ "name": key.name(), "uid": self.parent.uid() });
        if let Some(namespace) = key.namespace() {
            metadata["namespace"] = namespace.into();
        }
        let body = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": metadata, "status": status,
        });
        let requests = ObjectRequests {
            client: &self.client,
            kind,
            key,
            manager: &self.parent.manager,
            subresource: "/status",
        };
        let answer = match requests.apply(&body, ApplyMode::Force).await {
            Ok(answer) => answer,
            Err(refused) => return Err(self.refused_status(&requests, refused).await),
        };
        let answer: Value = api_request::decode(&answer)
            .map_err(|error| requests.error("patch", RequestError::Connection(error)))?;
        let version = answer["metadata"]["resourceVersion"].as_str();
        let written = RememberedStatus::new(status, &answer["status"], version);
        self.memory.lock().status = Some(written);
        Ok(true)
    }

    /// The error of a status that was refused. A kind without the subresource has no such path.
    async fn refused_status(
        &self,
        requests: &ObjectRequests<'_>,
        refused: RequestError,
    ) -> ChildError {
        let is_missing = matches!(&refused, RequestError::Status(status) if status.code == 404);
        let is_named = matches!(&refused, RequestError::Status(status) if is_not_found(status));
        let (resource, key) = (requests.kind.resource(), requests.key.clone());
        if let RequestError::Status(status) = &refused
            && let Some(field) = undeclared_field(&status.message)
        {
            return ChildError::UndeclaredField {
                resource,
                key,
                field,
            };
        }
        if !is_missing {
            return requests.error("patch", refused);
        }
        match requests.get().await {
            Ok(Some(_)) => ChildError::NoStatusSubresource { resource, key },
            Ok(None) if is_named => ChildError::Conflict {
                resource,
                key,
                source: Box::new(crate::finalizer::kube_error(refused)),
            },
            Ok(None) => requests.error("patch", refused),
            Err(error) => error,
        }
    }
}

/// The field that the API server names in its refusal of an apply, if its schema lacks one.
fn undeclared_field(message: &str) -> Option<String> {
    let (before, _) = message.split_once(": field not declared in schema")?;
    let (_, field) = before.rsplit_once(": .")?;
    Some(one_line(field).into_owned())
}

/// The digest of a status, cut to the fields of `desired`.
fn digest_of(status: &Value, desired: &Value) -> Digest {
    Digest::of(&digest::cut(status, desired))
}

//! Writes the status of a parent, by server-side apply of its subresource.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
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

/// A status that the parent should have.
#[derive(Debug)]
pub(crate) struct StatusWrite<'a> {
    /// The kind of the parent.
    pub(crate) kind: &'a ChildKind,
    pub(crate) status: &'a Value,
    /// The version of the newest known state of the parent, and its status in each form: first the JSON,
    /// if there is one.
    pub(crate) version: &'a str,
    pub(crate) observed: &'a [Value],
    /// Whether the first request names the version, which proves that the response has no change of
    /// another writer.
    pub(crate) names_version: bool,
    /// Whether it is also sent if the observed status is as desired.
    pub(crate) is_forced: bool,
    /// The managers whose fields are moved to the applies of this one, once.
    pub(crate) earlier_managers: &'a [String],
}

/// The last apply of a status.
#[derive(Clone, Debug)]
pub(crate) struct RememberedStatus {
    /// Of the desired status.
    desired: Digest,
    /// Of the status in the response, cut to the fields of the desired status: of its JSON, and of its
    /// decoded form, which stores can have.
    answer: [Digest; 2],
    /// Of the response.
    version: String,
}

// === impl RememberedStatus ===

impl RememberedStatus {
    /// Whether `observed`, of this version, is the response to an apply of `desired`, or from before it.
    fn shows(&self, desired: &Value, version: &str, observed: &[Value]) -> bool {
        let is_answer = |observed| self.answer.contains(&digest_of(observed, desired));
        let is_before = windlass_informer::is_older(version, &self.version);
        self.desired == Digest::of(desired) && (is_before || observed.iter().any(is_answer))
    }
}

// === impl Children ===

impl Children {
    /// Brings the status of the parent, a `K`, to the desired one: fields that an earlier call has set
    /// and that it does not have are removed, and fields of other managers stay. Returns whether a
    /// request was sent: none is sent for a status that is as desired, except once after a start. A
    /// parent that does not exist any more is no error.
    ///
    /// # Errors
    ///
    /// [`ChildError::NoStatusSubresource`]; [`ChildError::UndeclaredField`]; the error of the request.
    pub(crate) async fn apply_status<K>(&self, write: &StatusWrite<'_>) -> Result<bool, ChildError>
    where
        K: DeserializeOwned + Serialize,
    {
        let (kind, status) = (write.kind, write.status);
        let migrates = !write.earlier_managers.is_empty() && !self.memory.lock().is_status_migrated;
        if self.is_written(write) && !write.is_forced && !migrates {
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
        let requests = self.requests(kind, key);
        let of_status = ObjectRequests {
            subresource: "/status",
            ..requests
        };
        let mut sent = if write.names_version && !write.version.is_empty() {
            let mut body = body.clone();
            body["metadata"]["resourceVersion"] = write.version.into();
            of_status.apply(&body, ApplyMode::Force).await
        } else {
            of_status.apply(&body, ApplyMode::Force).await
        };
        if write.names_version && matches!(&sent, Err(RequestError::Status(it)) if it.code == 409) {
            sent = of_status.apply(&body, ApplyMode::Force).await;
        }
        let refused = |error| of_status.error("patch", error);
        let decoded = |answer: &Bytes| -> Result<Value, ChildError> {
            api_request::decode(answer).map_err(|error| refused(RequestError::Connection(error)))
        };
        let mut answer = match sent {
            Ok(answer) => decoded(&answer)?,
            Err(error) => return self.refused_status(&requests, &of_status, error).await,
        };
        if migrates {
            if let Some(moved) = of_status.migration(&answer, write.earlier_managers) {
                let merged = requests.merge(&moved).await;
                merged.map_err(|error| requests.error("patch", error))?;
                let again = of_status.apply(&body, ApplyMode::Force).await;
                answer = decoded(&again.map_err(refused)?)?;
            }
            self.memory.lock().is_status_migrated = true;
        }
        let version = answer["metadata"]["resourceVersion"].as_str();
        let version = version.unwrap_or_default().to_owned();
        let json = digest_of(&answer["status"], status);
        let object: Option<K> = serde_json::from_value(answer).ok();
        let object = object.and_then(|it| status_of(&it).ok());
        let object = object.map_or(json, |shown| digest_of(&shown, status));
        self.memory.lock().status = Some(RememberedStatus {
            desired: Digest::of(status),
            answer: [json, object],
            version,
        });
        Ok(true)
    }

    /// Whether the newest known state is as desired.
    fn is_written(&self, write: &StatusWrite<'_>) -> bool {
        let (status, observed) = (write.status, write.observed);
        match &self.memory.lock().status {
            Some(last) if last.shows(status, write.version, observed) => true,
            // A state from before the last write, which was another one.
            Some(last) if windlass_informer::is_older(write.version, &last.version) => false,
            // The other form lacks fields that its type does not have.
            _ => observed.first() == Some(status),
        }
    }

    /// The result of a status that was refused. A kind without the subresource has no such path.
    /// Without the permission to read the object, a response that names it says that it was deleted.
    async fn refused_status(
        &self,
        requests: &ObjectRequests<'_>,
        of_status: &ObjectRequests<'_>,
        refused: RequestError,
    ) -> Result<bool, ChildError> {
        let is_missing = matches!(&refused, RequestError::Status(status) if status.code == 404);
        let is_named = matches!(&refused, RequestError::Status(status) if is_not_found(status));
        let (resource, key) = (of_status.kind.resource(), of_status.key.clone());
        if let RequestError::Status(status) = &refused
            && let Some(field) = undeclared_field(&status.message)
        {
            return Err(ChildError::UndeclaredField {
                resource,
                key,
                field,
            });
        }
        if !is_missing {
            return Err(of_status.error("patch", refused));
        }
        match requests.get_metadata().await {
            Ok(Some(found)) if found.uid.as_deref() == Some(self.parent.uid()) => {
                Err(ChildError::NoStatusSubresource { resource, key })
            }
            // Another object of its name.
            Ok(Some(_)) => Ok(false),
            Ok(None) | Err(ChildError::Forbidden { .. }) if is_named => Ok(false),
            Ok(None) => Err(of_status.error("patch", refused)),
            Err(error) => Err(error),
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

/// The status of an object, as its type serializes it.
pub(crate) fn status_of<K: Serialize>(object: &K) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(object)?;
    let status = object.get_mut("status");
    Ok(status.map(Value::take).unwrap_or_default())
}

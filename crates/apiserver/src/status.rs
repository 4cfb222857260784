//! The `Status` object of responses, and its field errors.
//!
//! The messages equal those of kube-apiserver, because clients compare them.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value, json};

mod about;
mod field;
mod float;
mod json;
mod refusals;

#[cfg(test)]
mod tests;

pub(crate) use about::About;
pub use field::{FieldError, FieldErrorKind};
pub(crate) use float::float_text;

/// An error response, or a successful response without an object.
///
/// The server sends it as a `Status` object of `meta.k8s.io/v1`, with its code as the code of the
/// HTTP response. `Display` prints the message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Map<String, Value>>,
    continue_token: Option<Box<str>>,
    /// The warnings of the request before it was rejected.
    warnings: Box<[String]>,
}

// === impl Status ===

impl Status {
    /// Returns the HTTP status code, such as 404.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code.as_u16()
    }

    /// Returns the machine-readable reason, such as `NotFound`; empty if Kubernetes has none.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the human-readable message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the `Status` object that the server sends.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), (**token).into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": if self.code.is_success() { "Success" } else { "Failure" },
        });
        if self.code != StatusCode::OK {
            status["code"] = self.code.as_u16().into();
        }
        if !self.message.is_empty() {
            status["message"] = self.message.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = (*self.reason).into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone().into();
        }
        status
    }

    /// Creates a status without details.
    #[must_use]
    pub fn failure(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Box::default(),
        }
    }

    /// Sets the warnings of the response.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings.into();
        self
    }

    /// Returns the warnings of the response.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Sets the delay in seconds after which the client can retry, as `retryAfterSeconds`.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.detail("retryAfterSeconds", seconds.into())
    }

    /// Returns the delay in seconds after which the client can retry, if it is set.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    fn detail(mut self, key: &str, value: Value) -> Self {
        self.details
            .get_or_insert_default()
            .insert(key.to_owned(), value);
        self
    }

    fn about(code: StatusCode, reason: &'static str, message: String, about: &About<'_>) -> Self {
        Self {
            details: Some(about.details(about.resource)),
            ..Self::failure(code, reason, message)
        }
    }

    fn cause(self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({ "message": message });
        if !reason.is_empty() {
            cause["reason"] = reason.into();
        }
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        self.detail("causes", json!([cause]))
    }

    /// 404: the object does not exist.
    pub(crate) fn not_found(about: &About<'_>) -> Self {
        let message = format!("{} {:?} not found", about.qualified_resource(), about.name);
        Self::about(StatusCode::NOT_FOUND, "NotFound", message, about)
    }

    /// 409: an object with this name exists.
    pub(crate) fn already_exists(about: &About<'_>, terminating: bool) -> Self {
        let prefix = if terminating {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!(
            "{prefix}{} {:?} already exists",
            about.qualified_resource(),
            about.name
        );
        Self::about(StatusCode::CONFLICT, "AlreadyExists", message, about)
    }

    /// 409: the server generated no unused name from `generateName`.
    pub(crate) fn no_unique_name(about: &About<'_>) -> Self {
        let message = format!(
            "{} {:?} already exists, the server was not able to generate a unique name for the object",
            about.qualified_resource(),
            about.name
        );
        Self::about(StatusCode::CONFLICT, "AlreadyExists", message, about).retry_after(1)
    }

    /// 409: the current state of the object does not allow the write.
    pub(crate) fn conflict(about: &About<'_>, detail: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {:?}: {detail}",
            about.qualified_resource(),
            about.name
        );
        Self::about(StatusCode::CONFLICT, "Conflict", message, about)
    }

    /// 409: other managers own fields that an apply changes.
    pub(crate) fn apply_conflict(message: &str, causes: Vec<Value>) -> Self {
        Self::failure(StatusCode::CONFLICT, "Conflict", message).detail("causes", causes.into())
    }

    /// 409: another client changed the object first.
    pub(crate) fn modified(about: &About<'_>) -> Self {
        Self::conflict(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object is invalid.
    pub(crate) fn invalid(about: &About<'_>, errors: &[FieldError]) -> Self {
        let message = match errors {
            [] => format!("{} {:?} is invalid", about.qualified_kind(), about.name),
            errors => format!(
                "{} {:?} is invalid: {}",
                about.qualified_kind(),
                about.name,
                field::sentence(errors)
            ),
        };
        let mut details = about.details(about.kind);
        if !errors.is_empty() {
            details.insert(
                "causes".to_owned(),
                errors.iter().map(FieldError::cause).collect(),
            );
        }
        Self {
            details: Some(details),
            ..Self::failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        }
    }

    /// 422: an update has no resourceVersion. Unlike in the other 422 responses, Kubernetes names
    /// the resource and not the kind.
    pub(crate) fn version_missing(about: &About<'_>) -> Self {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        );
        Self::invalid(
            &About {
                kind: about.resource,
                ..*about
            },
            &[error],
        )
    }

    /// 422: the options of a request are invalid; `kind` is for example `ListOptions`.
    pub(crate) fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        let about = About {
            group: "meta.k8s.io",
            resource: "",
            kind,
            name: "",
        };
        Self::invalid(&about, errors)
    }

    /// 403: the request is forbidden, for the reason in `detail`.
    pub(crate) fn forbidden(about: &About<'_>, detail: &str) -> Self {
        let resource = about.qualified_resource();
        let message = match (resource.as_str(), about.name) {
            ("", _) => format!("forbidden: {detail}"),
            (_, "") => format!("{resource} is forbidden: {detail}"),
            (_, name) => format!("{resource} {name:?} is forbidden: {detail}"),
        };
        Self::about(StatusCode::FORBIDDEN, "Forbidden", message, about)
    }

    /// 403: the namespace is being deleted.
    pub(crate) fn namespace_terminating(about: &About<'_>, namespace: &str) -> Self {
        let detail = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Self::forbidden(about, &detail).cause(
            "NamespaceTerminating",
            &format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        )
    }

    /// 429: a disruption budget does not currently allow the eviction of a pod.
    pub(crate) fn disruption_budget(why: &str, retry_after: Option<u32>) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let status = Self::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .cause("DisruptionBudget", why, "");
        match retry_after {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        }
    }

    /// 422: the result of a patch has a field of the wrong type. As in Kubernetes, it names no kind.
    pub(crate) fn patch_invalid(patch: &str, why: &str) -> Self {
        let about = About {
            group: "",
            resource: "",
            kind: "",
            name: "",
        };
        let error = FieldError::invalid("patch", &patch.into(), why);
        let message = format!(
            " \"\" is invalid: {}",
            field::sentence(std::slice::from_ref(&error))
        );
        Self {
            message,
            ..Self::invalid(&about, &[error])
        }
    }

    /// 201: the request to a subresource succeeded.
    pub(crate) fn done() -> Self {
        Self::failure(StatusCode::CREATED, "", "")
    }

    /// 200: the object was deleted.
    pub(crate) fn deleted(about: &About<'_>, uid: &str) -> Self {
        let mut status = Self::about(StatusCode::OK, "", String::new(), about);
        if !uid.is_empty() {
            status = status.detail("uid", uid.into());
        }
        status
    }
}

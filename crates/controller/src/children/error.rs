//! Errors of children: invalid ones, objects of others, and refused requests.

use std::time::Duration;

use windlass_informer::ObjectKey;

use super::InvalidSelector;
use crate::error::demanded_delay;

/// Why a desired child is invalid. Nothing is written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidChild {
    /// It cannot be serialized.
    #[error("it cannot be serialized")]
    Serialize {
        /// The error.
        source: serde_json::Error,
    },

    /// It is not a map of fields.
    #[error("it must be a JSON object")]
    NotAnObject,

    /// It has another kind than it was declared with.
    #[error("it is a {found}, and only {declared} can be written here")]
    OtherKind {
        /// The kind in the object.
        found: String,
        /// The declared kind.
        declared: String,
    },

    /// It has no name, and a generated name would create another child each time.
    #[error("it needs a name; generateName would create another object in each call")]
    NoName,

    /// The name or namespace cannot be part of a URL.
    #[error("its {field} {value:?} is not a valid name")]
    InvalidName {
        /// `name` or `namespace`.
        field: &'static str,
        /// The value.
        value: String,
    },

    /// A child of a cluster-scoped parent names no namespace.
    #[error("it needs a namespace, because its parent has none")]
    NoNamespace,

    /// The kind has no namespace and the child names one.
    #[error("its kind is cluster-scoped, and it names the namespace {namespace:?}")]
    UnexpectedNamespace {
        /// The namespace.
        namespace: String,
    },

    /// The child is in another namespace than its parent, or is cluster-scoped and its parent is
    /// not.
    #[error(
        "it is not in the namespace of its parent, so that it cannot have an owner reference and \
         Kubernetes will not delete it together with the parent; to write it anyway, allow it with \
         `ChildConfig::elsewhere` in a composite controller, or else with `Desired::untracked_owner`, \
         and delete it in the clean-up"
    )]
    Elsewhere,

    /// It names another object as its controller.
    #[error("its ownerReferences name another controller")]
    OtherController,

    /// A field has the wrong type.
    #[error("its {field} must be a map")]
    NotAMap {
        /// The field.
        field: &'static str,
    },

    /// A field has the wrong type.
    #[error("its {field} must be a list")]
    NotAList {
        /// The field.
        field: &'static str,
    },

    /// The overrides have a field that identifies the child.
    #[error(
        "its {field} cannot be overridden, because it identifies the child; remove it from the overrides"
    )]
    Overridden {
        /// The field.
        field: &'static str,
    },

    /// The selector of the parent does not match its labels.
    #[error(
        "the selector of its parent ({selector}) does not match its labels, so that it would be \
         released after it was created; add the labels"
    )]
    NotSelected {
        /// The selector.
        selector: String,
    },

    /// The same child is desired twice.
    #[error("it is desired twice")]
    Twice,
}

/// Why a child was not written or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The parent has no uid.
    #[error("{kind} {key} has no uid, so it does not come from an API server")]
    NoUid {
        /// The kind of the parent, as `plural.group`.
        kind: String,
        /// The parent.
        key: ObjectKey,
    },

    /// The desired child is invalid. Nothing was written.
    #[error("the desired child {resource} {name} is invalid: {source}")]
    Invalid {
        /// The kind, as `plural.group`.
        resource: String,
        /// The namespace and name, as far as they are known.
        name: String,
        /// The reason, which is part of the message.
        source: InvalidChild,
    },

    /// Another object controls the child. Such an object is never changed or deleted.
    #[error(
        "{resource} {key} belongs to {by}, and was not changed; choose another name for the child"
    )]
    Controlled {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// Kind and name of its controller.
        by: String,
    },

    /// The child exists and was not created for the parent: it has no controller, or an earlier object
    /// with the name of the parent had it, which was deleted without its clean-up. Such an object is
    /// never changed or deleted.
    #[error(
        "{resource} {key} exists already and was not changed: it has no controller, or an earlier \
         parent of this name; allow `Desired::adopt` (`ChildConfig::adopt`), or choose another name"
    )]
    NotOurs {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
    },

    /// The label selector of the parent is invalid. Nothing was adopted or released.
    #[error(
        "the selector of {resource} {key} is invalid, and nothing was adopted or released: {source}"
    )]
    InvalidSelector {
        /// The kind of the parent, as `plural.group`.
        resource: String,
        /// The parent.
        key: ObjectKey,
        /// The reason, which is part of the message.
        source: InvalidSelector,
    },

    /// The parent was deleted, is being deleted, or was replaced by another object of its name. It
    /// adopts nothing.
    #[error(
        "{resource} {key} was deleted or replaced meanwhile, and adopted nothing; the next event \
         shows its newest state"
    )]
    ParentGone {
        /// The kind of the parent, as `plural.group`.
        resource: String,
        /// The parent.
        key: ObjectKey,
    },

    /// The child has changed since it was read: another version, another uid, or it was deleted.
    #[error("{resource} {key} was changed by another writer meanwhile")]
    Conflict {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The response of the API server.
        source: Box<kube::Error>,
    },

    /// The child has the annotation `windlass.dev/keep`, so that it is not replaced.
    #[error(
        "{resource} {key} has to be replaced and was not changed, because it must not be deleted; to \
         replace it, remove the annotation `windlass.dev/keep` from it"
    )]
    Kept {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
    },

    /// A check of the child, of [`Dependent::ready`](crate::Dependent::ready) or
    /// [`Dependent::failed`](crate::Dependent::failed), panicked.
    #[error("the check whether {resource} {key} is ready panicked; the log has the message")]
    CheckPanicked {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
    },

    /// Other writers have deleted the child too often since it was created.
    #[error(
        "{resource} {key} was deleted by another writer several times, and is created again after \
         {wait:?}"
    )]
    Contended {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The time until the next attempt.
        wait: Duration,
    },

    /// A permission is missing. Other refusals with the code 403, such as those of a quota or a webhook,
    /// are [`Request`](Self::Request).
    #[error(
        "cannot {verb} {resource} {key}: forbidden; a Role or ClusterRole must grant `{verb}` on \
         {resource}"
    )]
    Forbidden {
        /// The verb that must be granted.
        verb: &'static str,
        /// The kind, as `plural.group`, with `/status` for a write of the status.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The response of the API server.
        source: Box<kube::Error>,
    },

    /// The API server refused the request, or was not reached.
    #[error("cannot {verb} {resource} {key}")]
    Request {
        /// The verb of the request, as in RBAC.
        verb: &'static str,
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The error.
        source: Box<kube::Error>,
    },

    /// The kind has no status subresource.
    #[error(
        "cannot write the status of {resource} {key}: the kind has no status subresource; add \
         `subresources: {{ status: {{}} }}` to the version of its CustomResourceDefinition"
    )]
    NoStatusSubresource {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
    },

    /// The schema of the kind has no such field of the status.
    #[error(
        "cannot write the status of {resource} {key}: the schema of the kind does not declare the field \
         {field}; add it to the CustomResourceDefinition"
    )]
    UndeclaredField {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The path of the field, for example `status.observedGeneration`.
        field: String,
    },

    /// The store's object does not decode.
    #[error("{resource} {key} in the store does not decode")]
    Undecodable {
        /// The kind, as `plural.group`.
        resource: String,
        /// The object.
        key: ObjectKey,
        /// The error.
        source: windlass_informer::DecodeError,
    },
}

// === impl ChildError ===

impl ChildError {
    /// Whether the error is a conflict with another writer: a retry with the newest state helps.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::ParentGone { .. })
    }

    /// Whether a retry cannot help before the desired child or the existing object changes.
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid { .. } | Self::InvalidSelector { .. })
    }

    /// The error of the API server.
    #[must_use]
    pub const fn request(&self) -> Option<&kube::Error> {
        match self {
            Self::Conflict { source, .. }
            | Self::Forbidden { source, .. }
            | Self::Request { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The least time to wait before the next attempt, at most 5 minutes, if the API server named
    /// one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Contended { wait, .. } = self {
            return Some(*wait);
        }
        demanded_delay(self.request()?)
    }
}

//! Objects as JSON, and their ids.

use std::{fmt, ops::Deref};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::k8s_types::K8sType;

/// An object that exists in the cluster, as JSON.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct K8sResource(pub(super) Value);

/// A map of JSON.
pub type JsonObject = serde_json::Map<String, Value>;

/// JSON that is no object of the cluster.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("invalid resource: {message}")]
pub struct InvalidResourceError {
    /// What is missing.
    pub message: &'static str,
    /// The JSON.
    pub value: Value,
}

/// An `apiVersion` and a `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct K8sTypeRef<'a>(pub &'a str, pub &'a str);

/// A namespace, which is empty for cluster-scoped objects, and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectIdRef<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// An owned [`ObjectIdRef`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

// === impl K8sResource ===

impl K8sResource {
    /// Creates a resource, for tests of handlers.
    ///
    /// # Errors
    ///
    /// [`InvalidResourceError`] if a field is missing that every object of the cluster has.
    ///
    /// ```
    /// use windlass::roperator::resource::K8sResource;
    /// use windlass::roperator::serde_json::json;
    ///
    /// let refused = K8sResource::from_value(json!({ "kind": "Pod" })).unwrap_err();
    /// assert_eq!(refused.to_string(), "invalid resource: missing apiVersion");
    /// ```
    pub fn from_value(value: Value) -> Result<Self, InvalidResourceError> {
        let fields = [
            ("/apiVersion", "missing apiVersion"),
            ("/kind", "missing kind"),
            ("/metadata/name", "missing metadata.name"),
            ("/metadata/uid", "missing metadata.uid"),
            (
                "/metadata/resourceVersion",
                "missing metadata.resourceVersion",
            ),
        ];
        let is_missing = |field: &str| !value.pointer(field).is_some_and(Value::is_string);
        match fields.into_iter().find(|(field, _)| is_missing(field)) {
            Some((_, message)) => Err(InvalidResourceError { message, value }),
            None => Ok(Self(value)),
        }
    }

    /// Whether it has this namespace and name.
    #[must_use]
    pub fn is_id(&self, id: &ObjectIdRef<'_>) -> bool {
        self.get_object_id() == *id
    }

    /// Whether it has this kind.
    #[must_use]
    pub fn is_type(&self, of: &K8sTypeRef<'_>) -> bool {
        self.get_type_ref() == *of
    }

    fn text(&self, pointer: &str) -> &str {
        self.str_value(pointer).unwrap_or_default()
    }

    /// The text at a JSON pointer.
    #[must_use]
    pub fn str_value(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer).and_then(Value::as_str)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.str_value("/metadata/namespace")
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// The version of this state.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// The group and version.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The generation; -1 for kinds without one.
    #[must_use]
    pub fn generation(&self) -> i64 {
        let generation = self.0.pointer("/metadata/generation");
        generation.and_then(Value::as_i64).unwrap_or(-1)
    }

    /// The status, if it has one.
    #[must_use]
    pub fn status(&self) -> Option<&Value> {
        self.0.get("status")
    }

    /// The value of a label.
    #[must_use]
    pub fn get_label_value(&self, label: &str) -> Option<&str> {
        let labels = self.0.pointer("/metadata/labels")?;
        labels.get(label)?.as_str()
    }

    /// Whether it is marked for deletion.
    #[must_use]
    pub fn is_deletion_timestamp_set(&self) -> bool {
        self.str_value("/metadata/deletionTimestamp").is_some()
    }

    /// The namespace and name.
    #[must_use]
    pub fn get_object_id(&self) -> ObjectIdRef<'_> {
        ObjectIdRef {
            namespace: self.namespace().unwrap_or_default(),
            name: self.name(),
        }
    }

    /// The kind.
    #[must_use]
    pub fn get_type_ref(&self) -> K8sTypeRef<'_> {
        K8sTypeRef(self.api_version(), self.kind())
    }

    /// Decodes it.
    ///
    /// # Errors
    ///
    /// The reason why it is no `T`.
    pub fn into_type<T: DeserializeOwned>(self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.0)
    }

    /// The JSON.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl Deref for K8sResource {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl AsRef<Value> for K8sResource {
    fn as_ref(&self) -> &Value {
        &self.0
    }
}

impl From<K8sResource> for Value {
    fn from(it: K8sResource) -> Self {
        it.0
    }
}

/// Shows the JSON.
impl fmt::Display for K8sResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Shows the kind and the id, and no content, which may be secret.
impl fmt::Debug for K8sResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.get_object_id())
    }
}

// === impl InvalidResourceError ===

/// Shows no content, which may be secret.
impl fmt::Debug for InvalidResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl K8sTypeRef, ObjectIdRef and ObjectId ===

impl<'a> K8sTypeRef<'a> {
    /// Creates it.
    #[must_use]
    pub const fn new(api_version: &'a str, kind: &'a str) -> Self {
        Self(api_version, kind)
    }

    /// The `apiVersion` and the kind.
    #[must_use]
    pub const fn as_parts(&self) -> (&'a str, &'a str) {
        (self.0, self.1)
    }

    /// The group and version.
    #[must_use]
    pub const fn api_version(&self) -> &'a str {
        self.0
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> &'a str {
        self.1
    }
}

/// As `v1/Pod`.
impl fmt::Display for K8sTypeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl PartialEq<K8sType> for K8sTypeRef<'_> {
    fn eq(&self, other: &K8sType) -> bool {
        *self == other.to_type_ref()
    }
}

impl From<&K8sType> for K8sTypeRef<'_> {
    fn from(it: &K8sType) -> Self {
        Self(it.api_version, it.kind)
    }
}

impl<'a> From<(&'a str, &'a str)> for K8sTypeRef<'a> {
    fn from((api_version, kind): (&'a str, &'a str)) -> Self {
        Self(api_version, kind)
    }
}

impl<'a> From<(&'a str, &'a str)> for ObjectIdRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        Self { namespace, name }
    }
}

impl<'a> From<&'a ObjectId> for ObjectIdRef<'a> {
    fn from(id: &'a ObjectId) -> Self {
        (&*id.namespace, &*id.name).into()
    }
}

impl<'a> ObjectIdRef<'a> {
    /// Creates it.
    #[must_use]
    pub const fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }

    /// The namespace, and the name.
    #[must_use]
    pub const fn as_parts(&self) -> (&'a str, &'a str) {
        (self.namespace, self.name)
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&'a str> {
        (!self.namespace.is_empty()).then_some(self.namespace)
    }

    /// The same id, owned.
    #[must_use]
    pub fn to_owned(&self) -> ObjectId {
        ObjectId {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectIdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl ObjectId {
    /// Creates it.
    #[must_use]
    pub const fn new(namespace: String, name: String) -> Self {
        Self { namespace, name }
    }

    /// The same id, borrowed.
    #[must_use]
    pub fn as_id_ref(&self) -> ObjectIdRef<'_> {
        self.into()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.as_id_ref().namespace()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_id_ref(), f)
    }
}

//! Objects as JSON, and their ids.

use std::{fmt, ops::Deref};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::k8s_types::K8sType;

/// An object that exists in the cluster, as JSON.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct K8sResource(pub(super) Value);

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

/// Shows the kind and the id, and no content, which may be secret.
impl fmt::Debug for K8sResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.get_object_id())
    }
}

// === impl K8sTypeRef, ObjectIdRef and ObjectId ===

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

impl ObjectIdRef<'_> {
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

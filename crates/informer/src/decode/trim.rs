//! `Trim`: fields that are removed before an object is kept. *(pure)*
//!
//! They are cut out of the JSON (`trimmed_json`) before it is decoded or kept. In real Pods the
//! managed fields are a third of the bytes.
//!
//! This module also adds `apiVersion` and `kind` to items of lists of built-in kinds, which lack
//! them, so that each `DynamicObject` has its types.

mod trimmed_json;
mod type_meta;

use std::collections::BTreeMap;

pub(crate) use self::trimmed_json::TrimmedJson;
use self::type_meta::WithTypeMeta;
use super::{DecodeError, RawJson};

/// The fields of an object that are removed before it is kept.
///
/// The default removes `metadata.managedFields`, which only the API server needs.
///
/// # Example
///
/// ```
/// use windlass_informer::Trim;
///
/// let trim = Trim::default().field(["status"]);
/// # _ = trim;
/// ```
#[derive(Clone, Debug)]
pub struct Trim {
    root: Node,
}

/// What is removed below one field: everything, or some of its fields.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Dropped,
    Fields(BTreeMap<String, Node>),
}

/// The types of an object.
#[derive(Clone, Debug)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

// === impl Trim ===

impl Trim {
    /// Keeps every field.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            root: Node::Fields(BTreeMap::new()),
        }
    }

    /// Also removes the field at `path`, from the root of the object. Fields inside of lists cannot
    /// be named.
    #[must_use]
    pub fn field<S: Into<String>>(mut self, path: impl IntoIterator<Item = S>) -> Self {
        let mut node = &mut self.root;
        let mut path = path.into_iter().map(Into::into).peekable();
        while let Some(name) = path.next() {
            let Node::Fields(fields) = node else {
                return self;
            };
            let last = path.peek().is_none();
            let below = fields
                .entry(name)
                .or_insert_with(|| Node::Fields(BTreeMap::new()));
            if last {
                *below = Node::Dropped;
            }
            node = below;
        }
        self
    }

    /// Whether the field at `path` is removed.
    #[cfg(test)]
    fn drops(&self, path: &[&str]) -> bool {
        let mut node = &self.root;
        for name in path {
            match node {
                Node::Dropped => return true,
                Node::Fields(fields) => match fields.get(*name) {
                    Some(below) => node = below,
                    None => return false,
                },
            }
        }
        matches!(node, Node::Dropped)
    }

    /// Returns `json`, an object, without the trimmed fields.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it is no JSON object.
    #[doc(hidden)]
    pub fn cut(&self, json: &[u8]) -> Result<String, DecodeError> {
        let (_, cuts) = trimmed_json::find_cuts(RawJson::of(json), &self.root)?;
        cuts.apply(json)
    }

    /// Cuts the trimmed fields out of an object, which must have the kind `kind` if it has a kind.
    pub(super) fn apply(&self, raw: RawJson<'_>, kind: &str) -> Result<TrimmedJson, DecodeError> {
        let (head, cuts) = trimmed_json::find_cuts(raw, &self.root)?;
        TrimmedJson::new(raw.json, &cuts, &head.meta(kind)?)
    }
}

impl Default for Trim {
    fn default() -> Self {
        Self::nothing().field(["metadata", "managedFields"])
    }
}

// === impl TypeMeta ===

impl TypeMeta {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The object that `object` reads, with these types if it lacks them.
    pub(super) const fn with_type_meta<D>(&self, object: D) -> WithTypeMeta<'_, D> {
        WithTypeMeta {
            object,
            types: self,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::DynamicObject;

    use super::{Trim, TypeMeta};
    use crate::decode::RawJson;

    const POD: &str = r#"{
        "metadata": {
            "name": "web",
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
            "labels": {"app": "web"}
        },
        "spec": {"containers": [{"name": "nginx"}], "nodeName": "node-1"},
        "status": {"phase": "Running"}
    }"#;

    #[test]
    fn a_field_is_dropped_with_all_fields_below_it() {
        let trim = Trim::default().field(["spec", "template"]);
        assert!(trim.drops(&["metadata", "managedFields"]));
        assert!(trim.drops(&["metadata", "managedFields", "manager"]));
        assert!(trim.drops(&["spec", "template"]));
        assert!(!trim.drops(&["metadata"]));
        assert!(!trim.drops(&["metadata", "name"]));
        assert!(!trim.drops(&["managedFields"]));
        assert!(!Trim::nothing().drops(&["metadata", "managedFields"]));
    }

    #[test]
    fn managed_fields_are_dropped_from_a_typed_object() {
        let pod = decode::<Pod>(&Trim::default());
        assert_eq!(pod.metadata.name.as_deref(), Some("web"));
        assert_eq!(pod.metadata.managed_fields, None);
        assert!(pod.metadata.labels.is_some());
    }

    #[test]
    fn a_field_that_is_named_is_dropped_and_its_neighbours_stay() {
        let pod = decode::<Pod>(
            &Trim::nothing()
                .field(["spec", "nodeName"])
                .field(["status"]),
        );
        let spec = pod.spec.expect("a spec");
        assert_eq!(spec.node_name, None);
        assert_eq!(spec.containers.len(), 1);
        assert!(pod.status.is_none());
        assert!(pod.metadata.managed_fields.is_some());
    }

    #[test]
    fn a_dynamic_object_from_a_list_has_its_type() {
        let pod = decode::<DynamicObject>(&Trim::default());
        let types = pod.types.expect("filled in");
        assert_eq!(
            (types.api_version.as_str(), types.kind.as_str()),
            ("v1", "Pod")
        );
        assert_eq!(pod.metadata.managed_fields, None);
        assert_eq!(pod.data["spec"]["nodeName"], "node-1");
    }

    #[test]
    fn the_same_fields_are_removed_from_json() {
        let trim = Trim::default()
            .field(["status"])
            .field(["spec", "nodeName"]);
        let raw = RawJson::of(POD.as_bytes());
        let trimmed = trim.apply(raw, "Pod").expect("an object");
        let trimmed = trimmed.json();
        let pod: Pod = serde_json::from_str(trimmed).expect("a pod");
        assert_eq!(pod, decode::<Pod>(&trim));
        assert!(
            !trimmed.contains("kubelet") && !trimmed.contains("Running"),
            "{trimmed}"
        );
    }

    fn decode<T: serde::de::DeserializeOwned>(trim: &Trim) -> T {
        let types = TypeMeta::new("v1", "Pod");
        let trimmed = trim
            .apply(RawJson::of(POD.as_bytes()), "Pod")
            .expect("an object");
        let mut reader = serde_json::Deserializer::from_str(trimmed.json());
        T::deserialize(types.with_type_meta(&mut reader)).expect("a pod")
    }
}

//! The identity of children: labels, the annotation and the owner reference that connect a child to
//! its parent, and the decision whether an object is a child of a parent. *(pure)*

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, api::ObjectMeta};
use serde_json::{Map, Value, json};
use windlass_informer::{ObjectKey, resource_name};

use super::{ChildError, InvalidChild};

/// The label with the uid of the parent. Informers can select children by it.
pub const PARENT_UID: &str = "windlass.dev/parent-uid";

/// The label with the name of the controller that writes the child.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The annotation that names the child itself and its parent.
///
/// Controllers copy labels from one object to another: an `EndpointSlice` has the labels of its
/// `Service`. The annotation tells such a copy from a child, because it names another object.
pub const CHILD: &str = "windlass.dev/child";

/// The annotation of children that are never deleted by this crate, with any value except `false`. The
/// garbage collector does not know it: a child with an owner reference is deleted with its parent.
pub const KEEP: &str = "windlass.dev/keep";

/// The kind of children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildKind {
    pub(super) api_version: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) is_cluster_scoped: bool,
    pub(super) is_metadata_only: bool,
}

/// The object that has children, and the controller that writes them.
#[derive(Clone, Debug)]
pub struct Parent {
    pub(super) api_version: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) manager: String,
    pub(super) is_terminating: bool,
}

/// How an object belongs to a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// It is a child of the parent.
    Ours,
    /// Another object is its controller, or it is a child of an object that is not the parent.
    Controlled {
        /// Kind and name of the other object.
        by: String,
    },
    /// It has no controller, and nothing that names the parent or another object that exists.
    Uncontrolled,
}

// === impl ChildKind ===

impl ChildKind {
    /// Describes the kind `C`. `types` is `&()`, except for kinds that are known only at run time,
    /// which are taken as namespaced.
    #[must_use]
    pub fn of<C: Resource + 'static>(types: &C::DynamicType) -> Self {
        let scope = std::any::TypeId::of::<C::Scope>();
        Self {
            api_version: C::api_version(types).into_owned(),
            group: C::group(types).into_owned(),
            kind: C::kind(types).into_owned(),
            plural: C::plural(types).into_owned(),
            is_cluster_scoped: scope == std::any::TypeId::of::<kube::core::ClusterResourceScope>(),
            is_metadata_only: C::metadata_api(),
        }
    }

    /// Declares that the objects of this kind have no namespace. Only needed for kinds that are
    /// known only at run time.
    #[must_use]
    pub fn cluster_scoped(self) -> Self {
        Self {
            is_cluster_scoped: true,
            ..self
        }
    }

    /// Whether the objects of this kind have no namespace.
    #[must_use]
    pub const fn is_cluster_scoped(&self) -> bool {
        self.is_cluster_scoped
    }

    /// The kind as `plural.group`, or `plural` in the core group.
    #[must_use]
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The path of an object of this kind.
    pub(super) fn path(&self, key: &ObjectKey) -> String {
        format!("{}/{}", self.collection(key.namespace()), key.name())
    }

    /// The path of the objects of this kind.
    pub(super) fn collection(&self, namespace: Option<&str>) -> String {
        let base = if self.group.is_empty() { "api" } else { "apis" };
        let Self {
            api_version,
            plural,
            ..
        } = self;
        match namespace {
            Some(namespace) => format!("/{base}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/{base}/{api_version}/{plural}"),
        }
    }

    /// How the annotation [`CHILD`] names an object of this kind.
    fn reference(&self, key: &ObjectKey) -> String {
        reference(&self.kind, &self.group, key)
    }
}

// === impl Parent ===

impl Parent {
    /// Describes `object` as the parent of children that `manager` writes: the name of the
    /// controller, which is the field manager of its children and the value of their label
    /// `app.kubernetes.io/managed-by`.
    ///
    /// # Errors
    ///
    /// [`ChildError::NoUid`] if the object has no uid, and so does not come from an API server.
    pub fn of<K: Resource>(
        object: &K,
        types: &K::DynamicType,
        manager: &str,
    ) -> Result<Self, ChildError> {
        let meta = object.meta();
        let key = key_of(meta);
        let Some(uid) = meta.uid.clone() else {
            let kind = resource_name::<K>(types);
            return Err(ChildError::NoUid { kind, key });
        };
        Ok(Self {
            api_version: K::api_version(types).into_owned(),
            group: K::group(types).into_owned(),
            kind: K::kind(types).into_owned(),
            key,
            uid,
            manager: manager.to_owned(),
            is_terminating: meta.deletion_timestamp.is_some(),
        })
    }

    /// The uid of the parent.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The namespace and name of the parent.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Whether a child with this namespace can have an owner reference to the parent: the garbage
    /// collector looks for the owner in the namespace of the child, does not find it elsewhere, and
    /// deletes the child.
    pub(crate) fn can_own(&self, namespace: Option<&str>) -> bool {
        self.key.namespace().is_none() || self.key.namespace() == namespace
    }

    /// Whether the parent is being deleted, and the garbage collector has removed the owner reference
    /// to it from a child: with `--cascade=orphan` it does so, and removes nothing else.
    pub(super) fn has_orphaned(&self, metadata: &ObjectMeta) -> bool {
        let owners = metadata.owner_references.iter().flatten();
        self.is_terminating
            && self.can_own(metadata.namespace.as_deref())
            && !owners.into_iter().any(|owner| owner.uid == self.uid)
            && metadata
                .labels
                .iter()
                .flatten()
                .any(|(label, _)| label == PARENT_UID)
    }

    /// Adds the labels, the annotation and the owner reference of a child to `metadata`.
    pub(super) fn mark(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        metadata: &mut Map<String, Value>,
    ) -> Result<(), InvalidChild> {
        let labels = object_in(metadata, "labels")?;
        labels.insert(PARENT_UID.to_owned(), self.uid.clone().into());
        labels.insert(MANAGED_BY.to_owned(), label_value(&self.manager).into());
        let annotations = object_in(metadata, "annotations")?;
        annotations.insert(CHILD.to_owned(), self.annotation(kind, key).into());
        if !self.can_own(key.namespace()) {
            return Ok(());
        }
        let owners = metadata
            .entry("ownerReferences")
            .and_modify(null_to_empty_list)
            .or_insert_with(|| json!([]));
        let Value::Array(owners) = owners else {
            return Err(InvalidChild::NotAList {
                field: "metadata.ownerReferences",
            });
        };
        owners.retain(|owner| owner["uid"] != self.uid.as_str());
        if owners.iter().any(|owner| owner["controller"] == true) {
            return Err(InvalidChild::OtherController);
        }
        owners.push(self.owner_reference());
        Ok(())
    }

    /// The controller reference of children, without `blockOwnerDeletion`, which needs a permission
    /// on the finalizers of the parent.
    pub(super) fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "name": self.key.name(), "uid": self.uid, "controller": true,
        })
    }

    pub(super) fn annotation(&self, kind: &ChildKind, key: &ObjectKey) -> String {
        let parent = reference(&self.kind, &self.group, &self.key);
        format!("{} {parent}", kind.reference(key))
    }

    /// Decides how the object of `kind` with `metadata` belongs to this parent.
    pub(super) fn ownership(&self, kind: &ChildKind, metadata: &ObjectMeta) -> Ownership {
        if let Some(controller) = controller_of(metadata) {
            if controller.uid == self.uid {
                return Ownership::Ours;
            }
            let by = format!("{} {}", controller.kind, controller.name);
            return Ownership::Controlled { by };
        }
        match labelled_parent(kind, metadata) {
            Some((uid, _)) if uid == self.uid => Ownership::Ours,
            // An earlier object with the name of the parent, which was deleted without its clean-up.
            Some((_, parent)) if parent == reference(&self.kind, &self.group, &self.key) => {
                Ownership::Uncontrolled
            }
            Some((_, parent)) => Ownership::Controlled {
                by: parent.to_owned(),
            },
            None => Ownership::Uncontrolled,
        }
    }
}

/// The uid of the parent of an object: that of its controller, or the one in its label if its
/// annotation names the object itself. For an index of children by parent.
#[must_use]
pub fn parent_uid(kind: &ChildKind, metadata: &ObjectMeta) -> Option<String> {
    if let Some(controller) = controller_of(metadata) {
        return Some(controller.uid.clone());
    }
    Some(labelled_parent(kind, metadata)?.0.to_owned())
}

/// The key of the parent of an object of `kind`, if the parent has the kind `parent_kind` in
/// `parent_group`: from the controller reference, or from the annotation that names both.
pub(super) fn parent_key(
    kind: &ChildKind,
    metadata: &ObjectMeta,
    parent_kind: &str,
    parent_group: &str,
) -> Option<ObjectKey> {
    let (_, parent) = labelled_parent(kind, metadata)?;
    let mut parts = parent.split('/');
    let (named_kind, first, second) = (parts.next()?, parts.next()?, parts.next());
    if named_kind != full_kind(parent_kind, parent_group) || parts.next().is_some() {
        return None;
    }
    Some(match second {
        Some(name) => ObjectKey::new(name).within(first),
        None => ObjectKey::new(first),
    })
}

/// The uid in the label of an object and its parent's name in the annotation, if the annotation
/// names the object itself.
pub(super) fn labelled_parent<'a>(
    kind: &ChildKind,
    metadata: &'a ObjectMeta,
) -> Option<(&'a str, &'a str)> {
    let uid = metadata.labels.as_ref()?.get(PARENT_UID)?;
    let annotation = metadata.annotations.as_ref()?.get(CHILD)?;
    let (child, parent) = annotation.split_once(' ')?;
    (child == kind.reference(&key_of(metadata))).then_some((uid, parent))
}

/// The owner that is the controller of an object.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Whether a child with this metadata is kept.
pub(super) fn is_kept(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    let keep = annotations.and_then(|annotations| annotations.get(KEEP));
    keep.is_some_and(|value| value != "false")
}

/// The key in `metadata`.
pub(super) fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    let name = metadata.name.as_deref().unwrap_or_default();
    ObjectKey::in_namespace(name, metadata.namespace.as_deref())
}

/// `Kind.group/namespace/name`. No part of it can contain a slash or a space.
fn reference(kind: &str, group: &str, key: &ObjectKey) -> String {
    let kind = full_kind(kind, group);
    match key.namespace() {
        Some(namespace) => format!("{kind}/{namespace}/{}", key.name()),
        None => format!("{kind}/{}", key.name()),
    }
}

fn full_kind(kind: &str, group: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    }
}

/// The map in `field` of `metadata`, which is added if there is none.
fn object_in<'a>(
    metadata: &'a mut Map<String, Value>,
    field: &'static str,
) -> Result<&'a mut Map<String, Value>, InvalidChild> {
    let value = metadata
        .entry(field)
        .and_modify(|value| {
            if value.is_null() {
                *value = json!({});
            }
        })
        .or_insert_with(|| json!({}));
    value.as_object_mut().ok_or(InvalidChild::NotAMap { field })
}

fn null_to_empty_list(value: &mut Value) {
    if value.is_null() {
        *value = json!([]);
    }
}

/// The value of the label [`MANAGED_BY`] of the children that the controller called `name` writes.
#[must_use]
pub fn managed_by(name: &str) -> String {
    label_value(name)
}

/// Converts a name to the value of a label: at most 63 characters, letters, digits, `-`, `_` and
/// `.`, with a letter or digit at both ends.
fn label_value(name: &str) -> String {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let value: String = (name.chars().take(63))
        .map(|char| if is_allowed(char) { char } else { '-' })
        .collect();
    let ends = |char: char| !char.is_ascii_alphanumeric();
    value.trim_matches(ends).to_owned()
}

#[cfg(test)]
mod tests;

//! `Desired`: one child as it should be, checked and completed before it is written. *(pure)*

use std::{fmt, marker::PhantomData};

use serde::Serialize;
use serde_json::{Map, Value};
use windlass_informer::ObjectKey;

mod fields;
mod name;

use self::{
    fields::{encode_string_data, remove_observed, set_kind},
    name::{key, name},
};
use super::{ChildError, ChildKind, InvalidChild, Parent, digest::Digest, overrides};

/// How an existing child is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateStrategy {
    /// Server-side apply.
    #[default]
    Apply,

    /// Deletes the child and creates it again, if the desired state changed, or another writer
    /// changed a field of it and the API server accepts the desired one for an existing object. A child
    /// of another strategy, and one that is adopted, is also replaced if an apply cannot change it to
    /// the desired state. Before a child is deleted, the API server is asked whether it accepts the new
    /// one. A child with the annotation `windlass.dev/keep` is not deleted: the apply fails with
    /// [`ChildError::Kept`].
    ///
    /// It is asked while the child exists, about an object with another name. Addresses and ports that
    /// the child has allocated prevent nothing, and those of another object do. But a `ResourceQuota`
    /// that is used up, or a webhook that wants a field to be unique, refuses the new one until another
    /// client deletes the child.
    ///
    /// After a start, a child with the last desired state is replaced only if it lacks a field, or
    /// another manager has set one: a webhook may have changed its create.
    Recreate,

    /// Leaves an existing child as it is, except for its labels and owner. A new desired state takes
    /// effect after another client deleted the child. Whether a child has its desired state is known only
    /// of those of [`Owned::rolling`](crate::Owned::rolling).
    #[doc(alias = "create_once")]
    OnDelete,
}

/// A child as it should be.
///
/// `Desired` has the fields that the controller decides; fields that it does not have are left to
/// others. Every serializable object converts to it.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use windlass_controller::Desired;
///
/// let json = Desired::<ConfigMap>::json(json!({ "data": { "theme": "dark" } }));
/// let typed = Desired::from(ConfigMap::default()).named("settings");
/// # drop((json, typed));
/// ```
#[must_use = "a desired child does nothing until it is applied"]
pub struct Desired<C> {
    object: Result<Value, serde_json::Error>,
    overrides: Vec<Value>,
    name: Option<String>,
    is_untracked: bool,
    is_adopted: bool,
    strategy: UpdateStrategy,
    is_rolled: bool,
    earlier_managers: Vec<String>,
    of: PhantomData<fn(C)>,
}

/// A checked child with everything that is written except for preconditions.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) key: ObjectKey,
    /// The body of the apply request.
    pub(super) body: Value,
    /// Of `body`.
    pub(super) digest: Digest,
    /// Of what the user desires: `body` without the identity of the child. Written into an annotation,
    /// if there is one.
    pub(super) mark: Option<Digest>,
    pub(super) is_adopted: bool,
    pub(super) strategy: UpdateStrategy,
    /// The managers whose fields move to us.
    pub(super) earlier_managers: Vec<String>,
}

/// The fields of `metadata` that only the API server sets. An object that was read from a store has
/// them, and they are not part of what is desired.
const SERVER_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

// === impl Desired ===

impl<C> Desired<C> {
    /// Creates it from JSON. The kind, the name and the namespace are added if they are missing: the
    /// name and namespace of the parent.
    pub const fn json(object: Value) -> Self {
        Self::new(Ok(object))
    }

    const fn new(object: Result<Value, serde_json::Error>) -> Self {
        Self {
            object,
            overrides: Vec::new(),
            name: None,
            is_untracked: false,
            is_adopted: false,
            strategy: UpdateStrategy::Apply,
            is_rolled: false,
            earlier_managers: Vec::new(),
            of: PhantomData,
        }
    }

    /// Sets the name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// Merges `overrides` into the child: a part of an object that the user of the operator has given,
    /// for example `podOverrides` in the spec of the parent. Later ones are merged over earlier ones.
    /// Null has no effect.
    ///
    /// - Objects are merged field by field. `null` removes a field.
    /// - Lists whose items all have a `name` are merged by it: containers, volumes, variables. The
    ///   `volumeMounts` are merged by `mountPath` and the `volumeDevices` by `devicePath`, because their
    ///   name is that of a volume. An item is not removed, but an empty list replaces all.
    /// - Other lists, and those in which a name occurs twice, are replaced.
    /// - The `stringData` of a Secret and of its overrides are merged as `data`.
    ///
    /// Fields that exclude each other are merged too: a variable with a `value` that is overridden by a
    /// `valueFrom` needs `value: null` in the overrides. The `subjects` of role bindings are merged by
    /// `name`, so that a subject of another kind or namespace with the name of an existing one changes it.
    ///
    /// The child is invalid ([`InvalidChild::Overridden`]) if they have a field that identifies it:
    /// `kind`, `apiVersion`, or the name, `generateName`, namespace, uid or owners in `metadata`. The labels and the
    /// annotation of children stay. The API server checks everything else.
    ///
    /// The `DeepMerge` of `k8s-openapi` knows the keys of more lists, but it removes nothing, drops
    /// fields that its types do not have, and has no custom resources.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use serde_json::json;
    /// use windlass_controller::Desired;
    ///
    /// fn deployment(pod_overrides: Option<serde_json::Value>) -> Desired<Deployment> {
    ///     let container = json!({ "name": "app", "image": "app:1" });
    ///     let template = json!({ "spec": { "containers": [container] } });
    ///     let desired = Desired::json(json!({ "spec": { "template": template } }));
    ///     match pod_overrides {
    ///         Some(overrides) => desired.overridden_by(json!({ "spec": { "template": overrides } })),
    ///         // `"template": null` would remove the template.
    ///         None => desired,
    ///     }
    /// }
    ///
    /// let container = json!({ "name": "app", "resources": { "limits": { "memory": "1Gi" } } });
    /// let desired = deployment(Some(json!({ "spec": { "containers": [container] } })));
    /// assert!(format!("{desired:?}").contains("overrides: 1"));
    /// ```
    ///
    /// Source: Stackable, its `podOverrides`.
    pub fn overridden_by(mut self, overrides: Value) -> Self {
        self.overrides.push(overrides);
        self
    }

    /// Takes over an object that exists already and that no other object controls.
    pub fn adopt(self) -> Self {
        Self {
            is_adopted: true,
            ..self
        }
    }

    /// Allows a child without an owner reference: in another namespace than its parent, or
    /// cluster-scoped although its parent is not. Kubernetes does not delete such a child together
    /// with its parent, so that the parent needs a finalizer, and the clean-up must delete the child.
    pub fn untracked_owner(self) -> Self {
        Self {
            is_untracked: true,
            ..self
        }
    }

    /// Sets how an existing child is changed. By default with server-side apply.
    pub fn strategy(self, strategy: UpdateStrategy) -> Self {
        Self { strategy, ..self }
    }

    /// Takes over the fields that `manager` has set with creates and updates, so that those that this
    /// does not have are removed. For children that an earlier program has written without server-side
    /// apply: its field manager is its `User-Agent` up to the first slash, unless it named another one.
    /// It is called once for each manager. Without it such fields stay, because two managers have them.
    ///
    /// Of children with another strategy than [`Apply`](UpdateStrategy::Apply), no fields move.
    pub fn migrate_from(mut self, manager: impl Into<String>) -> Self {
        self.earlier_managers.push(manager.into());
        self
    }

    /// Marks the child with the digest of its desired state, so that outdated children are known.
    pub(crate) fn rolled(self) -> Self {
        Self {
            is_rolled: true,
            ..self
        }
    }

    /// Whether it names itself, so that its name does not follow from its parent.
    pub(super) fn has_name(&self) -> bool {
        let named = |object: &Value| {
            object
                .pointer("/metadata/name")
                .is_some_and(Value::is_string)
        };
        self.name.is_some() || self.object.as_ref().is_ok_and(named)
    }

    /// The key of the child, also if the child is invalid for another reason. `None` if no child with
    /// its name can exist.
    pub(crate) fn key(&self, parent: &Parent, kind: &ChildKind) -> Option<ObjectKey> {
        let metadata = self.object.as_ref().ok().and_then(|it| it.get("metadata"));
        let metadata = metadata.and_then(Value::as_object);
        let name = name(self.name.as_deref(), metadata, parent);
        key(&name, metadata.unwrap_or(&Map::new()), parent, kind).ok()
    }

    /// Checks the child, and adds its kind, name, namespace, labels, annotation and owner.
    ///
    /// # Errors
    ///
    /// [`ChildError::Invalid`].
    pub(super) fn prepare(self, parent: &Parent, kind: &ChildKind) -> Result<Prepared, ChildError> {
        let mut name = self.name.clone();
        self.prepared(parent, kind, &mut name)
            .map_err(|source| ChildError::Invalid {
                resource: kind.resource(),
                name: name.unwrap_or_else(|| "without a name".to_owned()),
                source,
            })
    }

    fn prepared(
        self,
        parent: &Parent,
        kind: &ChildKind,
        shown: &mut Option<String>,
    ) -> Result<Prepared, InvalidChild> {
        let object = self
            .object
            .map_err(|source| InvalidChild::Serialize { source })?;
        let Value::Object(mut body) = object else {
            return Err(InvalidChild::NotAnObject);
        };
        let metadata = body.get("metadata").and_then(Value::as_object);
        let name = name(self.name.as_deref(), metadata, parent);
        *shown = Some(name.clone());
        let is_secret = kind.group.is_empty() && kind.kind == "Secret";
        if is_secret {
            encode_string_data(&mut body, false)?;
        }
        for mut overrides in self.overrides {
            if let Value::Object(fields) = &mut overrides
                && is_secret
            {
                if fields.get("stringData").is_some_and(Value::is_null) {
                    return Err(InvalidChild::NotAMap {
                        field: "overrides.stringData",
                    });
                }
                encode_string_data(fields, true)?;
            }
            overrides::apply(&mut body, &overrides)?;
        }
        set_kind(&mut body, kind)?;
        let mut metadata = match body.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(InvalidChild::NotAMap { field: "metadata" }),
        };
        if metadata.contains_key("resourceVersion") {
            remove_observed(&mut body, &mut metadata, parent);
        }
        for field in SERVER_FIELDS {
            metadata.remove(field);
        }
        if metadata.contains_key("generateName") {
            return Err(InvalidChild::NoName);
        }
        let key = key(&name, &metadata, parent, kind)?;
        if !parent.can_own(key.namespace()) && !self.is_untracked {
            return Err(InvalidChild::Elsewhere);
        }
        metadata.insert("name".to_owned(), name.into());
        if let Some(namespace) = key.namespace() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let is_marked = self.is_rolled || self.strategy == UpdateStrategy::Recreate;
        let mark = is_marked.then(|| {
            let mut fields = body.clone();
            fields.remove("apiVersion");
            fields.insert("metadata".to_owned(), metadata.clone().into());
            Digest::of(&fields.into())
        });
        parent.mark(kind, &key, &mut metadata)?;
        body.insert("metadata".to_owned(), metadata.into());
        let body = Value::Object(body);
        Ok(Prepared {
            key,
            digest: Digest::of(&body),
            body,
            is_adopted: self.is_adopted,
            strategy: self.strategy,
            mark,
            earlier_managers: self.earlier_managers,
        })
    }
}

impl<C: Serialize> From<C> for Desired<C> {
    fn from(object: C) -> Self {
        Self::new(serde_json::to_value(object))
    }
}

/// Shows how it is written and never the content, which may be secret.
impl<C> fmt::Debug for Desired<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desired")
            .field("name", &self.name)
            .field("overrides", &self.overrides.len())
            .field("is_untracked", &self.is_untracked)
            .field("is_adopted", &self.is_adopted)
            .field("strategy", &self.strategy)
            .field("earlier_managers", &self.earlier_managers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

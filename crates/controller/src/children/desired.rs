//! `Desired`: one child as it should be, checked and completed before it is written. *(pure)*

use std::{fmt, marker::PhantomData};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass_informer::ObjectKey;

use super::{ChildError, ChildKind, InvalidChild, Parent, digest::Digest};

/// How an existing child is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateStrategy {
    /// Server-side apply.
    #[default]
    Apply,

    /// Deletes the child and creates it again, if the desired state changed, or another writer
    /// changed a field of it that cannot be changed back. Before a child is deleted, the API server
    /// is asked whether it accepts the new one.
    Recreate,

    /// Leaves an existing child as it is, except for its labels and owner. A new desired state takes
    /// effect after another client deleted the child.
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
    name: Option<String>,
    is_untracked: bool,
    is_adopted: bool,
    strategy: UpdateStrategy,
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
            name: None,
            is_untracked: false,
            is_adopted: false,
            strategy: UpdateStrategy::Apply,
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

    /// Whether it names itself, so that its name does not follow from its parent.
    pub(super) fn has_name(&self) -> bool {
        let named = |object: &Value| {
            object
                .pointer("/metadata/name")
                .is_some_and(Value::is_string)
        };
        self.name.is_some() || self.object.as_ref().is_ok_and(named)
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

    /// The key and the object of the child, as it would be sent. No object if it has too few fields
    /// to decode.
    ///
    /// # Errors
    ///
    /// [`ChildError::Invalid`].
    pub(crate) fn unsent(
        self,
        parent: &Parent,
        kind: &ChildKind,
    ) -> Result<(ObjectKey, Option<C>), ChildError>
    where
        C: DeserializeOwned,
    {
        let Prepared { key, body, .. } = self.prepare(parent, kind)?;
        Ok((key, serde_json::from_value(body).ok()))
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
        set_kind(&mut body, kind)?;
        let mut metadata = match body.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(InvalidChild::NotAMap { field: "metadata" }),
        };
        for field in SERVER_FIELDS {
            metadata.remove(field);
        }
        if metadata.contains_key("generateName") {
            return Err(InvalidChild::NoName);
        }
        let given = metadata.get("name").and_then(Value::as_str);
        let name = self.name.or_else(|| given.map(str::to_owned));
        let name = name.unwrap_or_else(|| parent.key.name().to_owned());
        *shown = Some(name.clone());
        let key = ObjectKey::new(check_name("name", &name)?);
        let key = match namespace(&metadata, parent, kind)? {
            Some(namespace) => key.within(check_name("namespace", &namespace)?),
            None => key,
        };
        if !parent.can_own(key.namespace()) && !self.is_untracked {
            return Err(InvalidChild::Elsewhere);
        }
        metadata.insert("name".to_owned(), name.into());
        if let Some(namespace) = key.namespace() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        parent.mark(kind, &key, &mut metadata)?;
        body.insert("metadata".to_owned(), metadata.into());
        if kind.group.is_empty() && kind.kind == "Secret" {
            encode_string_data(&mut body)?;
        }
        let body = Value::Object(body);
        Ok(Prepared {
            key,
            digest: Digest::of(&body),
            body,
            is_adopted: self.is_adopted,
            strategy: self.strategy,
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
            .field("is_untracked", &self.is_untracked)
            .field("is_adopted", &self.is_adopted)
            .field("strategy", &self.strategy)
            .field("earlier_managers", &self.earlier_managers)
            .finish_non_exhaustive()
    }
}

/// Sets `apiVersion` and `kind`, which may be missing.
fn set_kind(body: &mut Map<String, Value>, kind: &ChildKind) -> Result<(), InvalidChild> {
    for (field, declared) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
        match body.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(found)) if found == declared => {}
            Some(found) => {
                let found = found.as_str().unwrap_or_default();
                return Err(InvalidChild::OtherKind {
                    found: windlass_informer::one_line(found).into_owned(),
                    declared: format!("{} of {}", kind.kind, kind.api_version),
                });
            }
        }
        body.insert(field.to_owned(), declared.clone().into());
    }
    Ok(())
}

/// The namespace of a child: the one that it names, or that of its parent.
fn namespace(
    metadata: &Map<String, Value>,
    parent: &Parent,
    kind: &ChildKind,
) -> Result<Option<String>, InvalidChild> {
    let named = match metadata.get("namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(namespace)) => Some(namespace.clone()),
        Some(other) => {
            return Err(InvalidChild::InvalidName {
                field: "namespace",
                value: other.to_string(),
            });
        }
    };
    if kind.is_cluster_scoped {
        return match named {
            None => Ok(None),
            Some(namespace) => Err(InvalidChild::UnexpectedNamespace { namespace }),
        };
    }
    let namespace = named.or_else(|| parent.key.namespace().map(str::to_owned));
    namespace.map(Some).ok_or(InvalidChild::NoNamespace)
}

/// Refuses a name that would change the path of a request. The API server checks the rest.
fn check_name<'a>(field: &'static str, value: &'a str) -> Result<&'a str, InvalidChild> {
    let is_visible = |char: char| char.is_ascii_graphic() && !"/%?#\\\"<>`{}^|".contains(char);
    let is_valid = !matches!(value, "" | "." | "..") && value.chars().all(is_visible);
    if is_valid {
        return Ok(value);
    }
    Err(InvalidChild::InvalidName {
        field,
        value: windlass_informer::one_line(value).into_owned(),
    })
}

/// Moves the `stringData` of a Secret into `data`. The API server does that too, and then keeps
/// entries that later requests do not have.
///
/// Source: <https://github.com/kubernetes/kubernetes/issues/108008>.
fn encode_string_data(body: &mut Map<String, Value>) -> Result<(), InvalidChild> {
    let strings = match body.remove("stringData") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(strings)) => strings,
        Some(_) => {
            return Err(InvalidChild::NotAMap {
                field: "stringData",
            });
        }
    };
    let data = body.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    let data = data
        .as_object_mut()
        .ok_or(InvalidChild::NotAMap { field: "data" })?;
    for (key, value) in strings {
        let Value::String(text) = value else {
            return Err(InvalidChild::NotAMap {
                field: "stringData",
            });
        };
        data.insert(key, STANDARD.encode(text).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::ConfigMap, core::v1::Secret, rbac::v1::ClusterRole};
    use kube::Resource;

    use super::*;

    fn parent(namespace: Option<&str>) -> Parent {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("blog".into());
        map.metadata.namespace = namespace.map(str::to_owned);
        map.metadata.uid = Some("u-1".into());
        Parent::of(&map, &(), "websites").expect("it has a uid")
    }

    /// One row: the key of the child of a parent in `namespace`, or why it is invalid.
    #[track_caller]
    fn check<C>(namespace: Option<&str>, desired: Desired<C>, expected: &str)
    where
        C: Resource<DynamicType = ()> + 'static,
    {
        let kind = ChildKind::of::<C>(&());
        let shown = match desired.prepare(&parent(namespace), &kind) {
            Ok(prepared) => prepared.key.to_string(),
            Err(ChildError::Invalid { source, .. }) => source.to_string(),
            Err(other) => panic!("{other}"),
        };
        assert!(shown.starts_with(expected), "{shown:?}, not {expected:?}");
    }

    /// Rows: RO-31
    #[test]
    fn a_child_has_a_name_a_namespace_and_the_declared_kind() {
        let map = Desired::<ConfigMap>::json;
        let role = Desired::<ClusterRole>::json;
        let shop = Some("shop");
        check(shop, map(json!({})), "shop/blog");
        check(shop, map(json!({})).named("web"), "shop/web");
        check(
            shop,
            map(json!({ "metadata": { "name": "web", "namespace": "shop" } })),
            "shop/web",
        );
        check(None, role(json!({})), "blog");
        check(
            None,
            map(json!({ "metadata": { "namespace": "shop" } })),
            "shop/blog",
        );

        check(
            shop,
            map(json!({ "metadata": { "generateName": "web-" } })),
            "it needs a name",
        );
        check(
            shop,
            map(json!({ "kind": "Secret" })),
            "it is a Secret, and only ConfigMap of v1",
        );
        check(
            shop,
            map(json!({ "apiVersion": "v2" })),
            "it is a v2, and only",
        );
        check(shop, map(json!([])), "it must be a JSON object");
        check(
            shop,
            map(json!({ "metadata": 7 })),
            "its metadata must be a map",
        );
        check(
            shop,
            map(json!({ "metadata": { "labels": [] } })),
            "its labels must be a map",
        );
        check(
            shop,
            map(json!({})).named("a/../b"),
            "its name \"a/../b\" is not",
        );
        check(shop, map(json!({})).named(".."), "its name \"..\" is not");
        check(shop, map(json!({})).named("a?b"), "its name \"a?b\" is not");
        check(None, map(json!({})), "it needs a namespace");
        check(
            None,
            role(json!({ "metadata": { "namespace": "shop" } })),
            "its kind is cluster-scoped, and",
        );
    }

    /// Rows: RO-42
    #[test]
    fn a_child_elsewhere_needs_permission_and_has_no_owner_reference() {
        let elsewhere = || {
            let object = json!({ "metadata": { "namespace": "other" } });
            Desired::<ConfigMap>::json(object)
        };
        check(
            Some("shop"),
            elsewhere(),
            "it is not in the namespace of its parent",
        );
        check(Some("shop"), elsewhere().untracked_owner(), "other/blog");
        let role = || Desired::<ClusterRole>::json(json!({}));
        check(Some("shop"), role(), "it is not in the namespace");
        check(Some("shop"), role().untracked_owner(), "blog");

        let kind = ChildKind::of::<ConfigMap>(&());
        let prepared = elsewhere()
            .untracked_owner()
            .prepare(&parent(Some("shop")), &kind)
            .expect("allowed");
        assert!(prepared.body["metadata"]["ownerReferences"].is_null());
        assert_eq!(
            prepared.body["metadata"]["labels"]["windlass.dev/parent-uid"],
            "u-1"
        );
    }

    #[test]
    fn a_child_from_the_store_is_written_without_the_fields_of_the_server() {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("web".into());
        map.metadata.uid = Some("u-7".into());
        map.metadata.resource_version = Some("9".into());
        map.metadata.generation = Some(3);
        map.metadata.managed_fields = Some(Vec::new());
        let kind = ChildKind::of::<ConfigMap>(&());
        let prepared = Desired::from(map).prepare(&parent(Some("shop")), &kind);
        let body = prepared.expect("valid").body;
        let metadata = body["metadata"].as_object().expect("a map");
        let fields: Vec<_> = metadata.keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "annotations",
                "labels",
                "name",
                "namespace",
                "ownerReferences"
            ]
        );
    }

    #[test]
    fn the_string_data_of_a_secret_is_encoded() {
        let kind = ChildKind::of::<Secret>(&());
        let prepare = |object: Value| {
            let prepared = Desired::<Secret>::json(object).prepare(&parent(Some("shop")), &kind);
            prepared.map(|it| it.body)
        };
        let body = prepare(json!({
            "data": { "a": "MQ==", "b": "Mg==" }, "stringData": { "b": "two", "c": "" },
        }));
        let body = body.expect("valid");
        assert_eq!(
            body["data"],
            json!({ "a": "MQ==", "b": "dHdv", "c": "" }),
            "stringData wins, as in the API server"
        );
        assert!(body.get("stringData").is_none());
        assert!(prepare(json!({ "stringData": [] })).is_err());
        assert!(prepare(json!({ "stringData": { "a": 7 } })).is_err());
    }
}

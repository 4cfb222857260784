//! Views of the children of one kind, raw and typed.

use std::{fmt, marker::PhantomData, sync::Arc};

use kube::{Resource, ResourceExt as _, api::DynamicObject};
use serde::de::DeserializeOwned;
use windlass_informer::{ObjectIdentity as _, ObjectKey};

/// The children of one kind, without a type. A copy is a view of the same objects.
#[derive(Clone, Copy)]
pub struct RawView<'a> {
    objects: &'a [Arc<DynamicObject>],
    /// That of the parent.
    namespace: Option<&'a str>,
}

/// The children of kind `K`. Each is decoded when it is read.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// # use windlass_composite::SyncRequest;
///
/// fn ready(request: &SyncRequest) -> Result<usize, serde_json::Error> {
///     let mut ready = 0;
///     for pod in request.children().of::<Pod>() {
///         let phase = pod?.status.and_then(|status| status.phase);
///         ready += usize::from(phase.as_deref() == Some("Running"));
///     }
///     Ok(ready)
/// }
/// ```
pub struct TypedView<'a, K> {
    raw: RawView<'a>,
    of: PhantomData<fn() -> K>,
}

// === impl RawView ===

impl<'a> RawView<'a> {
    pub(crate) const fn new(objects: &'a [Arc<DynamicObject>], namespace: Option<&'a str>) -> Self {
        Self { objects, namespace }
    }

    /// The same children as objects of type `K`.
    #[must_use]
    pub const fn typed<K>(self) -> TypedView<'a, K> {
        TypedView {
            raw: self,
            of: PhantomData,
        }
    }

    /// The child called `name` in the namespace of the parent, or a cluster-scoped one.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a Arc<DynamicObject>> {
        self.objects.iter().find(|it| {
            let namespace = it.meta().namespace.as_deref();
            it.name() == name && (namespace.is_none() || namespace == self.namespace)
        })
    }

    /// The child with this namespace and name.
    #[must_use]
    pub fn with_key(self, key: &ObjectKey) -> Option<&'a Arc<DynamicObject>> {
        self.objects.iter().find(|it| it.key() == *key)
    }

    /// Whether there is a child called `name`, like [`get`](Self::get).
    #[must_use]
    pub fn exists(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The first child, by namespace and name.
    #[must_use]
    pub fn first(self) -> Option<&'a Arc<DynamicObject>> {
        self.objects.first()
    }

    /// All children, by namespace and name.
    pub fn iter(self) -> impl Iterator<Item = &'a Arc<DynamicObject>> {
        self.objects.iter()
    }

    /// The number of children.
    #[must_use]
    pub const fn count(self) -> usize {
        self.objects.len()
    }

    /// Whether there is no child.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.objects.is_empty()
    }
}

impl<'a> IntoIterator for RawView<'a> {
    type Item = &'a Arc<DynamicObject>;
    type IntoIter = std::slice::Iter<'a, Arc<DynamicObject>>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.iter()
    }
}

impl fmt::Debug for RawView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.objects.iter().map(|it| it.name_any());
        f.debug_set().entries(names).finish()
    }
}

// === impl TypedView ===

impl<'a, K> TypedView<'a, K> {
    /// The same children without a type.
    #[must_use]
    pub const fn raw(&self) -> RawView<'a> {
        self.raw
    }

    /// Whether there is a child called `name`, like [`get`](Self::get). It may not decode.
    #[must_use]
    pub fn exists(&self, name: &str) -> bool {
        self.raw.exists(name)
    }

    /// The number of children, also of those that do not decode.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.raw.count()
    }

    /// Whether there is no child.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

impl<'a, K: DeserializeOwned + 'a> TypedView<'a, K> {
    /// The child called `name` in the namespace of the parent, or a cluster-scoped one. The inner
    /// error says why it does not decode.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Result<K, serde_json::Error>> {
        self.raw.get(name).map(|object| decode(object))
    }

    /// The child with this namespace and name, like [`get`](Self::get).
    #[must_use]
    pub fn with_key(&self, key: &ObjectKey) -> Option<Result<K, serde_json::Error>> {
        self.raw.with_key(key).map(|object| decode(object))
    }

    /// The first child, by namespace and name, like [`get`](Self::get).
    #[must_use]
    pub fn first(&self) -> Option<Result<K, serde_json::Error>> {
        self.raw.first().map(|object| decode(object))
    }

    /// All children, by namespace and name, like [`get`](Self::get).
    pub fn iter(&self) -> impl Iterator<Item = Result<K, serde_json::Error>> + use<'a, K> {
        self.raw.into_iter().map(|object| decode(object))
    }
}

impl<'a, K: DeserializeOwned + 'a> IntoIterator for TypedView<'a, K> {
    type Item = Result<K, serde_json::Error>;
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}

impl<K> Clone for TypedView<'_, K> {
    fn clone(&self) -> Self {
        self.raw.typed()
    }
}

impl<K> fmt::Debug for TypedView<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

fn decode<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(object)?)
}

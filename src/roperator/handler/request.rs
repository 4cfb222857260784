//! Requests: a parent and its children.

use std::{marker::PhantomData, slice};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::roperator::{
    k8s_types::K8sType,
    resource::{K8sResource, K8sTypeRef, ObjectIdRef},
};

/// A parent and its existing children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// The parent.
    pub parent: K8sResource,
    /// Its existing children.
    pub children: Vec<K8sResource>,
}

/// The children of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestChildren<'a>(&'a [K8sResource]);

/// The children of one kind.
#[derive(Clone, Copy, Debug)]
pub struct RawView<'a> {
    children: &'a [K8sResource],
    of: K8sTypeRef<'a>,
}

/// The children of one kind, decoded as `T`.
#[derive(Clone, Copy, Debug)]
pub struct TypedView<'a, T>(RawView<'a>, PhantomData<fn() -> T>);

/// The children of one kind.
#[derive(Clone, Debug)]
pub struct RawIter<'a> {
    children: slice::Iter<'a, K8sResource>,
    of: K8sTypeRef<'a>,
}

/// The children of one kind, decoded as `T`.
#[derive(Clone, Debug)]
pub struct TypedIter<'a, T>(RawIter<'a>, PhantomData<fn() -> T>);

// === impl SyncRequest ===

impl SyncRequest {
    /// Decodes the parent.
    ///
    /// # Errors
    ///
    /// The reason why it is no `T`.
    pub fn deserialize_parent<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.parent.clone().into_type()
    }

    /// The children.
    #[must_use]
    pub fn children(&self) -> RequestChildren<'_> {
        RequestChildren(&self.children)
    }
}

// === impl RequestChildren, RawView and TypedView ===

impl<'a> RequestChildren<'a> {
    /// The children of one kind: a [`K8sType`], or its `apiVersion` and `kind`.
    #[must_use]
    pub fn of_type(&self, of: impl Into<K8sTypeRef<'a>>) -> RawView<'a> {
        let (children, of) = (self.0, of.into());
        RawView { children, of }
    }

    /// The children of one kind, decoded.
    #[must_use]
    pub fn with_type<T: DeserializeOwned>(&self, of: &'static K8sType) -> TypedView<'a, T> {
        self.of_type((of.api_version, of.kind)).as_type()
    }

    /// All children.
    pub fn iter(&self) -> impl Iterator<Item = &'a K8sResource> + use<'a> {
        self.0.iter()
    }
}

impl<'a> RawView<'a> {
    /// The children.
    #[must_use]
    pub fn iter(&self) -> RawIter<'a> {
        RawIter {
            children: self.children.iter(),
            of: self.of,
        }
    }

    /// The kind.
    #[must_use]
    pub const fn type_ref(&self) -> K8sTypeRef<'a> {
        self.of
    }

    /// The child with this namespace and name.
    #[must_use]
    pub fn get<'c>(&self, id: impl Into<ObjectIdRef<'c>>) -> Option<&'a K8sResource> {
        let id = id.into();
        self.iter().find(|it| it.get_object_id() == id)
    }

    /// Whether the child exists.
    #[must_use]
    pub fn exists<'c>(&self, id: impl Into<ObjectIdRef<'c>>) -> bool {
        self.get(id).is_some()
    }

    /// The first child.
    #[must_use]
    pub fn first(&self) -> Option<&'a K8sResource> {
        self.iter().next()
    }

    /// The number of children.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no child.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The same children, decoded.
    #[must_use]
    pub const fn as_type<T: DeserializeOwned>(&self) -> TypedView<'a, T> {
        TypedView(*self, PhantomData)
    }
}

impl<'a, T: DeserializeOwned> TypedView<'a, T> {
    /// The children.
    #[must_use]
    pub fn iter(&self) -> TypedIter<'a, T> {
        TypedIter(self.0.iter(), PhantomData)
    }

    /// The child with this namespace and name.
    #[must_use]
    pub fn get<'c>(&self, id: impl Into<ObjectIdRef<'c>>) -> Option<Result<T, serde_json::Error>> {
        self.0.get(id).map(|it| it.clone().into_type())
    }

    /// Whether the child exists.
    #[must_use]
    pub fn exists<'c>(&self, id: impl Into<ObjectIdRef<'c>>) -> bool {
        self.0.exists(id)
    }

    /// The first child.
    #[must_use]
    pub fn first(&self) -> Option<Result<T, serde_json::Error>> {
        self.iter().next()
    }

    /// The number of children.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Whether there is no child.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same children without a type.
    #[must_use]
    pub const fn as_raw(&self) -> &RawView<'a> {
        &self.0
    }
}

impl<'a> IntoIterator for RawView<'a> {
    type Item = &'a K8sResource;
    type IntoIter = RawIter<'a>;

    fn into_iter(self) -> RawIter<'a> {
        self.iter()
    }
}

impl<'a, T: DeserializeOwned> IntoIterator for TypedView<'a, T> {
    type Item = Result<T, serde_json::Error>;
    type IntoIter = TypedIter<'a, T>;

    fn into_iter(self) -> TypedIter<'a, T> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawView<'a> {
    type Item = &'a K8sResource;
    type IntoIter = RawIter<'a>;

    fn into_iter(self) -> RawIter<'a> {
        self.iter()
    }
}

impl<'a, T: DeserializeOwned> IntoIterator for &TypedView<'a, T> {
    type Item = Result<T, serde_json::Error>;
    type IntoIter = TypedIter<'a, T>;

    fn into_iter(self) -> TypedIter<'a, T> {
        self.iter()
    }
}

// === impl RawIter and TypedIter ===

impl<'a> Iterator for RawIter<'a> {
    type Item = &'a K8sResource;

    fn next(&mut self) -> Option<&'a K8sResource> {
        let of = self.of;
        self.children.find(|it| it.get_type_ref() == of)
    }
}

impl<T: DeserializeOwned> Iterator for TypedIter<'_, T> {
    type Item = Result<T, serde_json::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.clone().into_type())
    }
}

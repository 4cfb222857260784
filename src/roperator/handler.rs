//! Handlers, their requests and their responses.

use std::{marker::PhantomData, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    error::Error,
    k8s_types::K8sType,
    resource::{K8sResource, K8sTypeRef, ObjectIdRef},
};

pub mod failable;

/// A parent and its existing children.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyncRequest {
    /// The parent.
    pub parent: K8sResource,
    /// Its existing children.
    pub children: Vec<K8sResource>,
}

/// The status of the parent, and all children that it should have.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncResponse {
    /// The status. `null`: it stays as it is.
    pub status: Value,
    /// The children. Others are deleted.
    pub children: Vec<Value>,
    /// When to call `sync` again although nothing has changed.
    pub resync: Option<Duration>,
}

/// Whether a clean-up has finished.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalizeResponse {
    /// The status, which is written if the clean-up has not finished.
    pub status: Value,
    /// `None`: it has finished. Otherwise the delay of the next call.
    pub retry: Option<Duration>,
}

/// Computes children and status of a parent, like
/// [`CompositeHandler`](crate::composite::CompositeHandler), which has the contract.
pub trait Handler: Send + Sync + 'static {
    /// Returns the children and the status.
    ///
    /// # Errors
    ///
    /// Children and status stay as they are, and the call is repeated.
    fn sync(&self, request: &SyncRequest) -> Result<SyncResponse, Error>;

    /// Called for a parent that is being deleted. By default it finishes at once.
    ///
    /// # Errors
    ///
    /// The parent stays, and the call is repeated.
    fn finalize(&self, request: &SyncRequest) -> Result<FinalizeResponse, Error> {
        let status = request.parent.status().cloned().unwrap_or_default();
        let retry = None;
        Ok(FinalizeResponse { status, retry })
    }

    /// The response, and whether all existing children stay as they are after an error.
    #[doc(hidden)]
    fn sync_or_recover(&self, request: &SyncRequest) -> Result<(SyncResponse, bool), Error> {
        Ok((self.sync(request)?, false))
    }
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

// === impl SyncRequest and SyncResponse ===

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

impl SyncResponse {
    /// Creates a response without children.
    #[must_use]
    pub const fn new(status: Value) -> Self {
        Self {
            status,
            children: Vec::new(),
            resync: None,
        }
    }

    /// Creates a response without children, with a status that is serialized.
    ///
    /// # Errors
    ///
    /// If the status does not serialize.
    pub fn from_status<S: Serialize>(status: S) -> Result<Self, serde_json::Error> {
        serde_json::to_value(status).map(Self::new)
    }

    /// Adds a child.
    ///
    /// # Errors
    ///
    /// If the child does not serialize.
    pub fn add_child<C: Serialize>(&mut self, child: C) -> Result<(), serde_json::Error> {
        self.children.push(serde_json::to_value(child)?);
        Ok(())
    }
}

// === impl Handler ===

impl<F> Handler for F
where
    F: Fn(&SyncRequest) -> Result<SyncResponse, Error> + Send + Sync + 'static,
{
    fn sync(&self, request: &SyncRequest) -> Result<SyncResponse, Error> {
        self(request)
    }
}

/// A function, and one for its errors, which returns the status and the delay of the next call.
impl<S, E> Handler for (S, E)
where
    S: Fn(&SyncRequest) -> Result<SyncResponse, Error> + Send + Sync + 'static,
    E: Fn(&SyncRequest, Error) -> (Value, Option<Duration>) + Send + Sync + 'static,
{
    fn sync(&self, request: &SyncRequest) -> Result<SyncResponse, Error> {
        (self.0)(request)
    }

    fn sync_or_recover(&self, request: &SyncRequest) -> Result<(SyncResponse, bool), Error> {
        /// The delay of a repeated call, if the function names none.
        const RETRY: Duration = Duration::from_secs(10);
        let error = match (self.0)(request) {
            Ok(response) => return Ok((response, false)),
            Err(error) => error,
        };
        let (status, delay) = (self.1)(request, error);
        let resync = Some(delay.unwrap_or(RETRY));
        let response = SyncResponse {
            resync,
            ..SyncResponse::new(status)
        };
        Ok((response, true))
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
    pub fn iter(&self) -> impl Iterator<Item = &'a K8sResource> + use<'a> {
        let of = self.of;
        self.children
            .iter()
            .filter(move |it| it.get_type_ref() == of)
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
    pub fn iter(&self) -> impl Iterator<Item = Result<T, serde_json::Error>> + use<'a, T> {
        self.0.iter().map(|it| it.clone().into_type())
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

//! Handlers, their requests and their responses.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::error::Error;

pub mod failable;
pub mod request;

pub use self::request::{RawView, RequestChildren, SyncRequest, TypedView};

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
    /// The response of a [`failable`] handler, or of two functions, to an error has one child without a
    /// kind, which says that all existing children stay: return it unchanged.
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
}

/// The only field of the child that stands for all existing ones.
const KEEP_CHILDREN: &str = "windlass.dev/keep-children";

// === impl SyncResponse ===

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

    /// Creates a response that leaves all children as they are, for a handler that has failed. A response
    /// without children deletes them.
    ///
    /// Its only child has no kind. Return it unchanged, also from a handler around another one.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::roperator::{prelude::SyncResponse, serde_json::json};
    ///
    /// let response = SyncResponse::keeping_children(json!({ "error": "no connection" }));
    /// assert_eq!(response.status["error"], "no connection");
    /// assert_eq!(response.children.len(), 1, "it stands for all existing ones");
    /// ```
    #[must_use]
    pub fn keeping_children(status: Value) -> Self {
        Self {
            children: vec![json!({ KEEP_CHILDREN: true })],
            ..Self::new(status)
        }
    }

    /// Whether all children stay as they are.
    pub(super) fn keeps_children(&self) -> bool {
        let keeps = |child: &Value| child.get(KEEP_CHILDREN).is_some();
        self.children.iter().any(keeps)
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
        /// The delay of a repeated call, if the function names none.
        const RETRY: Duration = Duration::from_secs(10);
        let error = match (self.0)(request) {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let (status, delay) = (self.1)(request, error);
        Ok(SyncResponse {
            resync: Some(delay.unwrap_or(RETRY)),
            ..SyncResponse::keeping_children(status)
        })
    }
}

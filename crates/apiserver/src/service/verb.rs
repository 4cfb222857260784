//! The verb of a request.

use http::Method;

use crate::wire::{Query, ResourcePath};

/// The verb of a request, as authorization and discovery name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

// === impl Verb ===

impl Verb {
    pub(super) fn of(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        Some(match (method, &path.name) {
            (&Method::GET, Some(_)) => Self::Get,
            (&Method::GET, None) if query.flag("watch").unwrap_or(false) => Self::Watch,
            (&Method::GET, None) => Self::List,
            (&Method::POST, None) => Self::Create,
            (&Method::POST, Some(_)) if path.subresource.is_some() => Self::Create,
            (&Method::PUT, Some(_)) => Self::Update,
            (&Method::PATCH, Some(_)) => Self::Patch,
            (&Method::DELETE, Some(_)) => Self::Delete,
            (&Method::DELETE, None) => Self::DeleteCollection,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

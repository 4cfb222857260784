//! `SyncRequest`: a parent and its existing children.

use std::{fmt, sync::Arc};

use kube::{
    Resource,
    api::{ApiResource, DynamicObject},
};
use windlass_informer::{ObjectIdentity as _, ObjectKey};

use crate::{RawView, TypedView};

/// A parent and its existing children, as the stores had them when the call began.
///
/// A clone has the same objects and copies none.
pub struct SyncRequest<P = DynamicObject> {
    parent: Arc<P>,
    key: ObjectKey,
    is_finalizing: bool,
    children: ObservedChildren,
}

/// The existing children of a parent, of all kinds of the controller, also those that are being
/// deleted.
#[derive(Clone)]
pub struct ObservedChildren {
    namespace: Option<Arc<str>>,
    kinds: Arc<[ObservedKind]>,
}

/// The children of one kind.
pub(crate) struct ObservedKind {
    pub(crate) types: ApiResource,
    /// By namespace and name.
    pub(crate) objects: Vec<Arc<DynamicObject>>,
}

// === impl SyncRequest ===

impl<P: Resource> SyncRequest<P> {
    pub(crate) fn new(
        parent: Arc<P>,
        key: ObjectKey,
        is_finalizing: bool,
        kinds: Vec<ObservedKind>,
    ) -> Self {
        Self {
            children: ObservedChildren {
                namespace: key.namespace().map(Arc::from),
                kinds: kinds.into(),
            },
            parent,
            key,
            is_finalizing,
        }
    }

    /// The parent.
    #[must_use]
    pub const fn parent(&self) -> &Arc<P> {
        &self.parent
    }

    /// The namespace and name of the parent.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The name of the parent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The namespace of the parent; none if it is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The uid of the parent: a name for things outside of the cluster that no later parent has.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.parent.meta().uid.as_deref().unwrap_or_default()
    }

    /// The generation of the parent; 0 for kinds without one.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.parent.meta().generation.unwrap_or_default()
    }

    /// Whether the parent is being deleted, so that the call is one of `finalize`.
    #[must_use]
    pub const fn is_finalizing(&self) -> bool {
        self.is_finalizing
    }

    /// The existing children of the parent.
    #[must_use]
    pub const fn children(&self) -> &ObservedChildren {
        &self.children
    }
}

// === impl ObservedChildren ===

impl ObservedChildren {
    /// The children of kind `K`, which are decoded when they are read.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>(&self) -> TypedView<'_, K> {
        self.of_kind(&ApiResource::erase::<K>(&())).typed()
    }

    /// The children of a kind that is known only at run time.
    #[must_use]
    pub fn of_kind(&self, types: &ApiResource) -> RawView<'_> {
        self.of_type(&types.api_version, &types.kind)
    }

    /// The children with this `apiVersion` and `kind`.
    #[must_use]
    pub fn of_type(&self, api_version: &str, kind: &str) -> RawView<'_> {
        let is = |it: &&ObservedKind| it.types.api_version == api_version && it.types.kind == kind;
        let found = self.kinds.iter().find(is);
        let objects = found.map_or(&[][..], |it| &it.objects);
        RawView::new(objects, self.namespace.as_deref())
    }

    /// All children, by kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DynamicObject>> {
        self.kinds.iter().flat_map(|kind| &kind.objects)
    }

    /// The number of children.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no child.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl<P> Clone for SyncRequest<P> {
    fn clone(&self) -> Self {
        Self {
            parent: Arc::clone(&self.parent),
            key: self.key.clone(),
            is_finalizing: self.is_finalizing,
            children: self.children.clone(),
        }
    }
}

/// Shows keys and no content, which may be secret.
impl<P: Resource> fmt::Debug for SyncRequest<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncRequest")
            .field("key", &format_args!("{}", self.key))
            .field("uid", &self.uid())
            .field("generation", &self.generation())
            .field("is_finalizing", &self.is_finalizing)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

/// Shows keys and no content, which may be secret.
impl fmt::Debug for ObservedChildren {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.iter().map(|kind| {
            let keys = kind.objects.iter().map(|it| it.key().to_string());
            (&kind.types.kind, keys.collect::<Vec<_>>())
        });
        f.debug_map().entries(kinds).finish()
    }
}

//! Handles: how a reconciler reads the objects of the other kinds of its controller.

use std::{fmt, marker::PhantomData, sync::Arc};

use kube::api::ObjectMeta;
use windlass_informer::{Index, LazyObject, ObjectKey, Uid, resource_name};

use super::{Context, Informers, Watchable, claims::Claims, references::References};
use crate::children::{ChildKind, parent_uid};

/// The objects of kind `C` that objects of kind `K` own. [`ControllerBuilder::owns`] and
/// [`ControllerBuilder::claims`] create it.
///
/// The handle contains the stores, so that a kind that is not owned cannot be read.
///
/// [`ControllerBuilder::owns`]: super::ControllerBuilder::owns
/// [`ControllerBuilder::claims`]: super::ControllerBuilder::claims
pub struct Owned<K: Watchable, C: Watchable> {
    informers: Informers<C>,
    by_owner: Index<C, Uid>,
    /// The selector, if the children are selected.
    pub(super) claims: Option<Claims<K, C>>,
}

/// The objects of kind `O` that affect objects of kind `K` through a mapper.
/// [`ControllerBuilder::watches`] creates it.
///
/// [`ControllerBuilder::watches`]: super::ControllerBuilder::watches
pub struct Related<K: Watchable, O: Watchable> {
    informers: Informers<O>,
    of: PhantomData<fn(K)>,
}

/// The objects of kind `O` to which objects of kind `K` refer.
/// [`ControllerBuilder::refers_to`] creates it.
///
/// [`ControllerBuilder::refers_to`]: super::ControllerBuilder::refers_to
pub struct Referred<K: Watchable, O: Watchable> {
    informers: Informers<O>,
    references: Arc<References<K>>,
}

// === impl Owned ===

impl<K: Watchable, C: Watchable> Owned<K, C> {
    /// The index of children by the uids of their owners, and of the parent that their annotation
    /// names.
    pub(super) fn index(types: &C::DynamicType) -> Index<C, Uid> {
        let kind = ChildKind::of::<C>(types);
        Index::new(move |child: &C| owners(&kind, child.meta()))
    }

    pub(super) const fn new(informers: Informers<C>, by_owner: Index<C, Uid>) -> Self {
        Self {
            informers,
            by_owner,
            claims: None,
        }
    }

    /// The children are those that `claims` selects.
    pub(super) fn claimed(self, claims: Claims<K, C>) -> Self {
        Self {
            claims: Some(claims),
            ..self
        }
    }

    /// The children of the object of `cx`: those with an owner reference to it, by uid. Sorted by
    /// key, and after them those that this call has created.
    #[must_use]
    pub fn of(&self, cx: &Context<K>) -> Vec<Arc<C>> {
        let children = self.lazy(cx);
        children
            .iter()
            .filter_map(|child| child.get().ok())
            .collect()
    }

    /// Like [`of`](Self::of), without decoding the children.
    pub(super) fn lazy(&self, cx: &Context<K>) -> Vec<LazyObject<C>> {
        let Some(uid) = cx.object().meta().uid.as_deref().map(Uid::from) else {
            return Vec::new();
        };
        let resource = resource_name::<C>(self.informers.types());
        // The index is declared in all informers of this kind.
        let keys = self
            .informers
            .keys_by(&self.by_owner, &uid)
            .unwrap_or_default();
        let stored = keys.iter().filter_map(|key| {
            (cx.call.writer).newest(&resource, key, self.informers.get_lazy(key))
        });
        let kind = ChildKind::of::<C>(self.informers.types());
        let is_owned = |child: &LazyObject<C>| owners(&kind, &child.metadata()).contains(&uid);
        // A child that this call has released.
        let is_kept = |child: &LazyObject<C>| self.claims.is_none() || is_owned(child);
        let mut children: Vec<_> = stored.filter(is_kept).collect();
        let created = (cx.call.writer).created::<C>(&resource, |key| keys.contains(key));
        children.extend(created.into_iter().filter(is_owned));
        children
    }

    /// The child of the object of `cx` called `name`, in the namespace of the object.
    #[must_use]
    pub fn get(&self, cx: &Context<K>, name: &str) -> Option<Arc<C>> {
        self.child(cx, &ObjectKey::in_namespace(name, cx.key().namespace()))
    }

    /// The child of the object of `cx` with this key.
    pub(super) fn child(&self, cx: &Context<K>, key: &ObjectKey) -> Option<Arc<C>> {
        let child = self.newest(cx, key)?.get().ok()?;
        let uid = Uid::from(cx.object().meta().uid.as_deref()?);
        let kind = ChildKind::of::<C>(self.informers.types());
        owners(&kind, child.meta()).contains(&uid).then_some(child)
    }

    /// The newest state of the child with `key`: from the store, or from a response of this call.
    pub(super) fn newest(&self, cx: &Context<K>, key: &ObjectKey) -> Option<LazyObject<C>> {
        newest(cx, &self.informers, key)
    }

    /// The informers of the children, for all objects of kind `K`.
    #[must_use]
    pub const fn informers(&self) -> &Informers<C> {
        &self.informers
    }
}

/// The newest state of the object with `key`: from the store, or from a response of this call.
fn newest<K: Watchable, O: Watchable>(
    cx: &Context<K>,
    informers: &Informers<O>,
    key: &ObjectKey,
) -> Option<LazyObject<O>> {
    let stored = informers.get_lazy(key);
    if informers.are_of_other_clusters() {
        // The calls write to this cluster, where another object can have the key.
        return stored;
    }
    let resource = resource_name::<O>(informers.types());
    (cx.call.writer).newest(&resource, key, stored)
}

/// The uids of the owners of a child, and of the parent that its annotation names.
fn owners(kind: &ChildKind, child: &ObjectMeta) -> Vec<Uid> {
    let owners = child.owner_references.iter().flatten();
    let owners = owners.map(|owner| Uid::from(owner.uid.as_str()));
    let parent = parent_uid(kind, child).map(|uid| Uid::from(uid.as_str()));
    owners.chain(parent).collect()
}

// === impl Related ===

impl<K: Watchable, O: Watchable> Related<K, O> {
    pub(super) const fn new(informers: Informers<O>) -> Self {
        Self {
            informers,
            of: PhantomData,
        }
    }

    /// The object with this key: from the store, or from a response of this call.
    #[must_use]
    pub fn get(&self, cx: &Context<K>, key: &ObjectKey) -> Option<Arc<O>> {
        newest(cx, &self.informers, key)?.get().ok()
    }

    /// The informers of the kind.
    #[must_use]
    pub const fn informers(&self) -> &Informers<O> {
        &self.informers
    }
}

// === impl Referred ===

impl<K: Watchable, O: Watchable> Referred<K, O> {
    pub(super) const fn new(informers: Informers<O>, references: Arc<References<K>>) -> Self {
        Self {
            informers,
            references,
        }
    }

    /// The objects to which the object of `cx` refers and that exist, in the order of the references.
    #[must_use]
    pub fn of(&self, cx: &Context<K>) -> Vec<Arc<O>> {
        let keys = (self.references)(cx.object());
        let found = keys
            .iter()
            .filter_map(|key| newest(cx, &self.informers, key));
        found.filter_map(|object| object.get().ok()).collect()
    }

    /// The first object to which the object of `cx` refers and that exists.
    #[must_use]
    pub fn one(&self, cx: &Context<K>) -> Option<Arc<O>> {
        let keys = (self.references)(cx.object());
        (keys.iter()).find_map(|key| newest(cx, &self.informers, key)?.get().ok())
    }

    /// The informers of the kind.
    #[must_use]
    pub const fn informers(&self) -> &Informers<O> {
        &self.informers
    }
}

// === formatting and cloning ===

impl<K: Watchable, C: Watchable> Clone for Owned<K, C> {
    fn clone(&self) -> Self {
        Self {
            informers: self.informers.clone(),
            by_owner: self.by_owner.clone(),
            claims: self.claims.clone(),
        }
    }
}

impl<K: Watchable, O: Watchable> Clone for Related<K, O> {
    fn clone(&self) -> Self {
        Self::new(self.informers.clone())
    }
}

impl<K: Watchable, O: Watchable> Clone for Referred<K, O> {
    fn clone(&self) -> Self {
        Self::new(self.informers.clone(), Arc::clone(&self.references))
    }
}

impl<K: Watchable, C: Watchable> fmt::Debug for Owned<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&self.informers).finish()
    }
}

impl<K: Watchable, O: Watchable> fmt::Debug for Related<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Related").field(&self.informers).finish()
    }
}

impl<K: Watchable, O: Watchable> fmt::Debug for Referred<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Referred").field(&self.informers).finish()
    }
}

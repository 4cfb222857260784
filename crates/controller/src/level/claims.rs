//! Claims: selectors of children, and the parents whose selectors match an object.

use std::{any::TypeId, collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Resource, core::NamespaceResourceScope};
use windlass_informer::{DecodeError, Index, LazyObject, ObjectKey};

use super::{Informers, Watchable};
use crate::{
    Mapper,
    children::{ChildError, ChildKind, PARENT_UID, ParentOf, ParentSelector, controller_of},
    work::call_user_code,
};

/// Returns the label selector of the children of an object, for
/// [`ControllerBuilder::claims`](super::ControllerBuilder::claims).
///
/// Every `Fn(&K) -> S` is one, where `S` is a [`LabelSelector`] or a
/// [`kube::core::Selector`]. [`GeneratedSelector`] needs no selector in the object.
///
/// # Contract
///
/// *Required.* The result depends on nothing but the object, and it returns immediately.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::apps::v1::ReplicaSet;
/// use windlass_controller::{ChildSelector, GeneratedSelector};
///
/// let of_spec = |set: &ReplicaSet| set.spec.clone().unwrap_or_default().selector;
/// assert_eq!(of_spec.selector(&ReplicaSet::default()).match_labels, None);
///
/// let mut set = ReplicaSet::default();
/// set.metadata.uid = Some("3f6c".to_owned());
/// let generated = GeneratedSelector.selector(&set).match_labels.unwrap();
/// assert_eq!(generated["windlass.dev/parent-uid"], "3f6c");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not select the children of a `{K}`",
    note = "a closure does it in this form: `|parent: &{K}| -> LabelSelector {{ .. }}`; `GeneratedSelector` selects by the uid of the parent"
)]
pub trait ChildSelector<K>: Send + Sync + 'static {
    /// Returns the selector of the children of `parent`.
    fn selector(&self, parent: &K) -> LabelSelector;
}

/// Selects the children by the uid of their parent, in the label `windlass.dev/parent-uid`, which
/// [`Owned::apply`](super::Owned::apply) sets.
///
/// Two objects never have the same children, also if one was created after the other with the same
/// name: the second one does not adopt those that the first one has left. A Job does the same with
/// `batch.kubernetes.io/controller-uid`, and metacontroller with `generateSelector`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeneratedSelector;

/// How objects of kind `K` claim children of kind `C`.
pub(super) struct Claims<K: Watchable, C: Watchable> {
    selector: Arc<dyn ChildSelector<K>>,
    /// The objects without a controller, by the slots in which a parent looks for them.
    pub(super) orphans: Index<C, String>,
}

/// Maps an object to its owners or, if it has no controller, to the objects whose selectors match.
pub(super) struct Claimants<K: Watchable> {
    owners: ParentOf,
    primaries: Informers<K>,
    selector: Arc<dyn ChildSelector<K>>,
    /// The primary objects, by the slot in which they look for children.
    by_slot: Index<K, String>,
}

// === impl ChildSelector ===

impl<K, F, S> ChildSelector<K> for F
where
    F: Fn(&K) -> S + Send + Sync + 'static,
    S: Into<LabelSelector>,
{
    fn selector(&self, parent: &K) -> LabelSelector {
        self(parent).into()
    }
}

impl<K: Resource> ChildSelector<K> for GeneratedSelector {
    fn selector(&self, parent: &K) -> LabelSelector {
        let uid = parent.meta().uid.as_ref();
        let label = uid.map(|uid| (PARENT_UID.to_owned(), uid.clone()));
        LabelSelector {
            match_labels: label.map(|label| BTreeMap::from([label])),
            match_expressions: None,
        }
    }
}

// === impl Claims ===

impl<K: Watchable, C: Watchable> Claims<K, C> {
    pub(super) fn new(selector: impl ChildSelector<K>) -> Self {
        let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        Self {
            selector: Arc::new(selector),
            orphans: Index::new(move |child: &C| orphan_slots(child, is_namespaced)),
        }
    }

    /// The mapper of the kind, which indexes `primaries`.
    pub(super) fn claimants(&self, owners: ParentOf, primaries: &Informers<K>) -> Claimants<K> {
        let selector = Arc::clone(&self.selector);
        let by_slot = Index::new(move |parent: &K| {
            let selector = parse(&*selector, parent)?;
            Some(slot(
                parent.meta().namespace.as_deref(),
                selector.required(),
            ))
        });
        primaries.declare(&by_slot);
        Claimants {
            owners,
            primaries: primaries.clone(),
            selector: Arc::clone(&self.selector),
            by_slot,
        }
    }

    /// The selector of `parent`, of the kind `kind`.
    ///
    /// # Errors
    ///
    /// [`ChildError::InvalidSelector`].
    pub(super) fn selector(
        &self,
        kind: &ChildKind,
        parent: &K,
    ) -> Result<ParentSelector, ChildError> {
        let selector = ParentSelector::new(self.selector.selector(parent));
        selector.map_err(|source| ChildError::InvalidSelector {
            resource: kind.resource(),
            key: ObjectKey::of(parent),
            source,
        })
    }
}

impl<K: Watchable, C: Watchable> Clone for Claims<K, C> {
    fn clone(&self) -> Self {
        Self {
            selector: Arc::clone(&self.selector),
            orphans: self.orphans.clone(),
        }
    }
}

/// The selector of `parent`, if it is valid and the user's code does not panic.
fn parse<K: 'static>(selector: &dyn ChildSelector<K>, parent: &K) -> Option<ParentSelector> {
    let selector = call_user_code("child selector", || selector.selector(parent))?;
    ParentSelector::new(selector).ok()
}

/// The slot in which a parent in `namespace` looks for children: those with a label that its
/// selector requires or, if it requires none, all.
pub(super) fn slot(namespace: Option<&str>, required: Option<(&str, &str)>) -> String {
    let namespace = namespace.unwrap_or_default();
    match required {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => namespace.to_owned(),
    }
}

/// The slots in which parents in `namespace` look for `object`.
fn slots<'a>(
    object: &'a impl Resource,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = String> + 'a {
    let labels = object.meta().labels.iter().flatten();
    let labels = labels.map(|(key, value)| Some((key.as_str(), value.as_str())));
    labels
        .chain([None])
        .map(move |label| slot(namespace, label))
}

/// The slots in which parents look for `child`. None if it has a controller.
fn orphan_slots(child: &impl Resource, is_parent_namespaced: bool) -> Vec<String> {
    let metadata = child.meta();
    if controller_of(metadata).is_some() {
        return Vec::new();
    }
    let namespace = metadata.namespace.as_deref();
    let mut all: Vec<_> = slots(child, namespace).collect();
    // Parents without a namespace look for children in all namespaces.
    if !is_parent_namespaced && namespace.is_some() {
        all.extend(slots(child, None));
    }
    all
}

// === impl Claimants ===

impl<K: Watchable> Claimants<K> {
    /// The keys of the objects whose selectors match `child`.
    fn selecting<C: Watchable>(&self, child: &C) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for slot in orphan_slots(child, false) {
            // The index is declared in all informers of the primary kind.
            let keys = self.primaries.keys_by(&self.by_slot, &slot);
            found.extend(keys.unwrap_or_default());
        }
        let is_selecting = |key: &ObjectKey| {
            let parent = self.primaries.get(key);
            let selector = parent.and_then(|parent| parse(&*self.selector, &parent));
            selector.is_some_and(|selector| selector.matches(child.meta().labels.as_ref()))
        };
        found.retain(is_selecting);
        found
    }
}

impl<K: Watchable, C: Watchable> Mapper<C> for Claimants<K> {
    fn keys(&self, child: &C) -> impl IntoIterator<Item = ObjectKey> {
        let mut keys: Vec<_> = self.owners.keys(child).into_iter().collect();
        keys.extend(self.selecting(child));
        keys
    }

    fn keys_before(&self, old: &LazyObject<C>) -> Result<Vec<ObjectKey>, DecodeError> {
        // What has left a selector is nothing to adopt.
        Mapper::<C>::keys_before(&self.owners, old)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(metadata: &Value, is_parent_namespaced: bool, expected: &[&str]) {
        let metadata = json!({ "metadata": metadata });
        let child: ConfigMap = serde_json::from_value(metadata).expect("an object");
        assert_eq!(orphan_slots(&child, is_parent_namespaced), expected);
    }

    #[test]
    fn an_object_without_a_controller_is_found_by_each_label_and_by_its_namespace() {
        let owner = |controller: bool| json!([{ "apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": controller }]);
        let labels = json!({ "app": "web", "example.io/x": "" });
        let free = json!({ "namespace": "shop", "labels": labels });
        check(&free, true, &["shop/app=web", "shop/example.io/x=", "shop"]);
        let all = [
            "shop/app=web",
            "shop/example.io/x=",
            "shop",
            "/app=web",
            "/example.io/x=",
            "",
        ];
        check(&free, false, &all);
        let with_owner =
            |controller| json!({ "namespace": "shop", "ownerReferences": owner(controller) });
        check(&with_owner(true), true, &[]);
        check(&with_owner(false), true, &["shop"]);
        check(&json!({}), false, &[""]);
    }
}

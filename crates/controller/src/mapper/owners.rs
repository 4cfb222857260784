//! `Owners`: maps an object to its owners.

use kube::{Resource, api::ObjectMeta};
use windlass_informer::{DecodeError, LazyObject, ObjectKey};

use super::Mapper;

/// Returns the owners of an object that have one kind: those in its `ownerReferences` with the
/// group and kind of that kind, in any version.
///
/// An owner is in the namespace of its object, or in none. Both keys are returned, because a kind
/// has objects with one of the two.
///
/// # Example
///
/// ```
/// use k8s_openapi::{
///     api::{apps::v1::ReplicaSet, core::v1::Pod},
///     apimachinery::pkg::apis::meta::v1::OwnerReference,
/// };
/// use windlass_controller::{Mapper, Owners};
/// use windlass_informer::ObjectKey;
///
/// let mut pod = Pod::default();
/// pod.metadata.namespace = Some("shop".into());
/// pod.metadata.owner_references = Some(vec![OwnerReference {
///     api_version: "apps/v1".into(),
///     kind: "ReplicaSet".into(),
///     name: "web-7f".into(),
///     ..OwnerReference::default()
/// }]);
/// let key = ObjectKey::new("web-7f").within("shop");
/// let owners = Owners::of::<ReplicaSet>(&());
/// assert!(owners.keys(&pod).into_iter().any(|owner| owner == key));
///
/// // It owns the pod, and is not its controller.
/// let controllers = owners.only_controllers();
/// assert_eq!(controllers.keys(&pod).into_iter().count(), 0);
/// ```
///
/// Source: kube-runtime, `Controller::owns`.
#[derive(Clone, Debug)]
#[must_use = "a mapper does nothing until it is added to a controller"]
pub struct Owners {
    group: String,
    kind: String,
    only_controllers: bool,
}

// === impl Owners ===

impl Owners {
    /// Returns the owners that are `K`s. `kind` is `&()`, except for kinds that are known only at
    /// run time: for a [`DynamicObject`](kube::api::DynamicObject) its
    /// [`ApiResource`](kube::api::ApiResource).
    pub fn of<K: Resource>(kind: &K::DynamicType) -> Self {
        Self {
            group: K::group(kind).into_owned(),
            kind: K::kind(kind).into_owned(),
            only_controllers: false,
        }
    }

    /// Only returns the controller owner. By default all owners.
    pub fn only_controllers(self) -> Self {
        Self {
            only_controllers: true,
            ..self
        }
    }

    fn is_ours(&self, api_version: &str, kind: &str) -> bool {
        // The core group has an empty name, and its versions have no slash.
        let group = (api_version.split_once('/')).map_or("", |(group, _version)| group);
        group == self.group && kind == self.kind
    }

    /// The owners in `metadata`.
    pub(crate) fn named_in(&self, metadata: &ObjectMeta) -> impl Iterator<Item = ObjectKey> {
        let owners = metadata.owner_references.iter().flatten();
        let ours = owners
            .filter(|owner| self.is_ours(&owner.api_version, &owner.kind))
            .filter(|owner| !self.only_controllers || owner.controller == Some(true));
        ours.flat_map(|owner| {
            let key = ObjectKey::new(owner.name.as_str());
            let within = |namespace: &String| key.clone().within(namespace.as_str());
            [metadata.namespace.as_ref().map(within), Some(key.clone())]
        })
        .flatten()
    }
}

impl<K: Resource> Mapper<K> for Owners {
    fn keys(&self, object: &K) -> impl IntoIterator<Item = ObjectKey> {
        self.named_in(object.meta())
    }

    fn keys_before(&self, old: &LazyObject<K>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        K: Send + Sync + 'static,
    {
        Ok(self.named_in(&old.metadata()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::{
        api::{
            apps::v1::ReplicaSet,
            core::v1::{ConfigMap, Node, Pod},
        },
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    };
    use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

    use super::*;

    /// Rows: KR-15, KR-16
    #[test]
    fn an_owner_is_matched_by_group_and_kind_and_not_by_version() {
        let sets = Owners::of::<ReplicaSet>(&());
        check(&sets, "shop apps/v1 ReplicaSet web", "shop/web web");
        check(&sets, "shop apps/v1beta1 ReplicaSet web", "shop/web web");
        check(&sets, "shop example.io/v1 ReplicaSet web", "");
        check(&sets, "shop v1 ReplicaSet web", "");
        check(&sets, "shop apps/v1 Deployment web", "");
        check(&sets, "shop", "");
        let configs = Owners::of::<ConfigMap>(&());
        check(&configs, "shop v1 ConfigMap web", "shop/web web");
        check(&configs, "shop apps/v1 ConfigMap web", "");
        check(&Owners::of::<Node>(&()), "- v1 Node one", "one");
        let kind = GroupVersionKind::gvk("example.io", "v1", "Website");
        let dynamic = Owners::of::<DynamicObject>(&ApiResource::from_gvk(&kind));
        check(&dynamic, "shop example.io/v2 Website web", "shop/web web");
        check(&dynamic, "shop example.com/v1 Website web", "");
    }

    #[test]
    fn an_object_can_have_several_owners_and_one_controls_it() {
        let sets = Owners::of::<ReplicaSet>(&());
        let two = "shop apps/v1 ReplicaSet a, apps/v1 ReplicaSet b!";
        check(&sets, two, "shop/a a shop/b b");
        check(&sets.only_controllers(), two, "shop/b b");
    }

    /// Which keys a pod in a namespace (or `-`) and with owners (`!` controls) comes to.
    #[track_caller]
    fn check(mapper: &Owners, pod: &str, keys: &str) {
        let (namespace, owners) = pod.split_once(' ').unwrap_or((pod, ""));
        let mut object = Pod::default();
        object.metadata.namespace = Some(namespace.to_owned()).filter(|it| it != "-");
        let owners = owners.split(", ").filter(|it| !it.is_empty()).map(|owner| {
            let words: Vec<_> = owner.split(' ').collect();
            OwnerReference {
                api_version: words[0].to_owned(),
                kind: words[1].to_owned(),
                name: words[2].trim_end_matches('!').to_owned(),
                controller: Some(owner.ends_with('!')),
                ..OwnerReference::default()
            }
        });
        object.metadata.owner_references = Some(owners.collect());
        let named: Vec<_> = (mapper.keys(&object).into_iter())
            .map(|key| key.to_string())
            .collect();
        assert_eq!(named.join(" "), keys, "{pod}");
        let before = mapper.keys_before(&LazyObject::from(Arc::new(object)));
        let before = before.expect("it is decoded");
        let before: Vec<_> = before.iter().map(ToString::to_string).collect();
        assert_eq!(before, named, "{pod} as the old state");
    }
}

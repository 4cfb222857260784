//! A snapshot of the objects that decide a status. *(pure)*

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Service;
use windlass::ObjectKey;

use crate::api::{Gateway, GatewayClass, ReferenceGrant, Route, RouteKind};

/// The objects of all kinds that decide a status.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) classes: BTreeMap<ObjectKey, Arc<GatewayClass>>,
    pub(crate) gateways: BTreeMap<ObjectKey, Arc<Gateway>>,
    pub(crate) routes: BTreeMap<RouteId, Arc<Route>>,
    pub(crate) grants: Vec<Arc<ReferenceGrant>>,
    pub(crate) services: BTreeMap<ObjectKey, Arc<Service>>,
    /// Only whether they exist is relevant.
    pub(crate) secrets: BTreeSet<ObjectKey>,
    /// The labels of the namespaces.
    pub(crate) namespaces: BTreeMap<String, Labels>,
}

pub(crate) type Labels = BTreeMap<String, String>;

/// The identity of a route: routes of different kinds can have the same name.
pub(crate) type RouteId = (RouteKind, ObjectKey);

#[cfg(test)]
pub(crate) mod tests {
    use kube::ResourceExt as _;
    use serde::{Deserialize as _, de::DeserializeOwned};
    use serde_yaml_ng::{Deserializer, Value};

    use super::*;

    /// A snapshot of these manifests. Without a namespace they are in `default`.
    pub(crate) fn snapshot(manifests: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for document in Deserializer::from_str(manifests) {
            let document = Value::deserialize(document).expect("a manifest");
            if !document.is_null() {
                snapshot.add(document);
            }
        }
        snapshot
    }

    impl Snapshot {
        fn add(&mut self, manifest: Value) {
            match manifest["kind"].as_str().expect("a kind") {
                "GatewayClass" => {
                    let class: GatewayClass = read(manifest);
                    self.classes.insert(ObjectKey::of(&class), Arc::new(class));
                }
                "Gateway" => {
                    let gateway: Gateway = placed(manifest);
                    self.gateways
                        .insert(ObjectKey::of(&gateway), Arc::new(gateway));
                }
                "ReferenceGrant" => self.grants.push(Arc::new(placed(manifest))),
                "Service" => {
                    let service: Service = placed(manifest);
                    self.services
                        .insert(ObjectKey::of(&service), Arc::new(service));
                }
                "Secret" => {
                    let secret: kube::api::DynamicObject = placed(manifest);
                    self.secrets.insert(ObjectKey::of(&secret));
                }
                "Namespace" => {
                    let namespace: kube::api::DynamicObject = read(manifest);
                    (self.namespaces).insert(namespace.name_any(), namespace.labels().clone());
                }
                kind => {
                    let kind = RouteKind::ALL
                        .into_iter()
                        .find(|known| known.name() == kind);
                    let route: Route = placed(manifest);
                    let id = (kind.expect("a known kind"), ObjectKey::of(&route));
                    self.routes.insert(id, Arc::new(route));
                }
            }
        }
    }

    fn placed<K: kube::Resource + DeserializeOwned>(manifest: Value) -> K {
        let mut object: K = read(manifest);
        let namespace = &mut object.meta_mut().namespace;
        namespace.get_or_insert_with(|| "default".to_owned());
        object
    }

    fn read<K: DeserializeOwned>(manifest: Value) -> K {
        serde_yaml_ng::from_value(manifest).expect("an object of its kind")
    }
}

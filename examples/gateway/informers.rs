//! The informers of all kinds that affect a status.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, PartialObjectMeta},
};
use windlass::{
    Informer, InformerController, ObjectKey, Reconciler,
    controller::{AddError, Kind},
};

use crate::{
    api::{Gateway, GatewayClass, ReferenceGrant, Route, RouteKind},
    snapshot::Snapshot,
};

/// One informer for each kind.
#[derive(Clone, Debug)]
pub(crate) struct Informers {
    classes: Informer<GatewayClass>,
    gateways: Informer<Gateway>,
    routes: Vec<(RouteKind, Informer<Route>)>,
    grants: Informer<ReferenceGrant>,
    services: Informer<Service>,
    /// Only the metadata: the content of secrets is not requested.
    secrets: Informer<PartialObjectMeta<Secret>>,
    namespaces: Informer<PartialObjectMeta<Namespace>>,
}

// === impl Informers ===

impl Informers {
    /// Creates informers of all namespaces. The controller to which they are added runs them.
    pub(crate) fn new(client: &Client) -> Self {
        let routes = RouteKind::ALL.map(|kind| {
            let resource: ApiResource = kind.resource();
            let api: Api<Route> = Api::all_with(client.clone(), &resource);
            (kind, Informer::new((api, resource)))
        });
        Self {
            classes: Informer::new(Api::all(client.clone())),
            gateways: Informer::new(Api::all(client.clone())),
            routes: routes.into(),
            grants: Informer::new(Api::all(client.clone())),
            services: Informer::new(Api::all(client.clone())),
            secrets: Informer::new(Api::all(client.clone())),
            namespaces: Informer::new(Api::all(client.clone())),
        }
    }

    /// Adds all informers, and `reconciler` for all events: each kind can affect the status of a
    /// route.
    ///
    /// All events are mapped to one class. Its lane serializes the calls, and coalesces the events
    /// that arrive during a call.
    pub(crate) fn add_to(
        &self,
        controller: &InformerController,
        reconciler: impl Reconciler<GatewayClass>,
    ) -> Result<(), AddError> {
        let classes = controller.kind("GatewayClass")?;
        self.add(controller, &classes, &classes, &self.classes)?;
        let gateways = controller.kind("Gateway")?;
        self.add(controller, &gateways, &classes, &self.gateways)?;
        for (kind, informer) in &self.routes {
            let routes = controller.kind(kind.name())?;
            self.add(controller, &routes, &classes, informer)?;
        }
        let grants = controller.kind("ReferenceGrant")?;
        self.add(controller, &grants, &classes, &self.grants)?;
        let services = controller.kind("Service")?;
        self.add(controller, &services, &classes, &self.services)?;
        let secrets = controller.kind("Secret")?;
        self.add(controller, &secrets, &classes, &self.secrets)?;
        let namespaces = controller.kind("Namespace")?;
        self.add(controller, &namespaces, &classes, &self.namespaces)?;
        controller.add_reconciler(&classes, reconciler).map(|_| ())
    }

    fn add<K>(
        &self,
        controller: &InformerController,
        kind: &Kind<K>,
        classes: &Kind<GatewayClass>,
        informer: &Informer<K>,
    ) -> Result<(), AddError>
    where
        K: kube::Resource + Send + Sync + 'static,
    {
        controller.add_informer(kind, informer)?;
        let informers = self.clone();
        let to_first = move |_: &K| informers.first_class();
        controller.add_mapper(kind, classes, to_first).map(|_| ())
    }

    /// The class to which all events are mapped. Without a class, no object has a status.
    pub(crate) fn first_class(&self) -> Option<ObjectKey> {
        self.classes.store().keys().into_iter().min()
    }

    /// Has a simulation compare each store with the API server.
    #[cfg(test)]
    pub(crate) fn observe(&self, process: &windlass::simulate::Process) {
        process.observe(&self.classes);
        process.observe(&self.gateways);
        for (_, routes) in &self.routes {
            process.observe(routes);
        }
        process.observe(&self.grants);
        process.observe(&self.services);
        process.observe(&self.secrets);
        process.observe(&self.namespaces);
    }

    /// A snapshot of all objects as last seen. It copies no object.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let routes = self.routes.iter().flat_map(|(kind, informer)| {
            let routes = keyed(informer);
            routes.map(|(key, route)| ((*kind, key), route))
        });
        let namespaces = keyed(&self.namespaces);
        let labels = namespaces.map(|(key, one)| (key.name().to_owned(), one.labels().clone()));
        Snapshot {
            classes: keyed(&self.classes).collect(),
            gateways: keyed(&self.gateways).collect(),
            routes: routes.collect(),
            grants: self.grants.store().list(),
            services: keyed(&self.services).collect(),
            secrets: self.secrets.store().keys().into_iter().collect(),
            namespaces: labels.collect(),
        }
    }
}

/// The objects in the store of `informer`, with their keys.
fn keyed<K>(informer: &Informer<K>) -> impl Iterator<Item = (ObjectKey, Arc<K>)>
where
    K: kube::Resource + Send + Sync + 'static,
{
    let objects = informer.store().list().into_iter();
    objects.map(|object| (ObjectKey::of(&*object), object))
}

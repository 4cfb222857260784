//! The informers of all kinds that affect a status.

use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, PartialObjectMeta},
};
use windlass::{Informer, InformerController, ObjectKey, Reconciler, controller::AddError};

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

/// A reconciler of every kind that affects a status.
pub(crate) trait StatusReconciler:
    Clone
    + Reconciler<GatewayClass>
    + Reconciler<Gateway>
    + Reconciler<Route>
    + Reconciler<ReferenceGrant>
    + Reconciler<Service>
    + Reconciler<PartialObjectMeta<Secret>>
    + Reconciler<PartialObjectMeta<Namespace>>
{
}

impl<R> StatusReconciler for R where
    R: Clone
        + Reconciler<GatewayClass>
        + Reconciler<Gateway>
        + Reconciler<Route>
        + Reconciler<ReferenceGrant>
        + Reconciler<Service>
        + Reconciler<PartialObjectMeta<Secret>>
        + Reconciler<PartialObjectMeta<Namespace>>
{
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

    /// Adds all informers, and `reconciler` for every kind: each kind can affect the status of a
    /// route.
    pub(crate) fn add_to<R: StatusReconciler>(
        &self,
        controller: &InformerController,
        reconciler: &R,
    ) -> Result<(), AddError> {
        add(controller, "GatewayClass", &self.classes, reconciler)?;
        add(controller, "Gateway", &self.gateways, reconciler)?;
        for (kind, informer) in &self.routes {
            add(controller, kind.name(), informer, reconciler)?;
        }
        add(controller, "ReferenceGrant", &self.grants, reconciler)?;
        add(controller, "Service", &self.services, reconciler)?;
        add(controller, "Secret", &self.secrets, reconciler)?;
        add(controller, "Namespace", &self.namespaces, reconciler)
    }

    /// Whether all informers have synced. Before that, missing objects may still be listed.
    pub(crate) fn has_synced(&self) -> bool {
        self.classes.has_synced()
            && self.gateways.has_synced()
            && self
                .routes
                .iter()
                .all(|(_, informer)| informer.has_synced())
            && self.grants.has_synced()
            && self.services.has_synced()
            && self.secrets.has_synced()
            && self.namespaces.has_synced()
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
            let routes = informer.store().list().into_iter();
            routes.map(|route| ((*kind, ObjectKey::of(&*route)), route))
        });
        let classes = self.classes.store().list().into_iter();
        let gateways = self.gateways.store().list().into_iter();
        let services = self.services.store().list().into_iter();
        let namespaces = self.namespaces.store().list().into_iter();
        Snapshot {
            classes: classes.map(|class| (class.name_any(), class)).collect(),
            gateways: gateways
                .map(|gateway| (ObjectKey::of(&*gateway), gateway))
                .collect(),
            routes: routes.collect(),
            grants: self.grants.store().list(),
            services: services
                .map(|service| (ObjectKey::of(&*service), service))
                .collect(),
            secrets: self.secrets.store().keys().into_iter().collect(),
            namespaces: namespaces
                .map(|one| (one.name_any(), one.labels().clone()))
                .collect(),
        }
    }
}

fn add<K, R>(
    controller: &InformerController,
    kind: &str,
    informer: &Informer<K>,
    reconciler: &R,
) -> Result<(), AddError>
where
    K: kube::Resource + Send + Sync + 'static,
    R: Reconciler<K> + Clone,
{
    controller.add_informer(kind, informer)?;
    controller
        .add_reconciler(kind, reconciler.clone())
        .map(|_| ())
}

//! A catalog sync, as in consul-k8s: Services are registered with the addresses of their endpoints,
//! which a second controller watches in the background of the first one.
//!
//! In Go (`docs/from-consul.md` compares it with this file):
//!
//! ```go
//! func (r *Services) Informer() cache.SharedIndexInformer { return r.services }
//! func (r *Services) Upsert(key string, obj interface{}) error { ... }
//! func (r *Services) Delete(key string, obj interface{}) error { ... }
//! func (r *Services) Run(ch <-chan struct{}) {
//!     (&controller.Controller{Resource: &Endpoints{catalog: r.catalog}}).Run(ch)
//! }
//! ctl := &controller.Controller{Log: log, Resource: &Services{...}}
//! go ctl.Run(stop)
//! ```

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::{Endpoints as EndpointsObject, Service};
use kube::{Api, Client};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::consul::{Background, Controller, Failure, Informer, ObjectKey, Resource};

use crate::cluster::{Cluster, until};

// --- the program ---

/// What Consul knows: the addresses of each service. `None` until they are known.
#[derive(Clone, Default)]
struct Catalog(Arc<Mutex<BTreeMap<String, Option<Vec<String>>>>>);

struct Services {
    services: Informer<Service>,
    endpoints: Informer<EndpointsObject>,
    catalog: Catalog,
}

struct Endpoints {
    endpoints: Informer<EndpointsObject>,
    catalog: Catalog,
}

impl Resource for Services {
    type Object = Service;

    fn informer(&self) -> Informer<Service> {
        self.services.clone()
    }

    async fn upsert(&self, key: &ObjectKey, service: Arc<Service>) -> Result<(), Failure> {
        let spec = service.spec.as_ref().ok_or("a service without a spec")?;
        let mut catalog = self.catalog.0.lock().expect("not poisoned");
        if spec.type_.as_deref() == Some("ExternalName") {
            catalog.remove(&key.to_string());
        } else {
            catalog.entry(key.to_string()).or_default();
        }
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, _last: Arc<Service>) -> Result<(), Failure> {
        let mut catalog = self.catalog.0.lock().expect("not poisoned");
        catalog.remove(&key.to_string());
        Ok(())
    }

    async fn background(&self, scope: Background) {
        let endpoints = Controller::new(Endpoints {
            endpoints: self.endpoints.clone(),
            catalog: self.catalog.clone(),
        });
        if let Err(error) = scope.run(endpoints).await {
            eprintln!("the endpoints are not watched: {error}");
        }
    }
}

impl Resource for Endpoints {
    type Object = EndpointsObject;

    fn informer(&self) -> Informer<EndpointsObject> {
        self.endpoints.clone()
    }

    async fn upsert(&self, key: &ObjectKey, it: Arc<EndpointsObject>) -> Result<(), Failure> {
        let mut catalog = self.catalog.0.lock().expect("not poisoned");
        let Some(addresses) = catalog.get_mut(&key.to_string()) else {
            // Retried: its service may come.
            return Err(Failure::new(format!("{key} has no service")));
        };
        let subsets = it.subsets.iter().flatten();
        let all = subsets.flat_map(|subset| subset.addresses.iter().flatten());
        *addresses = Some(all.map(|address| address.ip.clone()).collect());
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, _last: Arc<EndpointsObject>) -> Result<(), Failure> {
        let mut catalog = self.catalog.0.lock().expect("not poisoned");
        if let Some(addresses) = catalog.get_mut(&key.to_string()) {
            *addresses = Some(Vec::new());
        }
        Ok(())
    }
}

async fn sync(client: Client, catalog: Catalog, stop: CancellationToken) -> Result<(), Failure> {
    let services = Services {
        services: Informer::new(Api::<Service>::all(client.clone())),
        endpoints: Informer::new(Api::<EndpointsObject>::all(client)),
        catalog,
    };
    Ok(Controller::new(services).run(stop).await?)
}

// --- the test ---

/// Rows: CK-04, CK-16
#[tokio::test(start_paused = true)]
async fn the_catalog_follows_services_and_their_endpoints() {
    let cluster = Cluster::start().await;
    let (catalog, stop) = (Catalog::default(), CancellationToken::new());
    let running = tokio::spawn(sync(cluster.client(), catalog.clone(), stop.clone()));
    let has = async |key: &str, addresses: Option<Option<&[&str]>>| {
        let (catalog, key) = (catalog.clone(), key.to_owned());
        let addresses =
            addresses.map(|it| it.map(|all| all.iter().map(|it| (*it).to_owned()).collect()));
        until(async move || {
            catalog.0.lock().expect("not poisoned").get(&key).cloned() == addresses
        })
        .await;
    };

    let service = json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
    cluster.create::<Service>("shop", service).await;
    has("shop/web", Some(None)).await;
    let endpoints = json!({ "metadata": { "name": "web" },
        "subsets": [{ "addresses": [{ "ip": "10.0.0.7" }], "ports": [{ "port": 80 }] }] });
    cluster.create::<EndpointsObject>("shop", endpoints).await;
    has("shop/web", Some(Some(&["10.0.0.7"]))).await;

    cluster.delete::<EndpointsObject>("shop", "web").await;
    has("shop/web", Some(Some(&[]))).await;
    cluster.delete::<Service>("shop", "web").await;
    has("shop/web", None).await;

    stop.cancel();
    running.await.expect("no panic").expect("no error");
}

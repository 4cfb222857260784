//! The embedded server, its objects, and waiting in virtual time.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_apiserver::ApiServer;

/// An embedded server with the namespaces `default` and `shop`.
pub(crate) struct Cluster {
    server: ApiServer,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = ApiServer::builder().garbage_collection(false).start();
        let cluster = Self { server };
        let namespace = serde_json::json!({ "metadata": { "name": "shop" } });
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client());
        let namespace = serde_json::from_value(namespace).expect("a namespace");
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.expect("a new namespace");
        cluster
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.service(), "default")
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), namespace)
    }

    pub(crate) async fn create<K>(&self, namespace: &str, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).expect("an object of the kind");
        let api = self.api::<K>(namespace);
        let created = api.create(&PostParams::default(), &object).await;
        created.expect("a new object")
    }

    pub(crate) async fn delete<K>(&self, namespace: &str, name: &str)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = self.api::<K>(namespace);
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.expect("an object that exists");
    }
}

/// Waits until `is` returns true. The time of the tests is virtual, so this takes no time.
#[track_caller]
pub(crate) fn until(is: impl AsyncFn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..100_000 {
            if is().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the condition at {caller} does not become true");
    }
}

//! A scenario that both forms of an operator pass.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use futures::future::{Either, select};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::record::Record;
use crate::{
    cluster::{Cluster, create_namespace},
    kinds::Gadget,
};

/// The longest wait for a state of an object.
const LIMIT: Duration = Duration::from_secs(60);

/// Which imports the operator has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Those of kube-rs.
    Before,
    /// Those of `windlass::runtime`.
    After,
}

/// One run of an operator.
pub(super) struct Scenario {
    /// The client of the operator.
    operator: Client,
    /// The client of the script.
    client: Client,
    namespace: String,
    record: Record,
}

/// What is compared: the objects at the end, and the distinct writes of each object in order.
#[derive(Debug, PartialEq)]
pub(super) struct Ending {
    objects: BTreeMap<String, Value>,
    writes: BTreeMap<String, Vec<String>>,
}

/// Runs both forms, each in a namespace of its own, and compares them.
pub(super) async fn same(cluster: &Cluster, run: impl AsyncFn(Scenario, Form) -> Ending) {
    let mut endings = Vec::new();
    for form in [Form::Before, Form::After] {
        let namespace = format!("{}-{form:?}", cluster.namespace()).to_lowercase();
        create_namespace(cluster.aside(), &namespace).await;
        let record = Record::default();
        let scenario = Scenario {
            operator: record.of(&cluster.aside(), &namespace),
            client: cluster.aside(),
            namespace,
            record,
        };
        endings.push(run(scenario, form).await);
    }
    let [before, after] = <[Ending; 2]>::try_from(endings).expect("two forms");
    assert!(!before.writes.is_empty(), "nothing was written");
    assert_eq!(before.objects, after.objects, "the objects at the end");
    assert_eq!(before.writes, after.writes, "the writes");
}

// === impl Scenario ===

impl Scenario {
    /// The client and the namespace of the operator.
    pub(super) fn operator(&self) -> (Client, String) {
        (self.operator.clone(), self.namespace.clone())
    }

    /// Runs `operator` until `script` has ended.
    pub(super) async fn run(
        &self,
        operator: impl Future<Output = ()>,
        script: impl Future<Output = ()>,
    ) -> Ending {
        match select(pin!(operator), pin!(script)).await {
            Either::Left(_) => panic!("the operator ended"),
            Either::Right(_) => self.ending().await,
        }
    }

    /// Runs `operator` beside `script`, until both have ended.
    pub(super) async fn run_to_end(
        &self,
        operator: impl Future<Output = ()>,
        script: impl Future<Output = ()>,
    ) -> Ending {
        futures::join!(operator, script);
        self.ending().await
    }

    async fn ending(&self) -> Ending {
        let mut objects = BTreeMap::new();
        objects.extend(self.all::<ConfigMap>().await);
        objects.extend(self.all::<Secret>().await);
        objects.extend(self.all::<Gadget>().await);
        Ending {
            objects,
            writes: self.record.writes(),
        }
    }

    /// The objects of a kind, without what differs between two runs. None if it is not served.
    async fn all<K>(&self) -> Vec<(String, Value)>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let kind = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        let listed = api.list(&kube::api::ListParams::default()).await;
        let objects = listed.map(|list| list.items).unwrap_or_default();
        let objects = objects
            .into_iter()
            .filter(|it| it.name_any() != "kube-root-ca.crt");
        objects
            .map(|object| {
                let name = format!("{}/{}", kind.plural, object.name_any());
                let owners = object.owner_references().iter();
                let kept = json!({
                    "labels": object.labels(),
                    "annotations": object.annotations(),
                    "finalizers": object.finalizers(),
                    "deleting": object.metadata.deletion_timestamp.is_some(),
                    "owners": owners.map(|owner| &owner.name).collect::<Vec<_>>(),
                    "content": object.data,
                });
                (name, kept)
            })
            .collect()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) async fn create<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug,
    {
        let mut object = object;
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        let object: K = serde_json::from_value(object).expect("an object");
        let created = self.api().create(&PostParams::default(), &object).await;
        created.expect("a new object");
    }

    pub(super) async fn merge<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let (api, params) = (self.api::<K>(), PatchParams::default());
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.expect("a patch");
    }

    pub(super) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.expect("the object exists");
    }

    /// Waits until the object is as `wanted`.
    pub(super) async fn until<K>(&self, name: &str, wanted: impl Fn(&Value) -> bool)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug,
    {
        let deadline = Instant::now() + LIMIT;
        loop {
            let object = self.api::<K>().get_opt(name).await.expect("an answer");
            let object = object.map(|it| serde_json::to_value(it).expect("JSON"));
            if object.as_ref().is_some_and(&wanted) {
                return;
            }
            let (namespace, writes) = (&self.namespace, self.record.writes());
            assert!(
                Instant::now() < deadline,
                "{namespace}/{name} is {object:?} after {writes:#?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        while self
            .api::<K>()
            .get_opt(name)
            .await
            .expect("an answer")
            .is_some()
        {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a write to a path that ends with `path` was refused.
    pub(super) async fn until_refused(&self, path: &str) {
        loop {
            let writes = self.record.writes();
            let mut writes = writes.iter().filter(|(it, _)| it.ends_with(path));
            if writes.any(|(_, writes)| writes.iter().any(|it| !it.ends_with("-> ok"))) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

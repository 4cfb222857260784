//! Changes of one kind that reconcile another, and updates that reconcile nothing.

use std::convert::Infallible;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, CustomResourceExt as _, Resource, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass::{
    GenerationChanged, Informer, InformerController, ObjectKey, Outcome, Owners, Reconciler,
    Request, controller::Kind, store::Index,
};

use crate::{
    cluster::Cluster,
    kinds::{Gadget, GadgetSpec, config},
    running::Running,
    watched::quick,
};

/// The annotation that names another object.
const NAMED: &str = "test.windlass.dev/name";

on_both_servers! {
    /// The objects that refer to the changed one are found in an index of the store.
    ///
    /// Rows: KR-05, KR-17
    async fn a_change_of_a_secret_reconciles_the_objects_that_refer_to_it(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let by_secret = Index::new(|object: &ConfigMap| object.annotations().get(NAMED).cloned());
        let informer = Informer::builder(quick(cluster.api::<ConfigMap>().await));
        let informer = informer.index(&by_secret).build();
        let store = informer.store();
        let (running, mut receiver) = start(&cluster, &informer, |controller, configs, watched| {
            let secrets = controller.kind("secrets").expect("a new kind");
            controller.add_informer(&secrets, &Informer::new(watched)).expect("new");
            controller
                .add_mapper(&secrets, configs, move |secret: &Secret| {
                    let users = store.by(&by_secret, &secret.name_any());
                    let users = users.expect("a declared index");
                    users.iter().map(|user| ObjectKey::of(&**user)).collect::<Vec<_>>()
                })
                .expect("both are there");
        })
        .await;
        for (name, secret) in [("a", "s"), ("b", "s"), ("c", "other")] {
            create(&configs, named(config(name, "1"), secret)).await;
            assert_eq!(next(&mut receiver, 1).await, [format!("Created {name}")]);
        }
        create(&secrets, secret("s")).await;
        assert_eq!(next(&mut receiver, 2).await, ["Resynced a", "Resynced b"]);
        patch(&secrets, "s", json!({ "stringData": { "key": "2" } })).await;
        assert_eq!(next(&mut receiver, 2).await, ["Resynced a", "Resynced b"]);
        secrets.delete("s", &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut receiver, 2).await, ["Resynced a", "Resynced b"]);
        running.quiet(&configs, &mut receiver).await;
    }

    /// Rows: BO-09, KR-18
    async fn a_changed_reference_reconciles_the_old_and_the_new_object(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let (running, mut receiver) = start(&cluster, &informer, |controller, configs, watched| {
            let secrets = controller.kind("secrets").expect("a new kind");
            controller.add_informer(&secrets, &Informer::new(watched)).expect("new");
            controller
                .add_mapper(&secrets, configs, |secret: &Secret| {
                    let (namespace, name) = secret.annotations().get(NAMED)?.split_once('/')?;
                    Some(ObjectKey::new(name).within(namespace))
                })
                .expect("both are there");
        })
        .await;
        for name in ["a", "b", "c"] {
            create(&configs, config(name, "1")).await;
        }
        assert_eq!(next(&mut receiver, 3).await, ["Created a", "Created b", "Created c"]);
        let path = |name: &str| format!("{}/{name}", cluster.namespace());
        create(&secrets, named(secret("s"), &path("a"))).await;
        assert_eq!(next(&mut receiver, 1).await, ["Resynced a"]);
        patch(&secrets, "s", json!({ "metadata": { "annotations": { NAMED: path("b") } } })).await;
        assert_eq!(next(&mut receiver, 2).await, ["Resynced a", "Resynced b"]);
        // Another namespace, without an object of this name.
        patch(&secrets, "s", json!({ "metadata": { "annotations": { NAMED: "default/c" } } })).await;
        assert_eq!(next(&mut receiver, 1).await, ["Resynced b"]);
        running.quiet(&configs, &mut receiver).await;
    }

    /// Rows: KR-04, KR-15
    async fn a_change_of_a_child_reconciles_its_owner(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let (running, mut receiver) = start(&cluster, &informer, |controller, configs, watched| {
            let secrets = controller.kind("secrets").expect("a new kind");
            controller.add_informer(&secrets, &Informer::new(watched)).expect("new");
            let owners = Owners::of::<ConfigMap>(&());
            controller.add_mapper(&secrets, configs, owners).expect("both are there");
        })
        .await;
        let owner = create(&configs, config("a", "1")).await;
        assert_eq!(next(&mut receiver, 1).await, ["Created a"]);
        create(&secrets, secret("nobodys")).await;
        // Of the same name, and of another kind.
        let other = create(&secrets, secret("a")).await;
        create(&secrets, owned_by(secret("theirs"), &other)).await;
        create(&secrets, owned_by(secret("ours"), &owner)).await;
        assert_eq!(next(&mut receiver, 1).await, ["Resynced a"]);
        patch(&secrets, "ours", json!({ "stringData": { "key": "2" } })).await;
        assert_eq!(next(&mut receiver, 1).await, ["Resynced a"]);
        secrets.delete("ours", &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut receiver, 1).await, ["Resynced a"]);
        running.quiet(&configs, &mut receiver).await;
    }

    /// Rows: KR-16, KR-19
    async fn owners_and_children_can_be_of_kinds_known_only_at_run_time(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let kind = ApiResource::erase::<Secret>(&());
        let client = cluster.client().await;
        let dynamic: Api<DynamicObject> = Api::namespaced_with(client, cluster.namespace(), &kind);
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let (running, mut receiver) = start(&cluster, &informer, |controller, configs, _| {
            let anything = controller.kind("anything").expect("a new kind");
            controller.add_informer(&anything, &Informer::new(quick((dynamic, kind)))).expect("new");
            let owners = Owners::of::<DynamicObject>(&ApiResource::erase::<ConfigMap>(&()));
            controller
                .add_mapper(&anything, configs, owners)
                .expect("both are there");
        })
        .await;
        let owner = create(&configs, config("a", "1")).await;
        assert_eq!(next(&mut receiver, 1).await, ["Created a"]);
        create(&secrets, owned_by(secret("ours"), &owner)).await;
        assert_eq!(next(&mut receiver, 1).await, ["Resynced a"]);
        running.quiet(&configs, &mut receiver).await;
    }

    /// Rows: BO-10
    async fn a_predicate_can_ignore_status_updates(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let controller = InformerController::new();
        let informer = Informer::new(quick(cluster.api::<Gadget>().await));
        let gadgets_kind = controller.kind("gadgets").expect("a new kind");
        controller.add_informer(&gadgets_kind, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        let says = reconciler("filtered ", &sender).filter(GenerationChanged);
        controller.add_reconciler(&gadgets_kind, says).expect("a name");
        // It can be left out, for each reconciler on its own.
        controller.add_reconciler(&gadgets_kind, reconciler("", &sender)).expect("a name");
        let running = Running::start(&controller);

        create(&gadgets, Gadget::new("a", GadgetSpec { size: 1 })).await;
        assert_eq!(next(&mut receiver, 2).await, ["Created a", "filtered Created a"]);
        let ready = Patch::Merge(json!({ "status": { "ready": true } }));
        gadgets.patch_status("a", &PatchParams::default(), &ready).await.expect("there");
        assert_eq!(next(&mut receiver, 1).await, ["Updated a"]);
        patch(&gadgets, "a", json!({ "metadata": { "labels": { "tier": "front" } } })).await;
        assert_eq!(next(&mut receiver, 1).await, ["Updated a"]);
        for change in [
            json!({ "spec": { "size": 2 } }),
            json!({ "metadata": { "finalizers": ["test.windlass.dev/held"] } }),
        ] {
            patch(&gadgets, "a", change).await;
            assert_eq!(next(&mut receiver, 2).await, ["Updated a", "filtered Updated a"]);
        }
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut receiver, 2).await, ["Updated a", "filtered Updated a"]);
        patch(&gadgets, "a", json!({ "metadata": { "finalizers": null } })).await;
        assert_eq!(next(&mut receiver, 2).await, ["Deleted a", "filtered Deleted a"]);
        running.stop().await.expect("nothing went wrong for good");
    }
}

impl Running {
    /// Stops when it is clear that nothing more is delivered than what comes next.
    async fn quiet(self, configs: &Api<ConfigMap>, receiver: &mut mpsc::Receiver<String>) {
        create(configs, config("last", "1")).await;
        assert_eq!(next(receiver, 1).await, ["Created last"]);
        self.stop().await.expect("nothing went wrong for good");
    }
}

/// Runs a controller with a reconciler for the kind of `informer`, whose calls are received, and
/// with another kind that `add` adds.
async fn start(
    cluster: &Cluster,
    informer: &Informer<ConfigMap>,
    add: impl FnOnce(&InformerController, &Kind<ConfigMap>, windlass::ListWatch<Secret>),
) -> (Running, mpsc::Receiver<String>) {
    let controller = InformerController::new();
    let configs = controller.kind("configs").expect("a new kind");
    controller.add_informer(&configs, informer).expect("new");
    let (sender, receiver) = mpsc::channel(64);
    controller
        .add_reconciler(&configs, reconciler("", &sender))
        .expect("a name");
    add(&controller, &configs, quick(cluster.api::<Secret>().await));
    (Running::start(&controller), receiver)
}

fn reconciler<K: Send + Sync + 'static>(
    name: &'static str,
    sender: &mpsc::Sender<String>,
) -> impl Reconciler<K> + use<K> {
    let sender = sender.clone();
    move |request: Request<K>| {
        let sender = sender.clone();
        async move {
            // The real server publishes its certificates in every namespace.
            if request.key().name() != "kube-root-ca.crt" {
                let line = format!("{name}{:?} {}", request.action(), request.key().name());
                sender.send(line).await.expect("the test listens");
            }
            Ok::<_, Infallible>(Outcome::done())
        }
    }
}

/// The next calls, sorted: different objects are reconciled concurrently.
async fn next(receiver: &mut mpsc::Receiver<String>, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.push(receiver.recv().await.expect("the controller runs"));
    }
    lines.sort();
    lines
}

fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

fn named<K: Resource>(mut object: K, name: &str) -> K {
    let annotations = object.annotations_mut();
    annotations.insert(NAMED.to_owned(), name.to_owned());
    object
}

fn owned_by<K: Resource<DynamicType = ()>>(mut secret: Secret, owner: &K) -> Secret {
    let reference: OwnerReference = owner.controller_owner_ref(&()).expect("a name and a uid");
    secret.metadata.owner_references = Some(vec![reference]);
    secret
}

async fn create<K>(objects: &Api<K>, object: K) -> K
where
    K: Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let created = objects.create(&PostParams::default(), &object).await;
    created.expect("a new object")
}

async fn patch<K>(objects: &Api<K>, name: &str, patch: Value)
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = objects.patch(name, &params, &patch).await;
    patched.expect("an object that is there");
}

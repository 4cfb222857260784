//! Sharding: several replicas of an operator share the objects of a kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::{
    Context, Controller, Desired, Failure, LeaderElection, ObjectReconciler, Operator, Outcome,
    Owned, operator::OperatorError, source::Shard,
};

use crate::{
    cluster::{Cluster, await_condition, create_namespace},
    kinds::{Gadget, GadgetSpec, config},
    level::rig::{create, patch, watch},
    real::RealServer,
    watched::{Watched, quick},
};

/// The number of replicas.
const SHARDS: u32 = 3;

on_both_servers! {
    /// Also while a pod is replaced, children are deleted, and objects are recreated.
    ///
    /// Rows: BO-46
    async fn each_object_is_reconciled_by_exactly_one_replica(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let (gadgets, log) = (cluster.api_aside::<Gadget>(), Log::default());
        let names: Vec<_> = (0..24).map(|number| format!("g{number}")).collect();
        for name in &names {
            create(&gadgets, Gadget::new(name, GadgetSpec { size: 1 })).await;
        }
        let mut replicas = Vec::new();
        for ordinal in 0..SHARDS {
            replicas.push(Replica::start(&cluster, ordinal, "old", &log).await);
        }
        shows(&cluster, &names, 1, |_| "old").await;

        // Each replica reverts the children of its own objects.
        let configs = cluster.api_aside::<ConfigMap>();
        for gadget in gadgets.list(&ListParams::default()).await.expect("a list") {
            let child = gadget.uid().expect("a uid");
            configs.delete(&child, &DeleteParams::default()).await.expect("there");
        }
        shows(&cluster, &names, 1, |_| "old").await;

        // The new pod of shard 1 waits until the old one has ended.
        let new = Replica::start(&cluster, 1, "new", &log).await;
        while new.election.holder().is_none() {
            tokio::time::sleep(STEP).await;
        }
        assert!(!new.election.is_leader());
        resize(&gadgets, &names, 2).await;
        shows(&cluster, &names, 2, |_| "old").await;
        replicas.remove(1).stop().await.expect("a graceful shutdown");
        resize(&gadgets, &names, 3).await;
        let pod = |index| if index == 1 { "new" } else { "old" };
        shows(&cluster, &names, 3, pod).await;

        // A recreated object belongs to the shard of its new uid.
        for name in &names {
            gadgets.delete(name, &DeleteParams::default()).await.expect("there");
            await_condition(gadgets.clone(), name, |it: Option<&Gadget>| it.is_none()).await.expect("gone");
            create(&gadgets, Gadget::new(name, GadgetSpec { size: 4 })).await;
        }
        shows(&cluster, &names, 4, pod).await;
        for replica in replicas.into_iter().chain([new]) {
            replica.stop().await.expect("a graceful shutdown");
        }
        log.check();
    }

    /// Rows: BO-46
    async fn an_informer_keeps_only_the_objects_of_its_shard(cluster: Cluster) {
        follows_its_shard(cluster.api_aside(), cluster.api().await).await;
        let requests = cluster.connection().requests();
        let asks = |url: &String| url.contains("shardSelector=shardRange%28object.metadata.uid%2C");
        assert!(!requests.is_empty() && requests.iter().all(asks), "{requests:?}");
    }

    /// The server evaluates the selector if it supports it, and otherwise ignores it.
    ///
    /// Rows: BO-46
    async fn the_server_selects_the_objects_of_a_shard(cluster: Cluster) {
        let real = (!cluster.is_embedded() && Cluster::minor() == "1.36")
            .then(|| RealServer::own(&["--feature-gates=ShardedListAndWatch=true"]));
        let client = match &real {
            Some(real) => Client::try_from(real.config().await).expect("a client"),
            None => cluster.aside(),
        };
        if real.is_some() {
            create_namespace(client.clone(), cluster.namespace()).await;
        }
        let configs: Api<ConfigMap> = Api::namespaced(client.clone(), cluster.namespace());
        follows_its_shard(configs.clone(), configs.clone()).await;
        let all = configs.list(&ListParams::default()).await.expect("a list");
        let mut seen = BTreeSet::new();
        for index in 0..SHARDS {
            let shard = shard(index);
            let url = format!("{}?", configs.resource_url());
            let length = url.len();
            let mut query = form_urlencoded::Serializer::for_suffix(url, length);
            let url = query.append_pair("shardSelector", &shard.selector()).finish();
            let request = http::Request::get(url).body(Vec::new()).expect("a request");
            let listed: Value = client.request(request).await.expect("the selector is valid");
            let items = listed["items"].as_array().expect("a list").iter();
            let uids: BTreeSet<_> = items.filter_map(|it| it["metadata"]["uid"].as_str()).collect();
            let of_shard = |it: &&ConfigMap| real.is_none() || shard.contains(&it.uid().expect("a uid"));
            let expected: BTreeSet<_> = all.items.iter().filter(of_shard).filter_map(ConfigMap::uid).collect();
            assert_eq!(uids, expected.iter().map(String::as_str).collect());
            assert_eq!(listed["metadata"]["shardInfo"].is_object(), real.is_some());
            seen.extend(expected);
        }
        assert_eq!(seen.len(), all.items.len());
        if let Some(real) = real {
            real.stop();
        }
    }
}

/// Between two looks of a test at a replica.
const STEP: Duration = Duration::from_millis(10);

fn shard(index: u32) -> Shard {
    Shard::new(index, SHARDS).expect("one of them")
}

/// An informer of shard 1 shows all changes of its objects, and no other object.
#[expect(
    clippy::too_many_lines,
    reason = "one change of the objects after the other"
)]
async fn follows_its_shard(configs: Api<ConfigMap>, watched: Api<ConfigMap>) {
    let names: Vec<_> = (0..20).map(|number| format!("c{number}")).collect();
    for name in &names[..10] {
        create(&configs, config(name, "1")).await;
    }
    let mut watched = Watched::start(quick(watched).shard(shard(1)));
    let listed = watched.first_list().await;
    let mine = async |names: &[String]| {
        let mut mine = Vec::new();
        for name in names {
            let object = configs.get(name).await.expect("there");
            if shard(1).contains(&object.uid().expect("a uid")) {
                mine.push(name.clone());
            }
        }
        mine
    };
    let listed: BTreeSet<_> = listed
        .iter()
        .filter_map(|line| line.strip_prefix("added "))
        .collect();
    let before = mine(&names[..10]).await;
    // The real server publishes its certificates in every namespace.
    let is_ours = |name: &&str| name.starts_with('c');
    let listed: Vec<_> = listed.into_iter().filter(is_ours).collect();
    assert_eq!(
        listed,
        before
            .iter()
            .map(String::as_str)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );

    for name in &names[10..] {
        create(&configs, config(name, "1")).await;
    }
    let all = mine(&names).await;
    for name in &names {
        patch(&configs, name, json!({ "data": { "value": "2" } })).await;
    }
    for name in &names {
        configs
            .delete(name, &DeleteParams::default())
            .await
            .expect("there");
    }
    // The last object of this shard marks the end.
    let last = loop {
        let last = create(&configs, config("c-last", "1")).await;
        if shard(1).contains(&last.uid().expect("a uid")) {
            break last.name_any();
        }
        configs
            .delete("c-last", &DeleteParams::default())
            .await
            .expect("there");
    };
    let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let event = watched.next().await;
        let (what, name) = event.split_once(' ').expect("an action and a name");
        if name == last {
            break;
        }
        events
            .entry(name.to_owned())
            .or_default()
            .push(what.to_owned());
    }
    events.remove("kube-root-ca.crt");
    let expected = all.iter().map(|name| {
        let added = (!before.contains(name)).then_some("added");
        let events = added
            .into_iter()
            .chain(["updated", "deleted"])
            .map(str::to_owned);
        (name.clone(), events.collect())
    });
    assert_eq!(events, expected.collect());
    let stored = watched.informer.store().list();
    let stored: Vec<_> = stored
        .iter()
        .map(|it| it.name_any())
        .filter(|it| it.starts_with('c'))
        .collect();
    assert_eq!(stored, [last]);
    watched.stop().await;
}

/// One pod of the operator.
struct Replica {
    election: LeaderElection,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

/// Which shard handled which object. Clones are the same log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<BTreeMap<String, BTreeSet<u32>>>>);

/// Keeps one `ConfigMap` for each gadget, with its size and the pod that wrote it.
struct Operate {
    configs: Owned<Gadget, ConfigMap>,
    shard: Shard,
    pod: &'static str,
    log: Log,
}

impl ObjectReconciler<Gadget> for Operate {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
        let gadget = cx.object();
        self.log
            .record(&gadget.uid().unwrap_or_default(), self.shard.index());
        let size = gadget.spec.size.to_string();
        let data =
            json!({ "size": size, "index": self.shard.index().to_string(), "pod": self.pod });
        // No garbage collector runs beside the servers: a recreated gadget has another child.
        let desired =
            Desired::json(json!({ "data": data })).named(gadget.uid().unwrap_or_default());
        self.configs.apply(&cx, desired).await?;
        Ok(Outcome::done())
    }
}

// === impl Replica ===

impl Replica {
    /// Starts a pod of a `StatefulSet`, as an operator would.
    async fn start(cluster: &Cluster, ordinal: u32, pod: &'static str, log: &Log) -> Self {
        let host = format!("gadget-operator-{ordinal}");
        let shard = Shard::of_pod(&host, SHARDS).expect("a StatefulSet of 3 replicas");
        let lease = format!("gadget-operator-{}", shard.index());
        let election = LeaderElection::builder(cluster.aside(), cluster.namespace(), lease)
            .retry_period(Duration::from_millis(100))
            .build()
            .expect("good settings");
        let client = cluster.client().await;
        let gadgets = watch::<Gadget>(cluster).await.shard(shard);
        let mut builder = Controller::builder(client, gadgets);
        let configs = builder.owns(watch::<ConfigMap>(cluster).await);
        let operate = Operate {
            configs,
            shard,
            pod,
            log: log.clone(),
        };
        let operator = Operator::builder()
            .leader_election(election.clone())
            .build();
        let controller = builder.build(operate).expect("good settings");
        operator
            .add_controller(controller)
            .expect("it does not run");
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let stop = stop.clone();
            async move { operator.run_until(stop).await }
        });
        Self {
            election,
            stop,
            run: AbortOnDropHandle::new(run),
        }
    }

    async fn stop(self) -> Result<(), OperatorError> {
        self.stop.cancel();
        self.run.await.expect("no panic")
    }
}

// === impl Log ===

impl Log {
    fn record(&self, uid: &str, index: u32) {
        let mut handled = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        handled.entry(uid.to_owned()).or_default().insert(index);
    }

    /// Each uid was handled by the replica of its shard only, and each shard had objects.
    fn check(&self) {
        let handled = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        for (uid, indexes) in handled.iter() {
            let expected = (0..SHARDS).filter(|index| shard(*index).contains(uid));
            assert_eq!(*indexes, expected.collect::<BTreeSet<_>>(), "{uid}");
        }
        let indexes: BTreeSet<_> = handled.values().flatten().copied().collect();
        assert_eq!(
            indexes.len(),
            3,
            "48 random uids belong to each of three shards"
        );
    }
}

async fn resize(gadgets: &Api<Gadget>, names: &[String], size: u32) {
    for name in names {
        patch(gadgets, name, json!({ "spec": { "size": size } })).await;
    }
}

/// Waits until the child of each gadget has this size, and was written by the pod of its shard.
async fn shows(cluster: &Cluster, names: &[String], size: u32, pod: impl Fn(u32) -> &'static str) {
    for name in names {
        let gadget = cluster
            .api_aside::<Gadget>()
            .get(name)
            .await
            .expect("there");
        let uid = gadget.uid().expect("a uid");
        let index = (0..SHARDS)
            .find(|index| shard(*index).contains(&uid))
            .expect("one of them");
        let expected =
            json!({ "size": size.to_string(), "index": index.to_string(), "pod": pod(index) });
        let is_expected = |it: Option<&ConfigMap>| it.is_some_and(|it| json!(it.data) == expected);
        let configs = cluster.api_aside::<ConfigMap>();
        await_condition(configs, &uid, is_expected)
            .await
            .expect("a child");
    }
}

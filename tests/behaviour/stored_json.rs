//! Stores that keep JSON: reads return decoded objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    num::NonZeroUsize,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Resource,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Informer, InformerController, ObjectKey, Outcome, Request, source::Scripted,
    store::ObjectIdentity as _,
};

use crate::{
    kinds::{config, value},
    running::Running,
    watched::{Watched, quick},
};

/// A `ConfigMap` whose value can be read once in this process, unless it is a number.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct Fickle {
    metadata: ObjectMeta,
    data: FickleData,
}

#[derive(Clone, Debug, Deserialize)]
struct FickleData {
    #[serde(deserialize_with = "once")]
    value: String,
}

fn once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    static READ: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let value = String::deserialize(deserializer)?;
    let is_new = READ
        .lock()
        .expect("no thread panics while it holds the lock")
        .insert(value.clone());
    if is_new || value.parse::<u32>().is_ok() {
        Ok(value)
    } else {
        Err(D::Error::custom("once is enough"))
    }
}

/// A `ConfigMap` that is counted, by its value, for as long as it is decoded.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct Counted {
    metadata: ObjectMeta,
    data: CountedData,
}

#[derive(Clone, Debug, Deserialize)]
struct CountedData {
    value: CountedValue,
}

#[derive(Debug)]
struct CountedValue(String);

/// How many objects of each value are decoded.
static DECODED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

fn decoded(value: &str) -> usize {
    let decoded = DECODED.lock().expect("no thread panics here");
    decoded.get(value).copied().unwrap_or_default()
}

impl CountedValue {
    fn new(value: String) -> Self {
        let mut decoded = DECODED.lock().expect("no thread panics here");
        *decoded.entry(value.clone()).or_default() += 1;
        Self(value)
    }
}

impl Clone for CountedValue {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for CountedValue {
    fn drop(&mut self) {
        let mut decoded = DECODED.lock().expect("no thread panics here");
        *decoded.entry(self.0.clone()).or_default() -= 1;
    }
}

impl<'de> Deserialize<'de> for CountedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// Creates objects with the value `mark`.
async fn create_marked(configs: &Api<ConfigMap>, objects: usize, mark: &str) {
    for number in 0..objects {
        let object = config(&format!("object-{number}"), mark);
        let created = configs.create(&PostParams::default(), &object).await;
        created.expect("new");
    }
}

on_both_servers! {
    /// Rows: BO-45
    async fn the_store_returns_the_objects_of_the_server(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let mut object = config("a", "\u{e9}\n\"1\"");
        object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        others.create(&PostParams::default(), &object).await.expect("new");
        let mut watched = Watched::start(quick(cluster.api::<ConfigMap>().await));
        assert_eq!(watched.first_list().await, ["added a"]);
        let key = ObjectKey::new("a").within(cluster.namespace());
        let store = watched.informer.store();
        for round in 0..4 {
            let mut whole = others.get("a").await.expect("there");
            whole.metadata.managed_fields = None;
            let kept = store.get_lazy(&key).expect("there");
            assert_eq!(kept.resource_version(), whole.metadata.resource_version.as_deref());
            assert_eq!(kept.metadata().into_owned(), whole.metadata);
            assert_eq!(*store.get(&key).expect("there"), whole);
            assert_eq!(*store.list()[0], whole);
            let patch = json!({ "data": { "value": format!("{round}") } });
            others.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("there");
            assert_eq!(watched.next().await, "updated a");
        }
        watched.stop().await;
    }

    /// To decode from the same JSON each time is asked of a type. One that does not is not there
    /// for readers, and blocks no other.
    async fn an_object_that_decodes_only_once_does_not_stop_the_others(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        for (name, value) in [("fickle", cluster.namespace()), ("steady", "1")] {
            others.create(&PostParams::default(), &config(name, value)).await.expect("new");
        }
        let mut watched = Watched::start(quick(cluster.api::<Fickle>().await));
        assert_eq!(watched.first_list().await, ["added fickle", "added steady"]);
        let store = watched.informer.store();
        let key = |name: &str| ObjectKey::new(name).within(cluster.namespace());
        assert!(store.get(&key("fickle")).is_none());
        assert_eq!(store.get_lazy(&key("fickle")).expect("kept").name(), "fickle");
        assert_eq!(store.get(&key("steady")).expect("there").data.value, "1");
        assert_eq!((store.list().len(), store.len()), (1, 2));
        for name in ["fickle", "steady"] {
            others.delete(name, &DeleteParams::default()).await.expect("there");
        }
        assert_eq!(watched.next().await, "deleted steady");
        assert!(store.is_empty());
        watched.stop().await;
    }

    /// A controller may owe a call to every object that there is, as those do that ask to be
    /// called again every few minutes.
    ///
    /// Rows: BO-45
    async fn a_pending_call_keeps_no_decoded_object(cluster: Cluster) {
        let others = cluster.api_aside::<ConfigMap>();
        let one = NonZeroUsize::new(1).expect("not zero");
        let controller = InformerController::builder().concurrency(one).build();
        let controller = controller.expect("a good name");
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let configs = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        let earlier: Arc<Mutex<Vec<Weak<ConfigMap>>>> = Arc::default();
        controller
            .add_reconciler(&configs, move |request: Request<ConfigMap>| {
                let mut earlier = earlier.lock().expect("no thread panics while it holds the lock");
                let held = earlier.iter().filter(|it| it.strong_count() > 0).count();
                earlier.push(Arc::downgrade(request.object()));
                let call = (value(request.object()).to_owned(), earlier.len() - 1, held);
                let sender = sender.clone();
                async move {
                    sender.send(call).await.expect("the test receives");
                    Ok::<_, Infallible>(Outcome::requeue_after(Duration::from_secs(3600)))
                }
            })
            .expect("a reconciler of config maps");
        let running = Running::start(&controller);
        for (earlier, name) in ["a", "b", "c"].into_iter().enumerate() {
            others.create(&PostParams::default(), &config(name, name)).await.expect("new");
            let call = receiver.recv().await.expect("it runs");
            assert_eq!(call, (name.to_owned(), earlier, 0), "of each: a value, how many, and held");
        }
        running.stop().await.expect("nothing went wrong for good");
    }

    /// Handlers start when all informers have synced. Until then the events of a first list wait,
    /// and as JSON: decoded they would take five times the memory.
    ///
    /// D23, D24. Rows: BO-45
    async fn events_keep_no_decoded_object_before_the_handlers_start(cluster: Cluster) {
        const OBJECTS: usize = 20;
        let mark = cluster.namespace();
        create_marked(&cluster.api_aside(), OBJECTS, mark).await;
        let controller = InformerController::builder().build().expect("good settings");
        let informer = Informer::new(quick(cluster.api::<Counted>().await));
        let configs = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs, &informer).expect("new");
        let (script, source) = Scripted::<ConfigMap>::new();
        let others_kind = controller.kind("others").expect("a new kind");
        controller.add_informer(&others_kind, &Informer::new(source)).expect("new");
        let (sender, mut receiver) = mpsc::channel(OBJECTS);
        controller
            .add_reconciler(&configs, move |request: Request<Counted>| {
                let sender = sender.clone();
                let decoded = decoded(&request.object().data.value.0);
                async move {
                    sender.send(decoded).await.expect("the test receives");
                    Ok::<_, Infallible>(Outcome::done())
                }
            })
            .expect("a reconciler of config maps");
        let running = Running::start(&controller);
        let is_queued = || controller.health().iter().any(|it| it.has_synced);
        while !is_queued() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(decoded(mark), 0, "of objects that wait");

        script.list([]).await.expect("it runs");
        for _ in 0..OBJECTS {
            let decoded = receiver.recv().await.expect("it runs");
            assert!((1..OBJECTS).contains(&decoded), "{decoded} of {OBJECTS} at once");
        }
        running.stop().await.expect("nothing went wrong for good");
        assert_eq!(decoded(mark), 0, "of objects that were handled");
    }

    /// Two informers show the same objects, and a handler is called once for each.
    ///
    /// Rows: BO-45
    async fn an_event_that_another_informer_has_shown_keeps_no_decoded_object(cluster: Cluster) {
        const OBJECTS: usize = 5;
        let mark = cluster.namespace();
        create_marked(&cluster.api_aside(), OBJECTS, mark).await;
        let controller = InformerController::builder().build().expect("good settings");
        let configs = controller.kind("configs").expect("a new kind");
        let mut informers = Vec::new();
        for _ in 0..2 {
            let informer = Informer::new(quick(cluster.api::<Counted>().await));
            controller.add_informer(&configs, &informer).expect("new");
            informers.push(informer);
        }
        let (sender, mut receiver) = mpsc::channel(2 * OBJECTS);
        controller
            .add_reconciler(&configs, move |request: Request<Counted>| {
                let (sender, name) = (sender.clone(), request.key().name().to_owned());
                async move {
                    sender.send(name).await.expect("the test receives");
                    Ok::<_, Infallible>(Outcome::done())
                }
            })
            .expect("a reconciler of config maps");
        let running = Running::start(&controller);
        // Handlers start after both first lists.
        for _ in 0..OBJECTS {
            receiver.recv().await.expect("it runs");
        }
        running.stop().await.expect("nothing went wrong for good");
        receiver.try_recv().expect_err("each object has one call");
        assert_eq!(informers.iter().map(|it| it.store().len()).sum::<usize>(), 2 * OBJECTS);
        assert_eq!(decoded(mark), 0, "of objects that were handled");
    }
}

//! Owned and watched kinds.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::{
    Resource as _,
    api::core::v1::{ConfigMap, Secret, Service},
};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::runtime::{
    controller::{Controller, Error},
    reflector::ObjectRef,
    watcher,
};

use super::{Each, Polled, config, create, delete, merge, named, never, nothing, target, until};
use crate::{cluster::Cluster, kinds::Gizmo};

/// A secret with an owner.
fn owned(name: &str, owner: &ConfigMap) -> Value {
    json!({ "metadata": {
        "name": name,
        "labels": { "of": owner.name_any() },
        "ownerReferences": [owner.owner_ref(&()).expect("it has a name and a uid")],
    }})
}

/// Delays, one after the other.
struct Sequence(Vec<Duration>);

impl Iterator for Sequence {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}

impl windlass::runtime::utils::Backoff for Sequence {
    fn reset(&mut self) {}
}

/// Lets three attempts of each of three watches fail. Returns the waits between them, by path, after
/// the controller has recovered.
async fn waits(
    cluster: &Cluster,
    change: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>,
) -> Vec<(&'static str, Vec<Duration>)> {
    const PATHS: [&str; 3] = ["/configmaps", "/secrets", "/services"];

    let connection = cluster.connection();
    connection.refuse();
    let any = watcher::Config::default;
    let controller = Controller::new(cluster.api::<ConfigMap>().await, any())
        .owns(cluster.api::<Service>().await, any())
        .watches(cluster.api::<Secret>().await, any(), target);
    let mut polled = Polled::start(change(controller).run(nothing, never, Arc::new(())));
    until(|| PATHS.iter().all(|path| connection.count(path) >= 3)).await;
    let waits = PATHS.map(|path| {
        let times = connection.times(path);
        let waits = times.windows(2).take(2).map(|pair| pair[1] - pair[0]);
        (path, waits.collect())
    });
    connection.accept();
    create(&cluster.api_aside::<ConfigMap>(), config("a", "1")).await;
    assert_eq!(polled.name().await, "a");
    waits.into()
}

on_both_servers! {
    /// Rows: KR-04, KR-15
    async fn a_change_of_an_owned_object_reconciles_its_owner(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let selected = watcher::Config::default().labels("of in (a, b)");
        let mut polled = Polled::start(
            controller
                .owns(cluster.api::<Secret>().await, selected)
                .run(nothing, never, Arc::new(())),
        );
        let (a, b) = (create(&configs, config("a", "1")).await, create(&configs, config("b", "1")).await);
        let c = create(&configs, config("c", "1")).await;
        assert_eq!(polled.names(3).await, ["a", "b", "c"]);
        create(&secrets, owned("of-a", &a)).await;
        assert_eq!(polled.name().await, "a");
        merge(&secrets, "of-a", json!({ "stringData": { "x": "1" } })).await;
        assert_eq!(polled.name().await, "a");
        // Without an owner, with an owner of another kind, and not selected.
        create(&secrets, json!({ "metadata": { "name": "free", "labels": { "of": "a" } } })).await;
        let mut foreign = owned("foreign", &a);
        foreign["metadata"]["ownerReferences"][0]["kind"] = "Secret".into();
        create(&secrets, foreign).await;
        create(&secrets, owned("of-c", &c)).await;
        create(&secrets, owned("of-b", &b)).await;
        assert_eq!(polled.name().await, "b");
        // The old and the new owner.
        let moved = json!([b.owner_ref(&()).expect("an owner")]);
        merge(&secrets, "of-a", json!({ "metadata": { "ownerReferences": moved } })).await;
        assert_eq!(polled.names(2).await, ["a", "b"]);
        delete(&secrets, "of-b").await;
        assert_eq!(polled.name().await, "b");
        assert!(polled.items.try_recv().is_err());
    }

    /// Rows: KR-05, KR-17, KR-18, BO-09
    async fn a_mapper_returns_none_one_or_many_objects(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let store = controller.store();
        let all = watcher::Config::default().labels("all=true");
        let one = watcher::Config::default().labels("all!=true");
        let mut polled = Polled::start(
            controller
                .watches(cluster.api::<Secret>().await, one, target)
                .watches(cluster.api::<Secret>().await, all, move |_: Secret| {
                    let objects = store.state().into_iter();
                    objects.map(|it| ObjectRef::from_obj(&*it)).collect::<Vec<_>>()
                })
                .run(nothing, never, Arc::new(())),
        );
        for name in ["a", "b", "c"] {
            create(&configs, config(name, "1")).await;
        }
        assert_eq!(polled.names(3).await, ["a", "b", "c"]);
        let path = |name: &str| format!("{}/{name}", cluster.namespace());
        create(&secrets, json!({ "metadata": { "name": "none" } })).await;
        create(&secrets, named("missing", &path("missing"))).await;
        create(&secrets, named("elsewhere", "default/a")).await;
        create(&secrets, named("one", &path("a"))).await;
        assert_eq!(polled.name().await, "a");
        // The reference moves: both objects.
        merge(&secrets, "one", json!({ "metadata": { "annotations": { super::NAMED: path("b") } } })).await;
        assert_eq!(polled.names(2).await, ["a", "b"]);
        delete(&secrets, "one").await;
        assert_eq!(polled.name().await, "b");
        create(&secrets, json!({ "metadata": { "name": "many", "labels": { "all": "true" } } })).await;
        assert_eq!(polled.names(3).await, ["a", "b", "c"]);
        assert!(polled.items.try_recv().is_err());
    }

    /// References by annotations, as from another cluster: a kind, and a namespace with a name.
    ///
    /// Rows: KR-18
    async fn a_mapper_follows_references_in_annotations(cluster: Cluster) {
        const KIND: &str = "test.windlass.dev/primary-kind";

        fn primary(secret: Secret) -> Option<ObjectRef<ConfigMap>> {
            if secret.annotations().get(KIND)? != ConfigMap::KIND {
                return None;
            }
            target(secret)
        }

        let elsewhere = format!("{}-elsewhere", cluster.namespace());
        crate::cluster::create_namespace(cluster.aside(), &elsewhere).await;
        let controlled = Api::<ConfigMap>::namespaced(cluster.client().await, &elsewhere);
        let configs = Api::<ConfigMap>::namespaced(cluster.aside(), &elsewhere);
        let secrets = cluster.api_aside::<Secret>();
        let mut polled = Polled::start(
            Controller::new(controlled, watcher::Config::default())
                .watches(cluster.api::<Secret>().await, watcher::Config::default(), primary)
                .run(nothing, never, Arc::new(())),
        );
        for name in ["a", "b"] {
            create(&configs, config(name, "1")).await;
            assert_eq!(polled.name().await, name);
        }
        let refers = |name: &str, kind: &str, path: &str| {
            let mut secret = named(name, path);
            secret["metadata"]["annotations"][KIND] = kind.into();
            secret
        };
        create(&secrets, refers("kind", "Secret", &format!("{elsewhere}/a"))).await;
        create(&secrets, refers("path", "ConfigMap", "a")).await;
        create(&secrets, refers("space", "ConfigMap", &format!("{}/a", cluster.namespace()))).await;
        create(&secrets, refers("right", "ConfigMap", &format!("{elsewhere}/b"))).await;
        assert_eq!(polled.name().await, "b");
        assert!(polled.items.try_recv().is_err());
    }

    /// Each watch uses the delays of the backoff: that of the controlled kind, and each other one.
    ///
    /// Rows: KR-12, KR-13
    async fn the_backoff_is_used_between_the_attempts_of_each_watch(cluster: Cluster) {
        /// Each is longer than the default one, which is 0.8 s and 1.6 s at most.
        const DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(1700)];

        let waits = waits(&cluster, |it| it.trigger_backoff(Sequence(DELAYS.to_vec()))).await;
        for (path, waits) in waits {
            for (wait, delay) in waits.iter().zip(DELAYS) {
                assert!(*wait >= delay, "{path}: {waits:?}");
            }
        }
    }

    /// `crates/runtime/tests/backoff.rs` has all delays, in paused time.
    ///
    /// Rows: KR-13
    async fn the_default_backoff_is_used_between_the_attempts_of_each_watch(cluster: Cluster) {
        for (path, waits) in waits(&cluster, |it| it).await {
            // With jitter: at least half of 0.8 s and of 1.6 s.
            for (wait, least) in waits.iter().zip([400, 800]) {
                assert!(*wait >= Duration::from_millis(least), "{path}: {waits:?}");
            }
        }
    }

    /// A watch that fails delays no other, and its errors are items.
    ///
    /// Rows: KR-12
    async fn each_watch_has_its_own_backoff(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        // The kind is not installed.
        let missing: Api<Missing> = Api::namespaced(cluster.client().await, cluster.namespace());
        let mut polled = Polled::start(
            controller
                .trigger_backoff(Each(Duration::from_millis(30)))
                .owns(missing.clone(), watcher::Config::default())
                .watches(missing, watcher::Config::default(), |_| None)
                .watches(cluster.api::<Secret>().await, watcher::Config::default(), target)
                .run(nothing, never, Arc::new(())),
        );
        // A kind that is missing does not delay the calls of the others.
        create(&configs, config("a", "1")).await;
        assert_eq!(polled.name().await, "a");
        let (begin, mut failures) = (Instant::now(), 0);
        while failures < 10 {
            match polled.next().await {
                Err(Error::QueueError(
                    watcher::Error::InitialListFailed(kube::Error::Api(status))
                    | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
                )) => {
                    assert_eq!(status.code, 404);
                    failures += 1;
                }
                item => panic!("{item:?}"),
            }
        }
        // Two watches, with five attempts each.
        assert!(begin.elapsed() >= Duration::from_millis(30) * 3, "{:?}", begin.elapsed());
        create(&secrets, named("s", &format!("{}/a", cluster.namespace()))).await;
        assert_eq!(polled.name().await, "a");
        for part in ["/gizmos2", "/secrets"] {
            assert!(cluster.connection().count(part) > 0, "{part}");
        }
    }

    /// kube-runtime ends the controller when the backoff ends.
    ///
    /// Rows: KR-12
    async fn a_backoff_that_ends_does_not_end_the_controller(cluster: Cluster) {
        struct Once(Option<Duration>);

        impl Iterator for Once {
            type Item = Duration;

            fn next(&mut self) -> Option<Duration> {
                self.0.take()
            }
        }

        impl windlass::runtime::utils::Backoff for Once {
            fn reset(&mut self) {}
        }

        let configs = cluster.api_aside::<ConfigMap>();
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let missing: Api<Missing> = Api::namespaced(cluster.client().await, cluster.namespace());
        let mut polled = Polled::start(
            controller
                .trigger_backoff(Once(Some(Duration::from_millis(20))))
                .owns(missing, watcher::Config::default())
                .run(nothing, never, Arc::new(())),
        );
        for _ in 0..5 {
            assert!(matches!(polled.next().await, Err(Error::QueueError(_))));
        }
        create(&configs, config("a", "1")).await;
        assert_eq!(polled.name().await, "a");
    }

    /// A kind whose definition is installed later is watched from then on.
    async fn a_secondary_whose_definition_is_missing_is_watched_when_it_is_there(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let gizmos: Api<Gizmo> = Api::namespaced(cluster.client().await, cluster.namespace());
        let named = Arc::new(Mutex::new(None));
        let name = Arc::clone(&named);
        let controller = Controller::new(cluster.api::<ConfigMap>().await, watcher::Config::default());
        let mut polled = Polled::start(
            controller
                .trigger_backoff(Each(Duration::from_millis(30)))
                .watches(gizmos.clone(), watcher::Config::default(), move |gizmo: Gizmo| {
                    *name.lock().expect("no panic") = Some(gizmo.name_any());
                    let namespace = gizmo.namespace()?;
                    Some(ObjectRef::new("a").within(&namespace))
                })
                .run(nothing, never, Arc::new(())),
        );
        create(&configs, config("a", "1")).await;
        assert_eq!(polled.name().await, "a");
        cluster.install(&crate::kinds::loose_gizmo()).await;
        create(&cluster.api_aside::<Gizmo>(), json!({ "metadata": { "name": "g" }, "spec": { "size": 1 } })).await;
        assert_eq!(polled.name().await, "a");
        assert_eq!(named.lock().expect("no panic").as_deref(), Some("g"));
    }
}

/// A kind that no server has.
#[derive(
    Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema, kube::CustomResource,
)]
#[kube(
    group = "missing.windlass.dev",
    version = "v1",
    kind = "Missing",
    plural = "gizmos2",
    namespaced
)]
struct MissingSpec {}

//! Watchers and reconcilers on a server.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{
    Action, ExponentialBackoff, Failure, Informer, InformerController, Outcome, Request,
    SimpleWatcher, controller::AddError, handler::State, informer::HealthState,
};

use crate::{
    kinds::{config, labelled, value},
    running::Running,
    watched::quick,
};

on_both_servers! {
    /// Rows: GA-20, GA-29, GA-30, GA-31, GA-32
    async fn each_event_goes_to_the_watchers_and_then_the_reconcilers_in_add_order(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let controller = InformerController::new();
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let configs_kind = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs_kind, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        // The reconciler is added first, to show that watchers are called first nevertheless.
        controller.add_reconciler(&configs_kind, reconciler("r1", &sender)).expect("a name");
        controller.add_watcher(&configs_kind, watcher("w1", &sender)).expect("a name");
        controller.add_watcher(&configs_kind, watcher("w2", &sender)).expect("a name");
        controller.add_reconciler(&configs_kind, reconciler("r2", &sender)).expect("a name");
        let running = Running::start(&controller);

        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        assert_eq!(next(&mut receiver, 4).await, ["w1 add a", "w2 add a", "r1 Created a", "r2 Created a"]);
        set(&configs, "a", "2").await;
        assert_eq!(next(&mut receiver, 4).await, ["w1 update a 1>2", "w2 update a 1>2", "r1 Updated a", "r2 Updated a"]);
        configs.delete("a", &DeleteParams::default()).await.expect("there");
        assert_eq!(next(&mut receiver, 4).await, ["w1 delete a", "w2 delete a", "r1 Deleted a", "r2 Deleted a"]);
        running.stop().await.expect("nothing went wrong for good");
    }

    /// Rows: GA-23, GA-95, GA-96, GA-100
    async fn a_reconciler_that_fails_is_called_again_with_its_state(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        configs.create(&PostParams::default(), &config("a", "1")).await.expect("new");
        let controller = InformerController::builder()
            .retry_policy(ExponentialBackoff::new(Duration::from_millis(5), 5))
            .on_error(|_| {})
            .build()
            .expect("a good name");
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let configs_kind = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs_kind, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        controller
            .add_reconciler(&configs_kind, move |request: Request<ConfigMap>| {
                let sender = sender.clone();
                async move {
                    let calls = request.state().and_then(State::get::<u32>).copied();
                    let line = format!("{:?} attempt {} state {calls:?}", request.action(), request.attempt());
                    sender.send(line).await.expect("the test listens");
                    match calls.unwrap_or_default() {
                        2 => Ok(Outcome::done()),
                        calls => Err(Failure::new("not yet").state(State::new(calls + 1))),
                    }
                }
            })
            .expect("a name");
        let running = Running::start(&controller);
        assert_eq!(
            next(&mut receiver, 3).await,
            [
                "Created attempt 0 state None",
                "Created attempt 1 state Some(1)",
                "Created attempt 2 state Some(2)",
            ]
        );
        running.stop().await.expect("nothing went wrong for good");
        assert_eq!(controller.pending_calls(), 0);
    }

    /// Rows: GA-28
    async fn several_informers_of_a_kind_feed_the_same_handlers(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        let controller = InformerController::new();
        let configs_kind = controller.kind("configs").expect("a new kind");
        for app in ["web", "db"] {
            let source = quick(cluster.api::<ConfigMap>().await);
            let source = source.labels(format!("app={app}")).expect("a selector");
            controller.add_informer(&configs_kind, &Informer::new(source)).expect("new");
        }
        let (sender, mut receiver) = mpsc::channel(64);
        controller.add_watcher(&configs_kind, watcher("w", &sender)).expect("a name");
        let running = Running::start(&controller);
        for (name, app) in [("a", "web"), ("b", "db"), ("c", "none")] {
            let object = labelled(config(name, "1"), "app", app);
            configs.create(&PostParams::default(), &object).await.expect("new");
        }
        let mut seen = next(&mut receiver, 2).await;
        seen.sort();
        assert_eq!(seen, ["w add a", "w add b"]);
        running.stop().await.expect("nothing went wrong for good");
    }

    /// Rows: GA-05, GA-33
    async fn an_invalid_addition_is_rejected_with_its_name(cluster: Cluster) {
        let controller = InformerController::new();
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let configs = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs, &informer).expect("new");
        let error = controller.add_informer(&configs, &informer).expect_err("twice");
        assert!(matches!(error, AddError::InformerAlreadyAdded { .. }), "{error}");
        assert!(error.to_string().contains("configs"), "{error}");
        let error = controller.kind::<ConfigMap>("").expect_err("no name").to_string();
        assert!(error.contains("name"), "{error}");
        let error = controller.kind::<ConfigMap>("configs").expect_err("twice").to_string();
        assert!(error.contains("configs"), "{error}");
    }

    /// It may be a proxy that refuses it by mistake, so the controller runs on.
    ///
    /// Rows: BO-51, BO-27
    async fn a_rejected_list_is_reported_and_does_not_end_the_controller(cluster: Cluster) {
        let source = quick(cluster.api::<ConfigMap>().await).fields("spec.nodeName=a").expect("looks well");
        let informer = Informer::new(source);
        let controller = InformerController::new();
        let configs = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs, &informer).expect("new");
        let operator = windlass::Operator::new();
        operator.add_controller(controller).expect("not running yet");
        let stop = CancellationToken::new();
        let look = async {
            let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
            let text = informer.until(down).await.to_string();
            stop.cancel();
            text
        };
        let (ended, text) = tokio::join!(operator.run_until(stop.clone()), look);
        ended.expect("it was stopped");
        assert!(text.contains("configmaps") && text.contains("check the label and field selectors"), "{text}");
    }

    /// A burst of writes to one object: the reconciler sees each state, in order, one call at
    /// a time.
    async fn the_states_of_an_object_are_dispatched_in_order_without_overlap(cluster: Cluster) {
        let configs = cluster.api_aside::<ConfigMap>();
        configs.create(&PostParams::default(), &config("a", "0")).await.expect("new");
        let controller = InformerController::new();
        let informer = Informer::new(quick(cluster.api::<ConfigMap>().await));
        let configs_kind = controller.kind("configs").expect("a new kind");
        controller.add_informer(&configs_kind, &informer).expect("new");
        let (sender, mut receiver) = mpsc::channel(64);
        let at_once = Arc::new(AtomicU32::new(0));
        controller
            .add_reconciler(&configs_kind, move |request: Request<ConfigMap>| {
                let (sender, at_once) = (sender.clone(), Arc::clone(&at_once));
                async move {
                    assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::task::yield_now().await;
                    let line = value(request.object()).to_owned();
                    sender.send(line).await.expect("the test listens");
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(Outcome::done())
                }
            })
            .expect("a name");
        let running = Running::start(&controller);
        informer.synced().await.expect("it runs");
        for i in 1..=50 {
            set(&configs, "a", &i.to_string()).await;
        }
        let mut seen: Vec<u32> = Vec::new();
        while seen.last() != Some(&50) {
            let value = receiver.recv().await.expect("it runs");
            seen.push(value.parse().expect("a number"));
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        running.stop().await.expect("nothing went wrong for good");
    }
}

fn watcher(name: &'static str, sender: &mpsc::Sender<String>) -> SimpleWatcher<ConfigMap> {
    let sender = sender.clone();
    let send = move |what: String| {
        let sender = sender.clone();
        async move {
            sender
                .send(format!("{name} {what}"))
                .await
                .expect("the test listens");
            Ok::<_, Infallible>(())
        }
    };
    let (add, update, delete) = (send.clone(), send.clone(), send);
    SimpleWatcher::new()
        .on_add(move |object: Arc<ConfigMap>| add(format!("add {}", object.name_any())))
        .on_update(move |old: Arc<ConfigMap>, new: Arc<ConfigMap>| {
            update(format!(
                "update {} {}>{}",
                new.name_any(),
                value(&old),
                value(&new)
            ))
        })
        .on_delete(move |last: Arc<ConfigMap>| delete(format!("delete {}", last.name_any())))
}

fn reconciler(
    name: &'static str,
    sender: &mpsc::Sender<String>,
) -> impl windlass::Reconciler<ConfigMap> + use<> {
    let sender = sender.clone();
    move |request: Request<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let action: Action = request.action();
            let line = format!("{name} {action:?} {}", request.key().name());
            sender.send(line).await.expect("the test listens");
            Ok::<_, Infallible>(Outcome::done())
        }
    }
}

async fn next(receiver: &mut mpsc::Receiver<String>, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.push(receiver.recv().await.expect("the controller runs"));
    }
    lines
}

async fn set(configs: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({ "data": { "value": value } }));
    configs
        .patch(name, &PatchParams::default(), &patch)
        .await
        .expect("an object that is there");
}

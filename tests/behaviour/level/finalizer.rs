//! The finalizer of a `Controller`: objects that leave the selector, and what is remembered of them.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Weak},
};

use kube::{CustomResourceExt as _, ResourceExt as _, api::DeleteParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use windlass::{
    Context, ControllerBuilder, Failure, Informer, ObjectKey, ObjectReconciler, Outcome, Watch,
    finalizer::OnSelectorExit, source::Scripted,
};

use super::rig::{Rig, create, patch, say};
use crate::{
    cluster::{Cluster, await_condition},
    kinds::{Gadget, GadgetSpec},
    watched::quick,
};

const FINALIZER: &str = "test.windlass.dev/level";

/// Needs the finalizer for gadgets larger than 1. The call for `block` waits until it is freed.
#[derive(Clone)]
struct Sometimes {
    sender: mpsc::Sender<String>,
    free: Arc<Semaphore>,
    /// The objects of all calls.
    given: Arc<Mutex<Vec<Weak<Gadget>>>>,
}

impl ObjectReconciler<Gadget> for Sometimes {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
        let (name, size) = (cx.key().name(), cx.object().spec.size);
        self.given.lock().push(Arc::downgrade(cx.object()));
        say(&self.sender, format!("{name} {size} reconcile")).await;
        if name == "block" {
            let _free = self.free.acquire().await.expect("not closed");
        }
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Gadget>) -> Result<Outcome, Failure> {
        let (name, size) = (cx.key().name(), cx.object().spec.size);
        say(&self.sender, format!("{name} {size} clean up")).await;
        Ok(Outcome::done())
    }

    fn needs_finalizer(&self, gadget: &Gadget) -> bool {
        gadget.spec.size > 1
    }
}

impl Sometimes {
    fn new() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(64);
        let sometimes = Self {
            sender,
            free: Arc::new(Semaphore::new(0)),
            given: Arc::default(),
        };
        (sometimes, receiver)
    }

    /// Waits until no object of a call is in memory.
    async fn forgets(&self) {
        // The memory has no event to wait for.
        while self.given.lock().iter().any(|it| it.strong_count() > 0) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// A builder for gadgets with the label `app=web`.
async fn selected(cluster: &Cluster) -> ControllerBuilder<Gadget> {
    cluster.install(&Gadget::crd()).await;
    let watch = Watch::from(cluster.api::<Gadget>().await).settings(quick);
    let watch = watch.labels("app=web");
    windlass::Controller::builder(cluster.client().await, watch).finalizer(FINALIZER)
}

fn gadget(name: &str, size: u32) -> Gadget {
    let mut gadget = Gadget::new(name, GadgetSpec { size });
    gadget
        .labels_mut()
        .insert("app".to_owned(), "web".to_owned());
    gadget
}

on_both_servers! {
    /// The change and the missing label are one event of the queue.
    ///
    /// Rows: BO-16
    async fn an_object_that_needs_no_finalizer_loses_it_also_outside_of_the_selector(cluster: Cluster) {
        let (sometimes, receiver) = Sometimes::new();
        let builder = selected(&cluster).await.concurrency(NonZeroUsize::MIN);
        let controller = builder.build(sometimes.clone()).expect("good settings");
        let informers = controller.informers().clone();
        let mut rig = Rig::start(controller, receiver);
        let gadgets = cluster.api_aside::<Gadget>();
        create(&gadgets, gadget("a", 2)).await;
        assert_eq!(rig.next().await, "a 2 reconcile");
        create(&gadgets, gadget("block", 1)).await;
        assert_eq!(rig.next().await, "block 1 reconcile");
        patch(&gadgets, "a", json!({ "spec": { "size": 1 } })).await;
        patch(&gadgets, "a", json!({ "metadata": { "labels": { "app": null } } })).await;
        let key = ObjectKey::new("a").within(cluster.namespace());
        while informers.get(&key).is_some() {
            // No handler is called for the event, because the only worker is busy.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        sometimes.free.add_permits(1);
        let is_released = |gadget: Option<&Gadget>| gadget.is_some_and(|it| it.finalizers().is_empty());
        await_condition(gadgets, "a", is_released).await.expect("released");
        rig.stop().await;
    }

    /// Rows: BO-16
    async fn an_object_that_leaves_the_selector_is_cleaned_up_only_if_that_is_set(cluster: Cluster) {
        let gadgets = cluster.api_aside::<Gadget>();
        for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
            let name = format!("{exit:?}").to_lowercase();
            let (sometimes, receiver) = Sometimes::new();
            let builder = selected(&cluster).await.on_selector_exit(exit);
            let mut rig = Rig::start(builder.build(sometimes).expect("good settings"), receiver);
            create(&gadgets, gadget(&name, 2)).await;
            assert_eq!(rig.next().await, format!("{name} 2 reconcile"));
            patch(&gadgets, &name, json!({ "metadata": { "labels": { "app": null } } })).await;
            let is_released = |gadget: Option<&Gadget>| gadget.is_some_and(|it| it.finalizers().is_empty());
            await_condition(gadgets.clone(), &name, is_released).await.expect("released");
            create(&gadgets, gadget(&format!("last-{name}"), 1)).await;
            if exit == OnSelectorExit::CleanUp {
                assert_eq!(rig.next().await, format!("{name} 2 clean up"));
            }
            assert_eq!(rig.next().await, format!("last-{name} 1 reconcile"));
            let last = gadgets.delete(&format!("last-{name}"), &DeleteParams::default()).await;
            last.expect("there");
            rig.stop().await;
        }
    }

    async fn no_object_of_an_earlier_call_stays_in_memory(cluster: Cluster) {
        let (sometimes, receiver) = Sometimes::new();
        let builder = selected(&cluster).await;
        let mut rig = Rig::start(builder.build(sometimes.clone()).expect("good settings"), receiver);
        let gadgets = cluster.api_aside::<Gadget>();
        create(&gadgets, gadget("a", 2)).await;
        assert_eq!(rig.next().await, "a 2 reconcile");
        // The event of the finalizer causes no call.
        sometimes.forgets().await;
        patch(&gadgets, "a", json!({ "spec": { "size": 1 } })).await;
        assert_eq!(rig.next().await, "a 1 reconcile");
        gadgets.delete("a", &DeleteParams::default()).await.expect("there");
        let gone = |gadget: Option<&Gadget>| gadget.is_none();
        await_condition(gadgets, "a", gone).await.expect("deleted");
        sometimes.forgets().await;
        rig.stop().await;
    }

    /// The patch of the finalizer crossed the change that made it unneeded, and the informer lists
    /// again after the object has left the selector: it has seen the change, and not the patch.
    ///
    /// Rows: BO-16
    async fn an_object_outside_of_the_selector_loses_a_finalizer_that_no_informer_has_shown(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let (sometimes, receiver) = Sometimes::new();
        let (script, source) = Scripted::new();
        let watch = Watch::from(Informer::new(source));
        let builder = windlass::Controller::builder(cluster.client().await, watch);
        let controller = builder.finalizer(FINALIZER).build(sometimes).expect("good settings");
        let mut rig = Rig::start(controller, receiver);
        script.list([]).await.expect("it runs");
        let gadgets = cluster.api_aside::<Gadget>();
        create(&gadgets, gadget("a", 2)).await;
        let needed = gadgets.get("a").await.expect("there");
        patch(&gadgets, "a", json!({ "spec": { "size": 1 } })).await;
        let unneeded = gadgets.get("a").await.expect("there");
        script.apply(needed).await.expect("it runs");
        assert_eq!(rig.next().await, "a 1 reconcile");
        let held = gadgets.get("a").await.expect("there");
        assert_eq!(held.finalizers(), [FINALIZER]);
        script.apply(unneeded.clone()).await.expect("it runs");
        script.delete(unneeded).await.expect("it runs");
        let is_released = |gadget: Option<&Gadget>| gadget.is_some_and(|it| it.finalizers().is_empty());
        await_condition(gadgets, "a", is_released).await.expect("released");
        rig.stop().await;
    }
}

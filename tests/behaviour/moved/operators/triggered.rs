//! Each `ConfigMap` counts the messages of a channel that name it, and those that name none.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, channel::mpsc};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    controller::{Action, Controller},
    reflector::ObjectRef,
    watcher,
};

/// The number of messages for each name. The empty name stands for all.
type Counts = Arc<Mutex<BTreeMap<String, u32>>>;

struct Data {
    client: Client,
    counts: Counts,
}

async fn reconcile(config: Arc<ConfigMap>, data: Arc<Data>) -> Result<Action, kube::Error> {
    let count = |name: &str| {
        let counts = data.counts.lock().expect("no panic");
        counts.get(name).copied().unwrap_or_default().to_string()
    };
    let wanted = json!({ "own": count(&config.name_any()), "all": count("") });
    if json!(config.data) == wanted {
        return Ok(Action::await_change());
    }
    let namespace = config.namespace().unwrap_or_default();
    let configs = Api::<ConfigMap>::namespaced(data.client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "data": wanted }));
    let params = PatchParams::default();
    configs.patch(&config.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

/// Ends after the running calls when `names` ends.
pub(crate) async fn run(
    client: Client,
    namespace: String,
    mut names: mpsc::UnboundedReceiver<String>,
) {
    let configs = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let counts = Counts::default();
    let (one, ones) = mpsc::unbounded();
    let (all, alls) = mpsc::unbounded();
    let (ended, end) = futures::channel::oneshot::channel::<()>();
    let counted = Arc::clone(&counts);
    let messages = async move {
        while let Some(name) = names.next().await {
            *counted
                .lock()
                .expect("no panic")
                .entry(name.clone())
                .or_default() += 1;
            if name.is_empty() {
                all.unbounded_send(()).expect("the controller runs");
            } else {
                let target = ObjectRef::<ConfigMap>::new(&name).within(&namespace);
                one.unbounded_send(target).expect("the controller runs");
            }
        }
        drop(ended);
    };
    let controlled = Controller::new(configs, watcher::Config::default().labels("counts=true"))
        .reconcile_on(ones)
        .reconcile_all_on(alls)
        .reconcile_all_on(futures::stream::empty())
        .graceful_shutdown_on(async {
            _ = end.await;
        })
        .graceful_shutdown_on(std::future::pending())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::new(Data { client, counts }),
        )
        .for_each(|_| std::future::ready(()));
    futures::join!(messages, controlled);
}

//! A `ConfigMap` shows how long the keys of the secret are that its annotation names.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    controller::{Action, Controller},
    reflector::ObjectRef,
    watcher::{self, DefaultBackoff},
};

const NAMED: &str = "test.windlass.dev/secret";

async fn reconcile(config: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let namespace = config.namespace().unwrap_or_default();
    let Some(named) = config.annotations().get(NAMED) else {
        return Ok(Action::await_change());
    };
    let secrets = Api::<Secret>::namespaced(Client::clone(&client), &namespace);
    let secret = secrets.get_opt(named).await?;
    let keys = secret.and_then(|secret| secret.data).map_or_else(
        || "missing".to_owned(),
        |data| data.into_keys().collect::<Vec<_>>().join(","),
    );
    if config
        .data
        .iter()
        .flatten()
        .any(|(_, known)| *known == keys)
    {
        return Ok(Action::await_change());
    }
    let configs = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace);
    let patch = Patch::Merge(json!({ "data": { "keys": keys } }));
    let params = PatchParams::default();
    configs.patch(&config.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

pub(crate) async fn run(client: Client, namespace: String) {
    let configs = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let secrets = Api::<Secret>::namespaced(client.clone(), &namespace);
    let selected = watcher::Config::default().labels("shows=secret");
    let controller = Controller::new(configs, selected);
    let store = controller.store();
    controller
        .trigger_backoff(DefaultBackoff::default())
        .watches(secrets, watcher::Config::default(), move |secret| {
            let users = store.state().into_iter();
            let name = secret.name_any();
            users
                .filter(|config| config.annotations().get(NAMED) == Some(&name))
                .map(|config| ObjectRef::from_obj(&*config))
                .collect::<Vec<_>>()
        })
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::new(client),
        )
        .for_each(|_| std::future::ready(()))
        .await;
}

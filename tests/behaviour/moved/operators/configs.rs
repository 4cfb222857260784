//! Each gadget owns a `ConfigMap` with its size.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams},
};

use super::runtime::{
    controller::{Action, Config, Controller},
    watcher,
};
use crate::kinds::Gadget;

struct Data {
    client: Client,
}

async fn reconcile(gadget: Arc<Gadget>, data: Arc<Data>) -> Result<Action, kube::Error> {
    let namespace = gadget.namespace().unwrap_or_default();
    let config = ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{}-size", gadget.name_any())),
            owner_references: gadget.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "size".to_owned(),
            gadget.spec.size.to_string(),
        )])),
        ..ConfigMap::default()
    };
    let configs = Api::<ConfigMap>::namespaced(data.client.clone(), &namespace);
    let name = config.name_any();
    let apply = PatchParams::apply("configs").force();
    configs.patch(&name, &apply, &Patch::Apply(&config)).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn error_policy(_: Arc<Gadget>, _: &kube::Error, _: Arc<Data>) -> Action {
    Action::requeue(Duration::from_millis(200))
}

pub(crate) async fn run(client: Client, namespace: String) {
    let gadgets = Api::<Gadget>::namespaced(client.clone(), &namespace);
    let configs = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    Controller::new(gadgets, watcher::Config::default())
        .with_config(Config::default().concurrency(2))
        .owns(configs, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Data { client }))
        .for_each(|_| std::future::ready(()))
        .await;
}

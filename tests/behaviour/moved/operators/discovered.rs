//! Objects of a kind that is found by discovery own a `ConfigMap`, and follow a secret of their name.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    discovery,
};
use serde_json::json;

use super::runtime::{
    controller::{Action, Controller, Error},
    reflector::ObjectRef,
    watcher,
};

struct Data {
    client: Client,
    kind: ApiResource,
    configs: ApiResource,
    secrets: ApiResource,
}

async fn find(client: &Client, group: &str, kind: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk(group, "v1", kind);
    loop {
        // A definition is served a moment after it is established.
        if let Ok((resource, _)) = discovery::pinned_kind(client, &kind).await {
            return resource;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn reconcile(object: Arc<DynamicObject>, data: Arc<Data>) -> Result<Action, kube::Error> {
    let namespace = object.namespace().unwrap_or_default();
    let api = |kind| Api::<DynamicObject>::namespaced_with(data.client.clone(), &namespace, kind);
    let secret = api(&data.secrets).get_opt(&object.name_any()).await?;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": object.name_any(),
            "ownerReferences": object.controller_owner_ref(&data.kind).map(|owner| vec![owner]),
        },
        "data": {
            "size": object.data["spec"]["size"].to_string(),
            "secret": secret.is_some().to_string(),
        },
    });
    let params = PatchParams::apply("discovered").force();
    let (configs, patch) = (api(&data.configs), Patch::Apply(&config));
    configs.patch(&object.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

pub(crate) async fn run(client: Client, namespace: String) {
    let kind = find(&client, "test.windlass.dev", "Gadget").await;
    let configs = find(&client, "", "ConfigMap").await;
    let secrets = find(&client, "", "Secret").await;
    let api = |kind| Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, kind);
    let (gadgets, any) = (api(&kind), watcher::Config::default());
    let data = Data {
        client: client.clone(),
        kind: kind.clone(),
        configs: configs.clone(),
        secrets: secrets.clone(),
    };
    let (owner, controlled) = (kind.clone(), kind.clone());
    Controller::new_with(gadgets, any.clone(), controlled)
        .owns_with(api(&configs), configs.clone(), any.clone())
        .watches_with(api(&secrets), secrets.clone(), any, move |secret| {
            let namespace = secret.namespace()?;
            Some(ObjectRef::new_with(&secret.name_any(), owner.clone()).within(&namespace))
        })
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::new(data),
        )
        .for_each(|item| async move {
            match item {
                Ok(_) | Err(Error::ObjectNotFound(_) | Error::QueueError(_)) => {}
                Err(Error::ReconcilerFailed(error, _)) => eprintln!("failed: {error}"),
                Err(Error::RunnerError(error)) => eprintln!("ended: {error}"),
            }
        })
        .await;
}

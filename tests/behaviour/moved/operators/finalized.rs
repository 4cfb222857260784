//! A gadget has a `ConfigMap` that it does not own, and which a finalizer removes. Its content comes
//! from the store of another kind.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    WatchStreamExt,
    controller::{Action, Controller},
    finalizer::{self, Event, finalizer},
    reflector::{self, ObjectRef, Store},
    watcher::{self, watcher},
};
use crate::kinds::Gadget;

struct Data {
    client: Client,
    secrets: Store<Secret>,
}

async fn reconcile(
    gadget: Arc<Gadget>,
    data: Arc<Data>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let namespace = gadget.namespace().unwrap_or_default();
    let gadgets = Api::<Gadget>::namespaced(data.client.clone(), &namespace);
    let configs = Api::<ConfigMap>::namespaced(data.client.clone(), &namespace);
    let client = &data.secrets;
    finalizer(
        &gadgets,
        "test.windlass.dev/moved",
        gadget,
        |event| async move {
            match event {
                Event::Apply(gadget) => apply(&gadget, &configs, client).await,
                Event::Cleanup(gadget) => {
                    let name = format!("{}-kept", gadget.name_any());
                    match configs.delete(&name, &DeleteParams::default()).await {
                        Err(kube::Error::Api(status)) if status.is_not_found() => {}
                        deleted => drop(deleted?),
                    }
                    Ok(Action::await_change())
                }
            }
        },
    )
    .await
}

async fn apply(
    gadget: &Gadget,
    configs: &Api<ConfigMap>,
    secrets: &Store<Secret>,
) -> Result<Action, kube::Error> {
    let namespace = gadget.namespace().unwrap_or_default();
    let secret = secrets.get(&ObjectRef::new("shared").within(&namespace));
    let Some(secret) = secret else {
        return Ok(Action::requeue(Duration::from_millis(50)));
    };
    let name = format!("{}-kept", gadget.name_any());
    let keys: Vec<_> = secret.data.iter().flatten().map(|(key, _)| key).collect();
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "size": gadget.spec.size.to_string(), "keys": format!("{keys:?}") },
    });
    let params = PatchParams::apply("finalized").force();
    configs
        .patch(&name, &params, &Patch::Apply(&config))
        .await?;
    Ok(Action::await_change())
}

pub(crate) async fn run(client: Client, namespace: String) {
    let gadgets = Api::<Gadget>::namespaced(client.clone(), &namespace);
    let secrets = Api::<Secret>::namespaced(client.clone(), &namespace);
    let (reader, writer) = reflector::store();
    let reflected = watcher(secrets, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .for_each(|_| future::ready(()));
    let data = Data {
        client,
        secrets: reader.clone(),
    };
    let controlled = async {
        reader
            .wait_until_ready()
            .await
            .expect("the writer is there");
        Controller::new(gadgets, watcher::Config::default())
            .run(
                reconcile,
                |_, _, _| Action::requeue(Duration::from_millis(200)),
                Arc::new(data),
            )
            .for_each(|_| future::ready(()))
            .await;
    };
    future::select(pin!(reflected), pin!(controlled)).await;
}

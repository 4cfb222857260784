//! Two controllers share the watches of gadgets, `ConfigMap`s and secrets.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    WatchStreamExt,
    controller::{Action, Controller},
    reflector::{self, ObjectRef, ReflectHandle},
    watcher::{self, watcher},
};
use crate::kinds::Gadget;

struct Data {
    client: Client,
    suffix: &'static str,
}

async fn reconcile(gadget: Arc<Gadget>, data: Arc<Data>) -> Result<Action, kube::Error> {
    let namespace = gadget.namespace().unwrap_or_default();
    let name = format!("{}-{}", gadget.name_any(), data.suffix);
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "ownerReferences": gadget.controller_owner_ref(&()).map(|owner| vec![owner]),
        },
        "data": { "size": gadget.spec.size.to_string() },
    });
    let configs = Api::<ConfigMap>::namespaced(data.client.clone(), &namespace);
    let params = PatchParams::apply("shared").force();
    configs
        .patch(&name, &params, &Patch::Apply(&config))
        .await?;
    let gadgets = Api::<Gadget>::namespaced(data.client.clone(), &namespace);
    let secrets = Api::<Secret>::namespaced(data.client.clone(), &namespace);
    let ready = secrets.get_opt(&gadget.name_any()).await?.is_some();
    if gadget.status.as_ref().map(|status| status.ready) != Some(ready) {
        let status = json!({ "status": { "ready": ready } });
        let params = PatchParams::default();
        let patch = Patch::Merge(&status);
        gadgets
            .patch_status(&gadget.name_any(), &params, &patch)
            .await?;
    }
    Ok(Action::await_change())
}

fn error_policy(_: Arc<Gadget>, _: &kube::Error, _: Arc<Data>) -> Action {
    Action::requeue(Duration::from_millis(200))
}

/// The gadget of the same name.
fn same_name<K: Resource<DynamicType = ()>>(other: Arc<K>) -> Option<ObjectRef<Gadget>> {
    let namespace = other.namespace()?;
    Some(ObjectRef::new(&other.name_any()).within(&namespace))
}

/// Three watches: their events, and a handle for each controller.
fn watched<K>(api: Api<K>) -> (impl Future<Output = ()>, [ReflectHandle<K>; 2])
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (_, writer) = reflector::store_shared(64);
    let handle = || writer.subscribe().expect("a shared writer");
    let handles = [handle(), handle()];
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect_shared(writer)
        .for_each(|_| future::ready(()));
    (events, handles)
}

pub(crate) async fn run(client: Client, namespace: String) {
    let (gadgets, [first, second]) = watched(Api::<Gadget>::namespaced(client.clone(), &namespace));
    let (configs, [owned, owned_too]) =
        watched(Api::<ConfigMap>::namespaced(client.clone(), &namespace));
    let (secrets, [named, named_too]) =
        watched(Api::<Secret>::namespaced(client.clone(), &namespace));
    let data = |suffix| {
        let client = client.clone();
        Arc::new(Data { client, suffix })
    };
    let (reader, reader_too) = (first.reader(), second.reader());
    let one = Controller::for_shared_stream(first, reader)
        .owns_shared_stream(owned)
        .watches_shared_stream(named, same_name::<Secret>)
        .run(reconcile, error_policy, data("one"))
        .for_each(|_| future::ready(()));
    let two = Controller::for_shared_stream_with(second, reader_too, ())
        .owns_shared_stream_with(owned_too, ())
        .watches_shared_stream_with(named_too, same_name::<Secret>, ())
        .run(reconcile, error_policy, data("two"))
        .for_each(|_| future::ready(()));
    let watches = future::join3(gadgets, configs, secrets);
    let controllers = future::join(one, two);
    future::select(pin!(watches), pin!(controllers)).await;
}

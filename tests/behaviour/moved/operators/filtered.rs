//! Only changes of the generation of a gadget, and of the labels of what belongs to it, reconcile it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, future};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    Predicate as _, PredicateConfig, WatchStreamExt,
    controller::{Action, Controller},
    predicates,
    reflector::{self, ObjectRef, Store},
    watcher::{self, watcher},
};
use crate::kinds::Gadget;

async fn reconcile(gadget: Arc<Gadget>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let namespace = gadget.namespace().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(Client::clone(&client), &namespace);
    let secret = secrets.get_opt(&gadget.name_any()).await?;
    let color = secret.and_then(|secret| secret.labels().get("color").cloned());
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": gadget.name_any(),
            "labels": { "kept": "true" },
            "ownerReferences": gadget.controller_owner_ref(&()).map(|owner| vec![owner]),
        },
        "data": { "size": gadget.spec.size.to_string(), "color": color.unwrap_or_default() },
    });
    let configs = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace);
    let params = PatchParams::apply("filtered").force();
    configs
        .patch(&gadget.name_any(), &params, &Patch::Apply(&config))
        .await?;
    Ok(Action::await_change())
}

fn error_policy(_: Arc<Gadget>, _: &kube::Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(200))
}

fn same_name(secret: Secret) -> Option<ObjectRef<Gadget>> {
    let namespace = secret.namespace()?;
    Some(ObjectRef::new(&secret.name_any()).within(&namespace))
}

/// The gadgets with `label` whose generation changes, and their store.
fn gadgets(
    api: Api<Gadget>,
    label: &str,
) -> (
    impl Stream<Item = Result<Gadget, watcher::Error>> + use<>,
    Store<Gadget>,
) {
    let (reader, writer) = reflector::store();
    let gadgets = watcher(api, watcher::Config::default().labels(label))
        .default_backoff()
        .modify(|gadget: &mut Gadget| gadget.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());
    (gadgets, reader)
}

fn labelled<K>(api: Api<K>) -> impl Stream<Item = Result<K, watcher::Error>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let label_or_annotation = predicates::labels.combine(predicates::annotations);
    watcher(api, watcher::Config::default())
        .backoff(watcher::DefaultBackoff::default())
        .touched_objects()
        .predicate_filter(label_or_annotation, PredicateConfig::default())
}

pub(crate) async fn run(client: Client, namespace: String) {
    let api = || Api::<Gadget>::namespaced(client.clone(), &namespace);
    let configs = || Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let secrets = || Api::<Secret>::namespaced(client.clone(), &namespace);
    let (small, small_store) = gadgets(api(), "part=small");
    let (large, large_store) = gadgets(api(), "part=large");
    let small = Controller::for_stream(small, small_store)
        .owns_stream(labelled(configs()))
        .watches_stream(labelled(secrets()), same_name)
        .run(reconcile, error_policy, Arc::new(client.clone()))
        .for_each(|_| future::ready(()));
    let large = Controller::for_stream_with(large, large_store, ())
        .owns_stream_with(labelled(configs()), ())
        .watches_stream_with(labelled(secrets()), same_name, ())
        .run(reconcile, error_policy, Arc::new(client.clone()))
        .for_each(|_| future::ready(()));
    future::join(pin!(small), pin!(large)).await;
}

//! Kinds that are known only at run time, with a dynamic type of their own.

use std::{borrow::Cow, fmt::Debug, hash::Hash, pin::pin, sync::Arc};

use futures::{Stream, StreamExt as _, future::ready, stream::BoxStream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ApiResource, ObjectMeta},
    core::DynamicResourceScope,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass::runtime::{
    WatchStreamExt as _,
    controller::{Action, Controller},
    reflector::{ObjectRef, store::Writer},
    watcher::{self, watcher},
};

use super::{Polled, Refused, config, create, named};

/// An object of any kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Anything {
    metadata: ObjectMeta,
    #[serde(flatten)]
    content: Map<String, Value>,
}

/// The kind of an [`Anything`]: it has no default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AnyKind(ApiResource);

impl Resource for Anything {
    type DynamicType = AnyKind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &AnyKind) -> Cow<'_, str> {
        (&*kind.0.kind).into()
    }

    fn group(kind: &AnyKind) -> Cow<'_, str> {
        (&*kind.0.group).into()
    }

    fn version(kind: &AnyKind) -> Cow<'_, str> {
        (&*kind.0.version).into()
    }

    fn plural(kind: &AnyKind) -> Cow<'_, str> {
        (&*kind.0.plural).into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The objects of a kind, and its dynamic type.
struct Objects<K: Resource> {
    api: Api<K>,
    kind: K::DynamicType,
}

// === impl Objects ===

impl<K> Objects<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Debug + Eq + Hash + Clone + Unpin + Send + Sync,
{
    /// The objects that a watch shows.
    fn touched(&self) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K> {
        watcher(self.api.clone(), watcher::Config::default())
            .default_backoff()
            .touched_objects()
    }

    fn shared(&self) -> impl Stream<Item = Arc<K>> + Send + use<K> {
        let objects = self.touched();
        objects.filter_map(|object| ready(object.ok().map(Arc::new)))
    }

    /// The object that `other` names.
    fn named_by(kind: K::DynamicType) -> impl Fn(&K) -> Option<ObjectRef<K>> {
        move |other| {
            let (namespace, name) = other.annotations().get(super::NAMED)?.split_once('/')?;
            Some(ObjectRef::new_with(name, kind.clone()).within(namespace))
        }
    }

    /// A controller of lists and watches.
    fn listed(&self, other: &Self) -> Controller<K> {
        let mapper = Self::named_by(self.kind.clone());
        let (api, kind) = (other.api.clone(), other.kind.clone());
        let any = watcher::Config::default;
        Controller::new_with(self.api.clone(), any(), self.kind.clone())
            .owns_with(api.clone(), kind.clone(), any())
            .watches_with(api, kind, any(), move |other| mapper(&other))
    }

    /// A controller of streams.
    fn streamed(&self, other: &Self) -> Controller<K> {
        let writer = Writer::new(self.kind.clone());
        let store = writer.as_reader();
        let objects = watcher(self.api.clone(), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .touched_objects();
        let mapper = Self::named_by(self.kind.clone());
        Controller::for_stream_with(objects, store, self.kind.clone())
            .owns_stream_with(other.touched(), other.kind.clone())
            .watches_stream_with(
                other.touched(),
                move |other| mapper(&other),
                other.kind.clone(),
            )
    }

    /// A controller of streams of shared objects.
    fn shared_streams(&self, other: &Self) -> Controller<K> {
        let writer = Writer::new(self.kind.clone());
        let store = writer.as_reader();
        let objects = watcher(self.api.clone(), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .touched_objects()
            .filter_map(|object| ready(object.ok().map(Arc::new)));
        let mapper = Self::named_by(self.kind.clone());
        Controller::for_shared_stream_with(objects, store, self.kind.clone())
            .owns_shared_stream_with(other.shared(), other.kind.clone())
            .watches_shared_stream_with(
                other.shared(),
                move |other| mapper(&other),
                other.kind.clone(),
            )
    }

    /// The names of the reconciled objects, which are in the store of the controller.
    fn run(controller: Controller<K>) -> BoxStream<'static, String> {
        let store = controller.store();
        let items = controller.run(
            |_: Arc<K>, _| ready(Ok::<_, Refused>(Action::await_change())),
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let names = items.filter_map(move |item| {
            let target = item.ok().map(|(target, _)| target);
            ready(target.map(|target| {
                assert!(store.get(&target).is_some(), "{target}");
                target.name
            }))
        });
        names.boxed()
    }
}

fn objects<K>(client: Client, namespace: &str) -> Objects<Anything>
where
    K: Resource<DynamicType = ()>,
{
    let kind = AnyKind(ApiResource::erase::<K>(&()));
    Objects {
        api: Api::namespaced_with(client, namespace, &kind),
        kind,
    }
}

/// Waits until a call for `name` succeeds.
async fn reconciled(polled: &mut Polled<String>, name: &str) {
    while polled.next().await != name {}
}

on_both_servers! {
    /// Each constructor and each relation, with the bounds of the row.
    ///
    /// Rows: KR-10, KR-16, KR-19, KR-35
    async fn a_dynamic_type_of_the_user_is_a_kind(cluster: Cluster) {
        let configs = objects::<ConfigMap>(cluster.client().await, cluster.namespace());
        let secrets = objects::<Secret>(cluster.client().await, cluster.namespace());
        for (form, controller) in [
            ("listed", configs.listed(&secrets)),
            ("streamed", configs.streamed(&secrets)),
            ("shared", configs.shared_streams(&secrets)),
        ] {
            let mut polled = Polled::start(Objects::run(controller));
            let config = create(&cluster.api_aside::<ConfigMap>(), config(form, "1")).await;
            reconciled(&mut polled, form).await;
            let secrets = cluster.api_aside::<Secret>();
            let owner = json!([config.owner_ref(&()).expect("an owner")]);
            let owned = json!({ "metadata": { "name": format!("{form}-owned"), "ownerReferences": owner } });
            create(&secrets, owned).await;
            reconciled(&mut polled, form).await;
            let path = format!("{}/{form}", cluster.namespace());
            create(&secrets, named(&format!("{form}-named"), &path)).await;
            reconciled(&mut polled, form).await;
        }
        let mut touched = pin!(configs.touched());
        let config = touched.next().await.expect("it continues").expect("no error");
        assert_eq!(config.content["data"], json!({ "value": "1" }));
    }
}

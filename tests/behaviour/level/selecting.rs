//! Primary objects that select objects of other kinds by labels, and events that cause no call.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, CustomResourceExt as _, ResourceExt as _, core::Selector};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Controller, Event, GenerationChanged, Informer, ObjectKey, Owners, Watch,
    level::{ControllerBuildError, Informers, Related},
    source::Scripted,
    store::Index,
};

use super::rig::{Rig, build, builder, create, owned_by, patch, secret, watch};
use crate::kinds::{Gadget, GadgetSpec, config, labelled};

/// The labels that a config map selects: its data.
fn selected(config: &ConfigMap) -> Selector {
    let labels = config.data.clone().unwrap_or_default();
    labels.into_iter().collect()
}

/// The keys of the config maps whose selectors match the labels of a secret.
fn selecting(configs: &Informers<ConfigMap>, secret: &Secret) -> Vec<ObjectKey> {
    use kube::core::SelectorExt as _;
    let configs = configs.list_matching(secret.metadata.namespace.as_deref(), &Selector::default());
    let selects = |it: &&std::sync::Arc<ConfigMap>| selected(it).matches(secret.labels());
    configs
        .iter()
        .filter(selects)
        .map(|it| ObjectKey::of(&**it))
        .collect()
}

fn select(name: &str, value: &str) -> ConfigMap {
    let mut config = config(name, "");
    config.data = Some(BTreeMap::from([("app".to_owned(), value.to_owned())]));
    config
}

on_both_servers! {
    async fn an_object_selects_others_by_labels_in_both_directions(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let all = builder.informers();
        let related: Related<ConfigMap, Secret> =
            builder.watches(watch(&cluster).await, move |secret: &Secret| selecting(&all, secret));
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, move |cx| {
            let secrets = related.informers();
            let mine = secrets.list_matching(cx.key().namespace(), &selected(cx.object()));
            let elsewhere = secrets.list_matching(Some("elsewhere"), &selected(cx.object()));
            assert!(elsewhere.is_empty());
            let mut names: Vec<_> = mine.iter().map(|it| it.name_any()).collect();
            names.sort();
            format!("{} {names:?}", cx.key().name())
        });
        let mut rig = Rig::start(controller, receiver);
        create(&configs, select("web", "web")).await;
        assert_eq!(rig.next().await, "web []");
        create(&configs, select("blog", "blog")).await;
        assert_eq!(rig.next().await, "blog []");
        create(&secrets, labelled(secret("a"), "app", "web")).await;
        assert_eq!(rig.next().await, r#"web ["a"]"#);
        create(&secrets, labelled(secret("b"), "app", "web")).await;
        assert_eq!(rig.next().await, r#"web ["a", "b"]"#);
        // Both: the one that it leaves, and the one that it enters.
        patch(&secrets, "a", json!({ "metadata": { "labels": { "app": "blog" } } })).await;
        assert_eq!(rig.several(2).await, [r#"blog ["a"]"#, r#"web ["b"]"#]);
        rig.stop().await;
    }

    /// Rows: BO-11
    async fn an_event_that_the_filter_of_its_watch_rejects_causes_no_call(cluster: Cluster) {
        cluster.install(&Gadget::crd()).await;
        let gadgets = cluster.api_aside::<Gadget>();
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let heavy = |event: &Event<Gadget>| event.object().is_some_and(|it| it.spec.size > 1);
        let watch = watch::<Gadget>(&cluster).await.labels("app=web");
        let owned = builder.owns(watch.filter(GenerationChanged).filter(heavy));
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, move |cx| {
            let sizes: Vec<_> = owned.of(cx).iter().map(|it| it.spec.size).collect();
            format!("{} {sizes:?}", cx.key().name())
        });
        let mut rig = Rig::start(controller, receiver);
        let parent = create(&cluster.api_aside(), config("web", "1")).await;
        assert_eq!(rig.next().await, "web []");
        let gadget = labelled(Gadget::new("a", GadgetSpec { size: 1 }), "app", "web");
        let gadget = owned_by(gadget, &parent);
        // Too small, and then only a status.
        create(&gadgets, gadget).await;
        let status = kube::api::Patch::Merge(json!({ "status": { "ready": true } }));
        gadgets.patch_status("a", &kube::api::PatchParams::default(), &status).await.expect("there");
        patch(&gadgets, "a", json!({ "spec": { "size": 2 } })).await;
        assert_eq!(rig.next().await, "web [2]", "the only call");
        rig.quiet(&cluster.api_aside()).await;
    }

    /// Rows: BO-36
    async fn children_of_another_cluster_are_refused(cluster: Cluster) {
        for is_claimed in [false, true] {
            let mut builder = builder::<ConfigMap>(&cluster).await;
            let (_script, source) = Scripted::<Secret>::new();
            let remote = Watch::from(Informer::new(source)).of_another_cluster();
            if is_claimed {
                let selector = |_: &ConfigMap| k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default();
                drop(builder.claims(remote, selector));
            } else {
                drop(builder.owns(remote));
            }
            let refused = builder.build(async |_: windlass::Context<ConfigMap>| {
                Ok::<_, windlass::Failure>(windlass::Outcome::done())
            });
            let error = refused.expect_err("refused");
            let is_named = matches!(&error, ControllerBuildError::ChildrenOfAnotherCluster { resource } if resource == "secrets");
            assert!(is_named, "{error:?}");
            assert!(error.to_string().contains("with `watches`"), "{error}");
        }
    }

    /// The handle reads all its watches through one index.
    ///
    /// Rows: BO-43
    async fn an_added_watch_has_the_index_of_the_first_one_and_no_filter(cluster: Cluster) {
        let by_name = Index::new(|it: &Secret| [it.name_any()]);
        let mut builder = builder::<ConfigMap>(&cluster).await;
        let first = watch::<Secret>(&cluster).await.index(&by_name);
        let related: Related<ConfigMap, Secret> = builder.watches(first, |_: &Secret| None);
        let informers = related.informers().clone();
        let (sender, receiver) = mpsc::channel(64);
        let controller = build(builder, sender, move |_| {
            let found = related.informers().by(&by_name, "far").expect("declared for both watches");
            found.len().to_string()
        });
        let mut rig = Rig::start(controller, receiver);
        let filtered = Watch::<Secret>::all().filter(GenerationChanged);
        let refused = informers.add(filtered).expect_err("it would have no effect");
        let is_named = matches!(&refused, ControllerBuildError::FilterOfAddedWatch { kind } if kind == "Secret");
        assert!(is_named, "{refused:?}");
        let (script, source) = Scripted::<Secret>::new();
        informers.add(Watch::from(Informer::new(source))).expect("it runs");
        let mut far = secret("far");
        far.metadata.namespace = Some("far".to_owned());
        far.metadata.resource_version = Some("1".to_owned());
        script.list([far]).await.expect("it runs");
        create(&cluster.api_aside(), config("web", "1")).await;
        assert_eq!(rig.next().await, "1");
        rig.stop().await;
    }

    /// One informer of a kind that is known only at run time, for two controllers.
    async fn controllers_share_an_informer_of_a_dynamic_kind(cluster: Cluster) {
        let resource = kube::api::ApiResource::erase::<Secret>(&());
        let api = Api::<kube::api::DynamicObject>::namespaced_with(
            cluster.client().await, cluster.namespace(), &resource,
        );
        let list = windlass::ListWatch::from((api, resource.clone()));
        let informer = Informer::new(crate::watched::quick(list));
        let mut rigs = Vec::new();
        for name in ["one", "two"] {
            let mut builder = builder::<ConfigMap>(&cluster).await.name(name);
            let owners = Owners::of::<ConfigMap>(&());
            let related = builder.watches(Watch::from((informer.clone(), resource.clone())), owners);
            let (sender, receiver) = mpsc::channel(64);
            let controller: Controller<ConfigMap> = build(builder, sender, move |cx| {
                format!("{name} {} {}", cx.key().name(), related.informers().len())
            });
            rigs.push(Rig::start(controller, receiver));
        }
        let parent = create(&cluster.api_aside(), config("web", "1")).await;
        for (rig, name) in rigs.iter_mut().zip(["one", "two"]) {
            let first = rig.next().await;
            assert!(first.starts_with(&format!("{name} web ")), "{first}");
        }
        create(&cluster.api_aside(), owned_by(secret("a"), &parent)).await;
        for (rig, name) in rigs.iter_mut().zip(["one", "two"]) {
            assert!(rig.next().await.starts_with(&format!("{name} web ")));
        }
        for rig in rigs {
            rig.stop().await;
        }
    }
}

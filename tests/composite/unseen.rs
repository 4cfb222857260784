//! Children that the watch of the controller does not show, and names of the controller.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    ControllerBuilder, Watch,
    composite::{ChildConfig, CompositeController},
    kit::{self, Kit, KitOperator},
};

use crate::support::{Scripted, Site, child, desired, site};

/// Starts a controller with this configuration of its children.
fn start(
    kit: &Kit,
    config: &ChildConfig,
    configure: fn(ControllerBuilder<Site>) -> ControllerBuilder<Site>,
) -> KitOperator {
    let config = config.clone();
    kit.start(move |client, stop| {
        let config = config.clone();
        async move {
            let controller = CompositeController::builder(client, "sites", Watch::all())
                .child::<ConfigMap>(config)
                .with_controller(|it| configure(it.longest_interval(None)))
                .build(Scripted::new(desired))
                .expect("good settings");
            controller.run(stop).await
        }
    })
}

/// The child of the site, without its label.
async fn remove_label(kit: &Kit) {
    kit.edit::<ConfigMap>("blog", |it| {
        it.labels_mut().remove("app.kubernetes.io/managed-by");
    })
    .await;
}

/// Rows: RO-25, RO-41
#[test]
fn a_replaced_child_comes_back_although_its_watch_did_not_show_it() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let before: ConfigMap = serde_json::from_value(child("blog", "grey")).expect("a map");
        kit.create(&before).await;
        let before = kit.get::<ConfigMap>("blog").await.expect("it exists");
        start(&kit, &ChildConfig::recreate().adopt(), |it| it);
        kit.create(&site("blog", "dark")).await;
        kit.advance(Duration::from_secs(60)).await;
        let map = kit
            .get::<ConfigMap>("blog")
            .await
            .expect("it was created again");
        assert_ne!(map.uid(), before.uid());
        assert_eq!(map.data.expect("data")["theme"], "dark");

        // Another writer removes the label, and the specification changes.
        remove_label(&kit).await;
        kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
            .await;
        kit.advance(Duration::from_secs(60)).await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "light" } }))
            .await;
    });
}

/// Rows: RO-41
#[test]
fn a_child_whose_deletion_the_watch_does_not_show_comes_back() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        start(&kit, &ChildConfig::apply(), |it| it);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        // It is being deleted when the watch loses it.
        kit.edit::<ConfigMap>("blog", |it| {
            it.finalizers_mut()
                .push("test.windlass.dev/keep".to_owned());
        })
        .await;
        kit.delete::<ConfigMap>("blog").await;
        remove_label(&kit).await;
        kit.advance(Duration::from_secs(60)).await;
        kit.edit::<ConfigMap>("blog", |it| it.finalizers_mut().clear())
            .await;
        kit.advance(Duration::from_secs(60)).await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
    });
}

/// Writes the child with this manager, and runs until the end.
async fn write_as(
    client: Client,
    manager: &'static str,
    stop: CancellationToken,
) -> Result<(), kube::Error> {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "data": { "theme": "rewritten" } }));
    maps.patch("blog", &params, &patch).await?;
    stop.cancelled().await;
    Ok(())
}

/// A webhook that changes creates and not updates does so as the manager of the request.
///
/// Rows: RO-11, RO-25
#[test]
fn a_start_replaces_a_child_only_if_another_writer_has_changed_it() {
    for manager in ["sites", "another"] {
        kit::run(async move |kit: Kit| {
            kit.install(&Site::crd()).await;
            let operator = start(&kit, &ChildConfig::recreate(), |it| it);
            kit.create(&site("blog", "dark")).await;
            kit.quiet().await;
            operator.crash();
            let before = kit.get::<ConfigMap>("blog").await.expect("it exists");
            kit.start(move |client, stop| write_as(client, manager, stop));
            kit.expect::<ConfigMap>("blog")
                .matches(json!({ "data": { "theme": "rewritten" } }))
                .await;
            operator.restart();
            kit.advance(Duration::from_secs(60)).await;
            let after = kit.get::<ConfigMap>("blog").await.expect("it exists");
            assert_eq!(after.uid() == before.uid(), manager == "sites", "{manager}");
            kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
                .await;
            kit.expect::<ConfigMap>("blog")
                .matches(json!({ "data": { "theme": "light" } }))
                .await;
        });
    }
}

/// Rows: RO-26
#[test]
fn children_are_watched_under_the_field_manager_of_the_controller() {
    let configurations: [fn(ControllerBuilder<Site>) -> ControllerBuilder<Site>; 2] =
        [|it| it.field_manager("earlier"), |it| it.name("renamed")];
    for configure in configurations {
        kit::run(async |kit: Kit| {
            kit.install(&Site::crd()).await;
            start(&kit, &ChildConfig::apply(), configure);
            kit.create(&site("blog", "dark")).await;
            kit.expect::<Site>("blog")
                .matches(json!({ "status": { "children": 1 } }))
                .await;
            kit.quiet().await;
            kit.delete::<ConfigMap>("blog").await;
            kit.expect::<ConfigMap>("blog")
                .matches(json!({ "data": { "theme": "dark" } }))
                .await;
        });
    }
}

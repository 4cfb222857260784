//! Objects that are no children, and affect parents.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{CustomResourceExt as _, ResourceExt as _};
use serde_json::json;
use windlass::{
    ObjectKey, Watch,
    composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse},
    kit::{self, Kit},
};

use crate::support::{Scripted, Site, child, site};

/// Rows: RO-15
#[test]
fn a_change_of_a_related_object_calls_the_handler_which_reads_it() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        kit.start(|client, stop| async move {
            let mut builder = CompositeController::builder(client, "sites", Watch::all())
                .child::<ConfigMap>(ChildConfig::apply())
                .with_controller(|it| it.longest_interval(None));
            let named = |site: &Site| {
                let namespace = site.namespace().unwrap_or_default();
                Some(ObjectKey::new(&*site.spec.theme).within(&*namespace))
            };
            let themes = builder.refers_to(Watch::<Secret>::all(), named);
            let limits = builder.watches(Watch::<Secret>::all().labels("limit"), |_: &Secret| {
                Some(ObjectKey::new("blog").within("default"))
            });
            let handler = Scripted::new(move |request: &SyncRequest<Site>| {
                let theme = named(request.parent()).and_then(|key| themes.get(&key));
                let theme = theme.map_or("none", |_| "found").to_owned();
                let mut response = SyncResponse::without_status();
                let text = format!("{theme} {}", limits.list().len());
                response.add_child(child(request.name(), &text))?;
                Ok(response)
            });
            let controller = builder.build(handler).expect("good settings");
            controller.run(stop).await
        });
        let theme = |text: &str| json!({ "data": { "theme": text } });
        kit.create(&site("blog", "dark")).await;
        kit.expect::<ConfigMap>("blog")
            .matches(theme("none 0"))
            .await;
        let secret = |metadata| -> Secret {
            serde_json::from_value(json!({ "metadata": metadata })).expect("a secret")
        };
        kit.create(&secret(json!({ "name": "dark" }))).await;
        kit.expect::<ConfigMap>("blog")
            .matches(theme("found 0"))
            .await;
        let limit = json!({ "name": "x", "labels": { "limit": "7" } });
        kit.create(&secret(limit)).await;
        kit.expect::<ConfigMap>("blog")
            .matches(theme("found 1"))
            .await;
        kit.delete::<Secret>("dark").await;
        kit.expect::<ConfigMap>("blog")
            .matches(theme("none 1"))
            .await;
    });
}

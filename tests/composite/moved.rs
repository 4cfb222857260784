//! A status and children that earlier programs or earlier objects have left.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Context, Controller, Failure, Outcome, Watch,
    composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse},
    kit::{self, Kit},
};

use crate::support::{Site, site};

/// A later version of [`Site`], whose status has no field `children`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "composite.windlass.dev",
    version = "v1",
    kind = "Site",
    root = "LaterSite",
    namespaced,
    status = "LaterStatus"
)]
pub(crate) struct LaterSpec {
    pub(crate) theme: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LaterStatus {
    pub(crate) observed_generation: i64,
}

/// The program that wrote the status before, with updates.
async fn earlier(client: Client, stop: CancellationToken) -> Result<(), kube::Error> {
    let sites = Api::<Site>::default_namespaced(client);
    let status = Patch::Merge(json!({ "status": { "children": 7, "observedGeneration": 1 } }));
    let params = PatchParams {
        field_manager: Some("earlier".to_owned()),
        ..PatchParams::default()
    };
    sites.patch_status("blog", &params, &status).await?;
    stop.cancelled().await;
    Ok(())
}

/// `docs/from-roperator.md`.
#[test]
fn a_field_of_the_status_of_an_earlier_program_is_removed_if_it_is_migrated() {
    for migrates in [false, true] {
        kit::run(async move |kit: Kit| {
            kit.install(&Site::crd()).await;
            kit.create(&site("blog", "dark")).await;
            kit.start(earlier);
            kit.expect::<Site>("blog")
                .matches(json!({ "status": { "children": 7 } }))
                .await;
            kit.start(move |client, stop| async move {
                let controller = CompositeController::builder(client, "sites", Watch::all())
                    .child::<ConfigMap>(ChildConfig::apply())
                    .with_controller(|it| {
                        let it = it.longest_interval(None);
                        if migrates {
                            it.migrate_status_from("earlier")
                        } else {
                            it
                        }
                    })
                    .build(|_: &SyncRequest<Site>| Ok::<_, Failure>(SyncResponse::new(json!({}))))
                    .expect("good settings");
                controller.run(stop).await
            });
            kit.advance(Duration::from_secs(60)).await;
            let site = kit.get::<Site>("blog").await.expect("it exists");
            let status = site.status.expect("a status");
            assert_eq!(status.observed_generation, Some(1));
            assert_eq!(status.children, if migrates { None } else { Some(7) });

            // Nothing is repeated.
            let since = kit.mark();
            kit.edit::<Site>("blog", |it| {
                it.annotations_mut().insert("a".to_owned(), "b".to_owned());
            })
            .await;
            kit.advance(Duration::from_secs(60)).await;
            let is_ours = |it: &kit::Write| it.manager == "sites";
            assert_eq!(kit.writes(since).iter().filter(|it| is_ours(it)).count(), 0);
        });
    }
}

#[test]
fn a_field_that_the_type_of_the_status_no_longer_has_is_removed() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        kit.create(&site("blog", "dark")).await;
        let program = |is_later: bool| {
            move |client: Client, stop: CancellationToken| async move {
                let builder = Controller::<LaterSite>::builder(client, Watch::all()).name("sites");
                let controller = builder.build(move |cx: Context<LaterSite>| async move {
                    let mut status = json!({ "observedGeneration": 1 });
                    if !is_later {
                        status["children"] = json!(7);
                    }
                    cx.write_status(status).await?;
                    Ok::<_, Failure>(Outcome::done())
                });
                controller.expect("good settings").run(stop).await
            }
        };
        let first = kit.start(program(false));
        kit.quiet().await;
        first.crash();
        let status = async || kit.get::<Site>("blog").await.expect("it exists").status;
        assert_eq!(status().await.expect("a status").children, Some(7));

        let since = kit.mark();
        kit.start(program(true));
        kit.quiet().await;
        assert_eq!(status().await.expect("a status").children, None);
        assert_eq!(kit.writes(since).len(), 1);
    });
}

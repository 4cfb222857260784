//! Dependents under crashes and other writers: a website has a secret, and pages that are updated one
//! at a time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, CustomResourceExt as _, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    kit::{self, Kit, Verb},
    level::Dependents,
    prelude::*,
};

use super::website::{Error, Website, website};

/// The annotation with the version that another program has loaded.
const LOADED: &str = "kit.windlass.dev/loaded";

struct Websites {
    secrets: Owned<Website, Secret>,
    pages: Owned<Website, ConfigMap>,
}

impl Websites {
    fn plan(&self, website: &Website) -> Dependents<Website> {
        let mut plan = Dependents::new();
        let secret = plan.add(self.secrets.dependent(Desired::json(json!({}))));
        let version = website.spec.replicas.to_string();
        let pages = (0..3).map(|index| {
            let page = json!({ "data": { "version": version } });
            Desired::json(page).named(format!("page-{index}"))
        });
        let is_loaded = |page: &ConfigMap| {
            let version = page.data.as_ref().and_then(|data| data.get("version"));
            page.annotations().get(LOADED) == version
        };
        plan.add(self.pages.rolling(pages).after([secret]).ready(is_loaded));
        plan
    }
}

impl ObjectReconciler<Website> for Websites {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        self.plan(cx.object()).apply(&cx).await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Website>) -> Result<Outcome, Failure> {
        self.plan(cx.object()).delete(&cx).await
    }
}

async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let mut websites = Controller::<Website>::builder(client, Watch::namespaced("default"));
    let secrets = websites.owns(Watch::namespaced("default"));
    let pages = websites.owns(Watch::namespaced("default"));
    let websites = websites.finalizer("kit.windlass.dev/website");
    let websites = websites.build(Websites { secrets, pages })?;
    Ok(websites.run(stop).await?)
}

/// The other program loads a page.
async fn load(kit: &Kit, index: u32) {
    kit.edit::<ConfigMap>(&format!("page-{index}"), |page| {
        let version = page.data.as_ref().map(|data| data["version"].clone());
        let annotations = page.annotations_mut();
        annotations.insert(LOADED.to_owned(), version.unwrap_or_default());
    })
    .await;
    kit.quiet().await;
}

/// The versions of the pages that exist.
async fn versions(kit: &Kit) -> String {
    let pages = kit.list::<ConfigMap>().await;
    let versions = pages
        .into_iter()
        .filter_map(|page| page.data?.remove("version"));
    versions.collect::<Vec<_>>().join(" ")
}

/// Rows: BO-38, BO-41
#[test]
fn a_crash_or_another_writer_changes_neither_the_order_nor_the_limit() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        let operator = kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        for index in 0..3 {
            load(&kit, index).await;
        }
        assert_eq!(versions(&kit).await, "1 1 1");

        // A crash before the first update, and a change of a page that is not updated yet.
        let mut held = kit.hold(Verb::Patch, "configmaps");
        kit.edit::<Website>("blog", |it| it.spec.replicas = 2).await;
        held.reached().await;
        operator.crash();
        held.release();
        kit.edit::<ConfigMap>("page-1", |it| {
            it.data = Some([("version".to_owned(), "theirs".to_owned())].into());
            it.annotations_mut()
                .insert(LOADED.to_owned(), "theirs".to_owned());
        })
        .await;
        operator.restart();
        kit.quiet().await;
        assert_eq!(versions(&kit).await, "2 theirs 1");
        operator.crash();
        operator.restart();
        kit.quiet().await;
        assert_eq!(
            versions(&kit).await,
            "2 theirs 1",
            "a restart updates no other page"
        );
        load(&kit, 0).await;
        assert_eq!(versions(&kit).await, "2 2 1");
        // A crash while the last page is updated and not loaded yet.
        load(&kit, 1).await;
        operator.crash();
        operator.restart();
        load(&kit, 2).await;
        assert_eq!(versions(&kit).await, "2 2 2");

        // A crash while a page is being deleted: the secret stays.
        kit.edit::<ConfigMap>("page-1", |page| {
            page.finalizers_mut()
                .push("kit.windlass.dev/held".to_owned());
        })
        .await;
        kit.quiet().await;
        let since = kit.mark();
        kit.delete::<Website>("blog").await;
        kit.quiet().await;
        operator.crash();
        operator.restart();
        kit.quiet().await;
        assert_eq!(versions(&kit).await, "2");
        assert!(kit.get::<Secret>("blog").await.is_some());
        kit.edit::<ConfigMap>("page-1", |page| page.finalizers_mut().clear())
            .await;
        kit.expect_gone::<Website>("blog").await;
        let writes = kit.writes(since);
        let mut deletes = writes.iter().filter(|it| it.verb == "delete");
        let last = deletes.next_back().map(|it| it.resource.clone());
        assert_eq!(last.as_deref(), Some("secrets"), "{writes:?}");
        assert!(kit.get::<Secret>("blog").await.is_none());
    });
}

/// Rows: BO-38
#[test]
fn a_clean_up_continues_after_another_writer_has_removed_the_finalizer() {
    kit::run(async |kit: Kit| {
        kit.install(&Website::crd()).await;
        kit.start(run);
        kit.create(&website("blog", 1)).await;
        kit.quiet().await;
        kit.edit::<ConfigMap>("page-1", |page| {
            page.finalizers_mut()
                .push("kit.windlass.dev/held".to_owned());
        })
        .await;
        kit.quiet().await;
        let since = kit.mark();
        kit.edit::<Website>("blog", |it| it.finalizers_mut().clear())
            .await;
        kit.delete::<Website>("blog").await;
        kit.advance(Duration::from_secs(25)).await;
        let calls = kit.calls(since).of("default/blog");
        let last = calls.last().expect("a clean-up");
        assert_eq!(last.requeued, Some(Duration::from_secs(10)), "{calls:?}");
        kit.edit::<ConfigMap>("page-1", |page| page.finalizers_mut().clear())
            .await;
        kit.advance(Duration::from_secs(25)).await;
        let calls = kit.calls(since).of("default/blog");
        let last = calls.last().expect("a clean-up");
        assert_eq!((last.requeued, &last.error), (None, &None), "{calls:?}");
    });
}

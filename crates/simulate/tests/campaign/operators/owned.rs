//! `Controller` with owned children: the status comes from them.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;
use windlass_controller::{
    Context, Controller, Desired, Failure, ObjectReconciler, Outcome, Owned, Watch,
};
use windlass_simulate::{External, Process};

use super::{Bug, Ended, level::observe};
use crate::site::{Site, SiteStatus};

/// Keeps a page, and a menu if the page is not short, for each site, and publishes its host name.
struct Pages {
    configs: Owned<Site, ConfigMap>,
    external: External,
    bug: Option<Bug>,
}

impl ObjectReconciler<Site> for Pages {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        let site = cx.object();
        let host = format!("dns {}", site.spec.host);
        let uid = site.uid().unwrap_or_default();
        self.external.put(&host, uid).await?;
        if self.bug == Some(Bug::PrunesFirst) {
            self.configs.prune(&cx).await?;
        }
        let page = json!({ "data": { "page": site.spec.page } });
        self.configs.apply(&cx, Desired::json(page)).await?;
        if site.spec.page != "short" {
            let menu = json!({ "data": { "entries": site.spec.page.len().to_string() } });
            let menu = Desired::json(menu).named(format!("{}-menu", cx.key().name()));
            self.configs.apply(&cx, menu).await?;
        }
        self.configs.prune(&cx).await?;
        let mut shown: Vec<_> = (self.configs.of(&cx).iter())
            .flat_map(|config| config.data.clone().unwrap_or_default())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        shown.sort();
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: shown.join(" "),
        })
        .await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        let host = format!("dns {}", cx.object().spec.host);
        // A new site can have published the same host name before the clean-up is repeated.
        if self.external.get(&host).await == cx.object().uid() {
            self.external.remove(&host).await?;
        }
        Ok(Outcome::done())
    }
}

pub(crate) async fn owned_children(process: Process, bug: Option<Bug>) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::all());
    let pages = Pages {
        configs: sites.owns(Watch::all()),
        external: process.external(),
        bug,
    };
    let configs = pages.configs.informers().clone();
    let sites = sites.finalizer("simulate.windlass.dev/level");
    let sites = sites.build(process.handler("pages", pages))?;
    observe(&process, sites.informers());
    observe(&process, &configs);
    Ok(sites.run(process.stop()).await?)
}

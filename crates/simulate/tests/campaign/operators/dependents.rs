//! `Controller` with dependents: the menu of a site depends on its part, another site, which depends on
//! its page. Two banners are updated one at a time.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use windlass_controller::{
    Context, Controller, Dependents, Desired, Failure, ObjectReconciler, Outcome, Owned, Watch,
};
use windlass_simulate::{EndState, Process};

use super::{
    Ended, PARENT,
    level::{each_site_shows, entries, observe},
};
use crate::site::{NAMESPACE, Site, SiteStatus};

struct Menus {
    configs: Owned<Site, ConfigMap>,
    banners: Owned<Site, Secret>,
    parts: Owned<Site, Site>,
}

// === impl Menus ===

impl Menus {
    fn plan(&self, site: &Site) -> Dependents<Site> {
        let (name, page) = (site.metadata.name.as_deref(), &site.spec.page);
        let name = name.unwrap_or_default();
        let mut plan = Dependents::new();
        let config = Desired::json(json!({ "data": { "page": page } }));
        let config = plan.add(self.configs.dependent(config));
        let part = json!({ "spec": {
            "host": format!("part.{}", site.spec.host), "page": format!("part of {page}"),
        } });
        let part = self
            .parts
            .dependent(Desired::json(part).named(format!("{name}-part")));
        // The part is a site of this operator.
        let is_shown = |part: &Site| {
            let status = part.status.as_ref();
            status.is_some_and(|it| it.published.contains(&part.spec.page))
        };
        let part = plan.add(
            part.after([config])
                .when(page.starts_with(PARENT))
                .ready(is_shown),
        );
        let menu = json!({ "data": { "entries": page.len().to_string() } });
        let menu = Desired::json(menu).named(format!("{name}-menu"));
        plan.add(self.configs.dependent(menu).after([part]));
        let banners = (0..2).map(|index| {
            let banner = json!({ "stringData": { "page": page } });
            Desired::json(banner).named(format!("{name}-banner-{index}"))
        });
        plan.add(self.banners.rolling(banners).after([config]));
        plan
    }
}

impl ObjectReconciler<Site> for Menus {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        self.plan(cx.object()).apply(&cx).await?;
        let configs = self.configs.of(&cx);
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: entries(configs.iter().map(|config| &**config)),
        })
        .await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        self.plan(cx.object()).delete(&cx).await
    }
}

pub(crate) async fn dependents(process: Process) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::namespaced(NAMESPACE));
    let menus = Menus {
        configs: sites.owns(Watch::namespaced(NAMESPACE)),
        banners: sites.owns(Watch::namespaced(NAMESPACE)),
        parts: sites.owns(Watch::namespaced(NAMESPACE)),
    };
    let configs = menus.configs.informers().clone();
    let banners = menus.banners.informers().clone();
    let parts = menus.parts.informers().clone();
    let sites = sites
        .finalizer("simulate.windlass.dev/level")
        .build(process.handler("menus", menus))?;
    observe(&process, sites.informers());
    observe(&process, &configs);
    observe(&process, &banners);
    observe(&process, &parts);
    Ok(sites.run(process.stop()).await?)
}

/// Each site shows its page, and a parent its menu.
pub(crate) fn each_parent_has_a_menu(end: &EndState) -> Result<(), String> {
    each_site_shows(end, |_, page| {
        let menu = format!("entries={} ", page.len());
        let menu = if page.starts_with(PARENT) {
            menu
        } else {
            String::new()
        };
        format!("{menu}page={page}")
    })
}

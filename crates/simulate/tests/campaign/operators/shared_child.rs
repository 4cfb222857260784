//! `Controller` with one object that belongs to several primary objects: a menu of all sites.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, api::PostParams};
use windlass_controller::{
    Context, Controller, Failure, Informers, ObjectReconciler, Outcome, Related, Watch,
};
use windlass_informer::ObjectKey;
use windlass_simulate::{EndState, External, Process};

use super::{
    Ended,
    level::{each_site_shows, entries, observe},
};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// The config map with an entry for each site.
const MENU: &str = "menu";

/// Writes the page of each site into the menu, and the entries of the other sites into its status.
struct Menu {
    menus: Related<Site, ConfigMap>,
    external: External,
}

// === impl Menu ===

impl Menu {
    /// The entries of the other sites, as the call has them before it writes.
    fn others(&self, cx: &Context<Site>) -> String {
        let menu = self.menus.get(cx, &ObjectKey::new(MENU).within(NAMESPACE));
        let mut menu = menu.map(|menu| ConfigMap::clone(&menu)).unwrap_or_default();
        menu.data.get_or_insert_default().remove(cx.key().name());
        entries([&menu])
    }

    /// Writes the entry of the site of `cx`: reads the menu, and replaces the version that was read,
    /// also if nothing has changed.
    async fn write(&self, cx: &Context<Site>, page: Option<&str>) -> Result<(), Failure> {
        let configs = Api::<ConfigMap>::namespaced(cx.client(), NAMESPACE);
        let stored = configs.get_opt(MENU).await?;
        let is_new = stored.is_none();
        let mut menu = stored.unwrap_or_default();
        menu.metadata.name = Some(MENU.to_owned());
        let data = menu.data.get_or_insert_default();
        match page {
            Some(page) => data.insert(cx.key().name().to_owned(), page.to_owned()),
            None => data.remove(cx.key().name()),
        };
        let params = PostParams::default();
        if is_new {
            configs.create(&params, &menu).await?;
        } else {
            configs.replace(MENU, &params, &menu).await?;
        }
        Ok(())
    }
}

impl ObjectReconciler<Site> for Menu {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        let others = self.others(&cx);
        let host = format!("dns {}", cx.object().spec.host);
        let uid = cx.object().uid().unwrap_or_default();
        self.external.put(&host, uid).await?;
        self.write(&cx, Some(&cx.object().spec.page)).await?;
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: others,
        })
        .await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        self.write(&cx, None).await?;
        let host = format!("dns {}", cx.object().spec.host);
        // A new site can have published the same host name before the clean-up is repeated.
        if self.external.get(&host).await == cx.object().uid() {
            self.external.remove(&host).await?;
        }
        Ok(Outcome::done())
    }
}

pub(crate) async fn shared_child(process: Process) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::all());
    let primaries: Arc<OnceLock<Informers<Site>>> = Arc::default();
    let all = Arc::clone(&primaries);
    // The menu affects each site.
    let every_site = move |_: &ConfigMap| {
        let sites = all.get().map(Informers::list).unwrap_or_default();
        sites
            .iter()
            .map(|site| ObjectKey::of(&**site))
            .collect::<Vec<_>>()
    };
    let menus = sites.watches(Watch::<ConfigMap>::all(), every_site);
    let informers = menus.informers().clone();
    let menu = Menu {
        menus,
        external: process.external(),
    };
    let sites = sites
        .finalizer("simulate.windlass.dev/level")
        .build(process.handler("menu", menu))?;
    _ = primaries.set(sites.informers().clone());
    observe(&process, sites.informers());
    observe(&process, &informers);
    Ok(sites.run(process.stop()).await?)
}

/// Each site shows the pages of the other sites.
pub(crate) fn each_site_shows_the_others(end: &EndState) -> Result<(), String> {
    let mut pages = Vec::new();
    for site in end.objects("sites.simulate.windlass.dev") {
        let text = |path: &str| site.pointer(path).and_then(|it| it.as_str()).unwrap_or("");
        pages.push((text("/metadata/name"), text("/spec/page")));
    }
    pages.sort_unstable();
    each_site_shows(end, |name, _| {
        let others = pages.iter().filter(|(other, _)| *other != name);
        let others: Vec<_> = others
            .map(|(name, page)| format!("{name}={page}"))
            .collect();
        others.join(" ")
    })
}

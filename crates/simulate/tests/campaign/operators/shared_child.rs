//! `Controller` with one object that belongs to several primary objects: a menu of all sites.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_controller::{
    Context, Controller, Failure, Informers, ObjectReconciler, Outcome, Related, Watch,
};
use windlass_informer::ObjectKey;
use windlass_simulate::Process;

use super::{Ended, level::observe};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// The config map with an entry for each site.
const MENU: &str = "menu";

/// Writes the page of each site into the menu, and the whole menu into the status of each site.
struct Menu {
    menus: Related<Site, ConfigMap>,
}

// === impl Menu ===

impl Menu {
    /// Applies the entry of the site of `cx`, as its own field manager, unless the menu has it.
    async fn apply(&self, cx: &Context<Site>, page: Option<&str>) -> Result<(), Failure> {
        let name = cx.key().name();
        let menu = self.menus.get(cx, &ObjectKey::new(MENU).within(NAMESPACE));
        let entry = menu.as_ref().and_then(|menu| menu.data.as_ref()?.get(name));
        if entry.map(String::as_str) == page {
            return Ok(());
        }
        let data = page.map_or_else(|| json!({}), |page| json!({ name: page }));
        let mut metadata = json!({ "name": MENU });
        if let Some(version) = menu.and_then(|menu| menu.resource_version()) {
            metadata["resourceVersion"] = version.into();
        }
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data,
        });
        let configs = Api::<ConfigMap>::namespaced(cx.client(), NAMESPACE);
        let params = PatchParams::apply(name).force();
        configs.patch(MENU, &params, &Patch::Apply(body)).await?;
        Ok(())
    }
}

impl ObjectReconciler<Site> for Menu {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        self.apply(&cx, Some(&cx.object().spec.page)).await?;
        let menu = self.menus.get(&cx, &ObjectKey::new(MENU).within(NAMESPACE));
        let data = menu.and_then(|menu| menu.data.clone()).unwrap_or_default();
        let shown: Vec<_> = data
            .iter()
            .map(|(name, page)| format!("{name}={page}"))
            .collect();
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: shown.join(" "),
        })
        .await?;
        Ok(Outcome::done())
    }

    async fn cleanup(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        self.apply(&cx, None).await?;
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
    let sites = sites.finalizer("simulate.windlass.dev/level");
    let sites = sites.build(process.handler("menu", Menu { menus }))?;
    _ = primaries.set(sites.informers().clone());
    observe(&process, sites.informers());
    observe(&process, &informers);
    Ok(sites.run(process.stop()).await?)
}

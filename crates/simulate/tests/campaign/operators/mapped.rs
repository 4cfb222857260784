//! A reconciler that is triggered by changes of another kind: a mapper returns the site of a config map.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_controller::{Action, Failure, InformerController, Outcome, Request, SameName};
use windlass_informer::{Informer, ObjectKey};
use windlass_simulate::Process;

use super::{Ended, informer};
use crate::site::{NAMESPACE, Site};

/// Copies the page of the config map with the site's name into the site's status.
pub(crate) async fn mapped(process: Process) -> Ended {
    let sites = informer(&process);
    let configs = Informer::new(Api::<ConfigMap>::namespaced(process.client(), NAMESPACE));
    process.observe(&configs);
    let controller = InformerController::builder().name("mapped").build()?;
    let sites_kind = controller.kind("sites")?;
    controller.add_informer(&sites_kind, &sites)?;
    let configs_kind = controller.kind("configs")?;
    controller.add_informer(&configs_kind, &configs)?;
    controller.add_mapper(&configs_kind, &sites_kind, SameName)?;
    let client = process.client();
    let copy = move |request: Request<Site>| {
        let (client, configs) = (client.clone(), configs.store());
        async move {
            if request.action() == Action::Deleted {
                return Ok(Outcome::done());
            }
            let site = request.object();
            let config = configs.get(&ObjectKey::of(&**site));
            let page = config
                .as_ref()
                .and_then(|config| config.data.as_ref()?.get("page"));
            let page = page.map_or("nothing", String::as_str);
            let shown = site.status.as_ref().map(|it| it.published.as_str());
            let generation = site.metadata.generation.unwrap_or_default();
            let observed = site.status.as_ref().map(|it| it.observed_generation);
            if shown != Some(page) || observed != Some(generation) {
                let status = json!({ "status": {
                    "published": page,
                    "observedGeneration": generation,
                } });
                let sites: Api<Site> = Api::namespaced(client, NAMESPACE);
                let patch = Patch::Merge(status);
                sites
                    .patch_status(&site.name_any(), &PatchParams::default(), &patch)
                    .await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    controller.add_reconciler(&sites_kind, process.handler("copy", copy))?;
    Ok(controller.run(process.stop()).await?)
}

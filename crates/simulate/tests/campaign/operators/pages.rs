//! The operator of docs/testing.md: writes a config map for each site.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Action, Failure, FinalizerName, Finalizers, InformerController, OpinionatedReconciler, Outcome,
    Request,
};
use windlass_informer::Informer;

use super::{Ended, publish::page};
use crate::site::Site;

pub(crate) async fn pages(client: Client, stop: CancellationToken) -> Ended {
    let controller = InformerController::builder().name("pages").build()?;
    let sites = controller.kind("sites")?;
    controller.add_informer(&sites, &Informer::new(Api::<Site>::all(client.clone())))?;
    let name = FinalizerName::new("simulate.windlass.dev/pages")?;
    let finalizers = Finalizers::new(client.clone(), name)?;
    let show = move |request: Request<Site>| {
        let client = client.clone();
        async move {
            if request.action() != Action::Deleted {
                let page = page(request.object());
                let namespace = page.namespace().unwrap_or_default();
                let pages = Api::<ConfigMap>::namespaced(client, &namespace);
                let params = PatchParams::apply("pages").force();
                pages
                    .patch(&page.name_any(), &params, &Patch::Apply(&page))
                    .await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    controller.add_reconciler(&sites, OpinionatedReconciler::new(finalizers, show))?;
    Ok(controller.run(stop).await?)
}

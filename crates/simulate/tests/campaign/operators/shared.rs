//! Two controllers that share one informer: one writes host names, the other writes pages.

use kube::ResourceExt as _;
use windlass_controller::{
    Action, Failure, InformerController, OpinionatedReconciler, Outcome, Request,
};
use windlass_operator::Operator;
use windlass_simulate::Process;

use super::{
    Ended, finalizers, informer,
    publish::{Publish, page},
};
use crate::site::Site;

pub(crate) async fn shared_informers(process: Process) -> Ended {
    let sites = informer(&process);
    let publish = Publish::new(&process, process.client(), None);

    let names = InformerController::builder().name("names").build()?;
    let sites_kind = names.kind("sites")?;
    names.add_informer(&sites_kind, &sites)?;
    let external = process.external();
    let name = move |request: Request<Site>| {
        let external = external.clone();
        async move {
            let site = request.object();
            // The uid, not the name: a failed clean-up can be retried after a new object with the
            // same name was published.
            let host = site.uid().unwrap_or_default();
            if request.action() == Action::Deleted {
                external.remove(&host).await?;
            } else {
                external.put(&host, site.spec.page.clone()).await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    let name = process.handler("name", name);
    let name = OpinionatedReconciler::new(finalizers(&process, "names"), name);
    names.add_reconciler(&sites_kind, name)?;

    let pages = InformerController::builder().name("pages").build()?;
    let sites_kind = pages.kind("sites")?;
    pages.add_informer(&sites_kind, &sites)?;
    let show = move |request: Request<Site>| {
        let publish = publish.clone();
        async move {
            if request.action() != Action::Deleted {
                let site = request.object();
                publish.ensure(site, page(site)).await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    let show = process.handler("page", show);
    let show = OpinionatedReconciler::new(finalizers(&process, "pages"), show);
    pages.add_reconciler(&sites_kind, show)?;

    let operator = Operator::new();
    operator.add_controller(names)?;
    operator.add_controller(pages)?;
    Ok(operator.run_until(process.stop()).await?)
}

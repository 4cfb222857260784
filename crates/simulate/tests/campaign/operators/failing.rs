//! `Controller` whose calls write and then fail, for as long as the page of a site is broken.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_controller::{
    Context, Controller, Failure, ObjectReconciler, Outcome, Related, SameName, Watch,
};
use windlass_simulate::Process;

use super::{Ended, level::observe};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// The page of a site whose calls fail.
pub(crate) const BROKEN: &str = "broken";

/// Writes the number of calls into the account of each site.
struct Accounts {
    accounts: Related<Site, ServiceAccount>,
}

impl ObjectReconciler<Site> for Accounts {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        let name = cx.key().name();
        let known = self.accounts.get(&cx, cx.key());
        let calls = known.and_then(|it| it.annotations().get("calls")?.parse().ok());
        let calls = calls.unwrap_or(0_u64) + 1;
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": name, "annotations": { "calls": calls.to_string() } },
        });
        let accounts = Api::<ServiceAccount>::namespaced(cx.client(), NAMESPACE);
        let is_broken = cx.object().spec.page == BROKEN;
        // Without the version as a precondition, so that an event is not proven to be only this write.
        if is_broken || calls == 1 {
            let params = PatchParams::apply("sites").force();
            accounts
                .patch(name, &params, &Patch::Apply(account))
                .await?;
        }
        if is_broken {
            return Err(Failure::new("the page is broken"));
        }
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: cx.object().spec.page.clone(),
        })
        .await?;
        Ok(Outcome::done())
    }
}

pub(crate) async fn always_failing(process: Process) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::all());
    let accounts = sites.watches(Watch::<ServiceAccount>::all(), SameName);
    let informers = accounts.informers().clone();
    let sites = sites.on_error(|_| {});
    let sites = sites.build(process.handler("accounts", Accounts { accounts }))?;
    observe(&process, sites.informers());
    observe(&process, &informers);
    Ok(sites.run(process.stop()).await?)
}

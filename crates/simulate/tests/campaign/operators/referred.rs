//! `Controller` with a reference: the spec of a site names a secret, whose page it shows.

use k8s_openapi::api::core::v1::Secret;
use windlass_controller::{Context, Controller, Failure, Outcome, Watch};
use windlass_informer::ObjectKey;
use windlass_simulate::Process;

use super::{Ended, level::observe};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// Copies the page of the secret that the spec names into the status.
pub(crate) async fn referred_secret(process: Process) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::all());
    let named = |site: &Site| Some(ObjectKey::new(site.spec.page.as_str()).within(NAMESPACE));
    let secrets = sites.refers_to(Watch::<Secret>::all(), named);
    let informers = secrets.informers().clone();
    let copy = move |cx: Context<Site>| {
        let secret = secrets.one(&cx);
        async move {
            let page = secret
                .as_ref()
                .and_then(|secret| secret.data.as_ref()?.get("page"));
            let page = page.map_or("nothing".into(), |page| String::from_utf8_lossy(&page.0));
            cx.write_status(SiteStatus {
                observed_generation: cx.generation(),
                published: page.into_owned(),
            })
            .await?;
            Ok::<_, Failure>(Outcome::done())
        }
    };
    let sites = sites.build(process.handler("copy", copy))?;
    observe(&process, sites.informers());
    observe(&process, &informers);
    Ok(sites.run(process.stop()).await?)
}

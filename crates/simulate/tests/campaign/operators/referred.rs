//! `Controller` with a reference: the spec of a site names a secret, whose page it shows.

use std::{num::NonZeroU32, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use windlass_controller::{Context, Controller, Failure, Outcome, Watch};
use windlass_informer::ObjectKey;
use windlass_simulate::{EndState, Process};

use super::{
    Ended,
    level::{each_site_shows, observe},
};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// Copies the page of the secret that the spec names into the status, after a quiet time, and at
/// most twice in ten seconds.
pub(crate) async fn referred_secret(process: Process) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::all());
    let named = |site: &Site| Some(ObjectKey::new(site.spec.page.as_str()).within(NAMESPACE));
    let secrets = sites.refers_to(Watch::<Secret>::all(), named);
    let informers = secrets.informers().clone();
    let copy = move |cx: Context<Site>| {
        let secret = secrets.one(&cx);
        async move {
            cx.write_status(SiteStatus {
                observed_generation: cx.generation(),
                published: secret.as_deref().map_or("nothing".into(), page),
            })
            .await?;
            Ok::<_, Failure>(Outcome::done())
        }
    };
    let two = NonZeroU32::MIN.saturating_add(1);
    let sites = sites
        .debounce(Duration::from_millis(100), Duration::from_secs(1))
        .rate_limit(two, Duration::from_secs(10))
        .build(process.handler("copy", copy))?;
    observe(&process, sites.informers());
    observe(&process, &informers);
    Ok(sites.run(process.stop()).await?)
}

fn page(secret: &Secret) -> String {
    let page = secret.data.as_ref().and_then(|data| data.get("page"));
    page.map_or("nothing".into(), |page| {
        String::from_utf8_lossy(&page.0).into_owned()
    })
}

/// Each site shows the page of the secret that it names.
pub(crate) fn each_site_shows_its_secret(end: &EndState) -> Result<(), String> {
    each_site_shows(end, |_, named| {
        let name = |secret: &&serde_json::Value| secret["metadata"]["name"] == *named;
        let secret = end.objects("secrets").find(name).cloned();
        let secret = secret.and_then(|it| serde_json::from_value::<Secret>(it).ok());
        secret.as_ref().map_or("nothing".into(), page)
    })
}

//! `Controller` with owned children: config maps, a secret with a generated name, and a site of its
//! own. The status comes from the config maps, and a namespace is added while it runs.

use std::{collections::HashSet, future::pending, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ListParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;
use windlass_controller::{
    Context, Controller, Desired, Failure, Informers, ObjectReconciler, Outcome, Owned, Watch,
};
use windlass_informer::ObjectKey;
use windlass_simulate::{EndState, External, Process};

use super::{
    Bug, Ended, OTHER_NAMESPACE,
    level::{each_site_shows, entries, observe},
};
use crate::site::{NAMESPACE, Site, SiteStatus};

/// The page of a site with a part: another site, which it owns.
pub(crate) const PARENT: &str = "parent";

/// When the second namespace is added, after the start.
const GROWS: Duration = Duration::from_secs(3);

/// Longer than the watch lags under any fault: a stale call could create a second secret.
const OWN_WRITES: Duration = Duration::from_secs(600);

/// Keeps a page, and a menu if the page is not short, for each site, and publishes its host name.
struct Pages {
    configs: Owned<Site, ConfigMap>,
    secrets: Owned<Site, Secret>,
    parts: Owned<Site, Site>,
    external: External,
    /// The sites of which a request has failed: its result may be unknown.
    failed: Mutex<HashSet<ObjectKey>>,
    bug: Option<Bug>,
}

// === impl Pages ===

impl Pages {
    async fn apply(&self, cx: &Context<Site>) -> Result<Outcome, Failure> {
        let site = cx.object();
        let host = format!("dns {}", site.spec.host);
        let uid = site.uid().unwrap_or_default();
        self.external.put(&host, uid).await?;
        if self.bug == Some(Bug::PrunesFirst) {
            self.configs.prune(cx).await?;
        }
        let page = json!({ "data": { "page": site.spec.page } });
        self.configs.apply(cx, Desired::json(page)).await?;
        if has_menu(&site.spec.page) {
            let menu = json!({ "data": { "entries": site.spec.page.len().to_string() } });
            let menu = Desired::json(menu).named(format!("{}-menu", cx.key().name()));
            self.configs.apply(cx, menu).await?;
        }
        self.configs.prune(cx).await?;
        if site.spec.page.starts_with(PARENT) {
            let part = json!({ "spec": {
                "host": format!("part.{}", site.spec.host),
                "page": format!("part of {}", site.spec.page),
            } });
            let part = Desired::json(part).named(format!("{}-part", cx.key().name()));
            self.parts.apply(cx, part).await?;
        }
        self.parts.prune(cx).await?;
        if self.secrets.of(cx).is_empty() {
            self.create_secret(cx).await?;
        }
        let configs = self.configs.of(cx);
        cx.write_status(SiteStatus {
            observed_generation: cx.generation(),
            published: entries(configs.iter().map(|config| &**config)),
        })
        .await?;
        Ok(Outcome::done())
    }

    /// Creates a secret with a generated name. A second one would not be noticed as a conflict.
    async fn create_secret(&self, cx: &Context<Site>) -> Result<(), Failure> {
        let mut secret = Secret::default();
        secret.metadata.generate_name = Some(format!("{}-", cx.key().name()));
        let owner = cx.object().controller_owner_ref(&());
        secret.metadata.owner_references = Some(owner.into_iter().collect());
        let namespace = cx.key().namespace().unwrap_or_default();
        let secrets = Api::<Secret>::namespaced(cx.client(), namespace);
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// Reports a stale call although the stores had all own writes, if no request has failed before.
    async fn check_stale(&self, cx: &Context<Site>) -> Result<(), Failure> {
        if self.failed.lock().contains(cx.key()) {
            return Ok(());
        }
        let version = |it: &ConfigMap| (it.uid(), it.resource_version());
        let mut shown: Vec<_> = (self.configs.of(cx).iter()).map(|it| version(it)).collect();
        let namespace = cx.key().namespace().unwrap_or_default();
        let configs = Api::<ConfigMap>::namespaced(cx.client(), namespace);
        let configs = configs.list(&ListParams::default()).await?;
        let is_owned = |it: &&ConfigMap| {
            let mut owners = it.owner_references().iter();
            owners.any(|owner| Some(&owner.uid) == cx.object().meta().uid.as_ref())
        };
        let mut stored: Vec<_> = configs.iter().filter(is_owned).map(version).collect();
        shown.sort();
        stored.sort();
        if shown == stored {
            let violation = format!("violation: a call of {} is stale without a cause", cx.key());
            self.external.put(&violation, "").await?;
        }
        Ok(())
    }
}

impl ObjectReconciler<Site> for Pages {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Site>) -> Result<Outcome, Failure> {
        if cx.is_stale() {
            self.check_stale(&cx).await?;
            return Ok(Outcome::requeue_after(Duration::from_secs(1)));
        }
        let ended = self.apply(&cx).await;
        if ended.is_err() {
            self.failed.lock().insert(cx.key().clone());
        }
        ended
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

fn has_menu(page: &str) -> bool {
    page != "short"
}

/// The informers of the controller.
struct Kinds {
    sites: Informers<Site>,
    configs: Informers<ConfigMap>,
    secrets: Informers<Secret>,
    parts: Informers<Site>,
}

// === impl Kinds ===

impl Kinds {
    fn observe(&self, process: &Process) {
        observe(process, &self.sites);
        observe(process, &self.configs);
        observe(process, &self.secrets);
        observe(process, &self.parts);
    }

    /// Adds the other namespace: the sites last, because their calls read the children.
    async fn grow(&self, process: &Process) -> Ended {
        sleep(GROWS).await;
        self.configs.add(Watch::namespaced(OTHER_NAMESPACE))?;
        self.secrets.add(Watch::namespaced(OTHER_NAMESPACE))?;
        self.parts.add(Watch::namespaced(OTHER_NAMESPACE))?;
        self.sites.add(Watch::namespaced(OTHER_NAMESPACE))?;
        self.observe(process);
        pending().await
    }
}

pub(crate) async fn owned_children(process: Process, bug: Option<Bug>) -> Ended {
    let mut sites = Controller::builder(process.client(), Watch::<Site>::namespaced(NAMESPACE));
    let pages = Pages {
        configs: sites.owns(Watch::namespaced(NAMESPACE)),
        secrets: sites.owns(Watch::namespaced(NAMESPACE)),
        parts: sites.owns(Watch::namespaced(NAMESPACE)),
        external: process.external(),
        failed: Mutex::default(),
        bug,
    };
    let (configs, secrets) = (
        pages.configs.informers().clone(),
        pages.secrets.informers().clone(),
    );
    let parts = pages.parts.informers().clone();
    let sites = sites
        .finalizer("simulate.windlass.dev/level")
        .own_write_timeout(OWN_WRITES)
        .build(process.handler("pages", pages))?;
    let kinds = Kinds {
        sites: sites.informers().clone(),
        configs,
        secrets,
        parts,
    };
    kinds.observe(&process);
    tokio::select! {
        biased;
        ended = sites.run(process.stop()) => Ok(ended?),
        ended = kinds.grow(&process) => ended,
    }
}

/// Each site shows its config maps, and a parent has a part.
pub(crate) fn each_site_has_its_children(end: &EndState) -> Result<(), String> {
    let sites = || end.objects("sites.simulate.windlass.dev");
    let has_part = |site: &&serde_json::Value| {
        let page = site["spec"]["page"].as_str().unwrap_or_default();
        let name = site["metadata"]["name"].as_str().unwrap_or_default();
        let part = format!("part of {page}");
        let is_part = |other: &serde_json::Value| {
            other["metadata"]["name"] == format!("{name}-part") && other["spec"]["page"] == part
        };
        !page.starts_with(PARENT) || sites().any(is_part)
    };
    if let Some(site) = sites().find(|site| !has_part(site)) {
        return Err(format!("{} has no part", site["metadata"]["name"]));
    }
    each_site_shows(end, |_, page| {
        let menu = format!("entries={} ", page.len());
        let menu = if has_menu(page) { menu } else { String::new() };
        format!("{menu}page={page}")
    })
}

//! Keyed resources: a host name outside of the cluster for each site.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc, time::Duration};

use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::{
    sync::RwLock,
    time::{Instant, sleep},
};
use windlass_controller::{Background, Failure, KeyedResource, ResourceController};
use windlass_informer::{Informer, ObjectKey};
use windlass_simulate::{External, Process, SimulatedHandler};

use super::Ended;
use crate::site::Site;

/// Publishes the page of each site under its name.
struct Names {
    sites: Informer<Site>,
    external: External,
    /// Held by upserts, and alone by the removal of what an earlier process has left.
    sweep: RwLock<()>,
}

/// The names that users of the simulation give to sites.
const NAMES: [&str; 3] = ["blog", "shop", "short-lived"];

// === impl Names ===

fn host(key: &ObjectKey) -> String {
    format!("dns {key}")
}

impl KeyedResource for Names {
    type Object = Site;

    fn informer(&self) -> Informer<Site> {
        self.sites.clone()
    }

    async fn upsert(&self, key: &ObjectKey, site: Arc<Site>) -> Result<(), Failure> {
        let _no_sweep = self.sweep.read().await;
        Ok(self.external.put(&host(key), &*site.spec.page).await?)
    }

    async fn delete(&self, key: &ObjectKey, _: Arc<Site>) -> Result<(), Failure> {
        self.external.remove(&host(key)).await?;
        Ok(())
    }

    /// Removes the names of sites that were deleted while no process ran.
    async fn background(&self, scope: Background) {
        if self.sites.synced().await.is_err() {
            return;
        }
        let _no_upserts = self.sweep.write().await;
        for key in NAMES.map(|name| ObjectKey::new(name).within("default")) {
            while !self.sites.store().contains(&key)
                && !scope.stop().is_cancelled()
                && self.external.remove(&host(&key)).await.is_err()
            {
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Keeps a name for each site.
pub(crate) async fn keyed_resource(process: Process) -> Ended {
    let names = Drained {
        names: process.handler("names", names(&process, Duration::from_secs(60))),
        begun: Arc::default(),
    };
    let (sites, begun) = (names.informer(), Arc::clone(&names.begun));
    let controller = ResourceController::new(names)
        .with_name("sites")
        // Calls of different sites wait for each other, so that the queue has entries.
        .with_controller(|settings| settings.concurrency(NonZeroUsize::MIN));
    controller.run(process.stop()).await?;
    if !controller.has_synced() {
        return Ok(());
    }
    // After a graceful stop, each object in the store had a call for this or a newer version.
    let begun = begun.lock().clone();
    for site in sites.store().list() {
        let (key, version) = (ObjectKey::of(&*site).to_string(), version(&site));
        if begun.get(&key).is_none_or(|begun| *begun < version) {
            let name = format!("violation: {key} was not drained");
            process.external().put(&name, version.to_string()).await?;
        }
    }
    Ok(())
}

/// A call that failed six times is repeated after `resync`.
fn names(process: &Process, resync: Duration) -> Names {
    let sites = Informer::builder(Api::<Site>::all(process.client()));
    let sites = sites.resync(resync).build();
    process.observe(&sites);
    Names {
        sites,
        external: process.external(),
        sweep: RwLock::default(),
    }
}

fn version(site: &Site) -> u64 {
    let version = site.resource_version();
    version.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// How long an upsert takes: about as long as the pause between two steps of the users, so that the
/// queue has entries when the process is stopped.
const UPSERT: Duration = Duration::from_millis(700);

/// Notes for which versions calls began.
struct Drained {
    names: SimulatedHandler<Names>,
    begun: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl KeyedResource for Drained {
    type Object = Site;

    fn informer(&self) -> Informer<Site> {
        self.names.informer()
    }

    async fn upsert(&self, key: &ObjectKey, site: Arc<Site>) -> Result<(), Failure> {
        self.begun.lock().insert(key.to_string(), version(&site));
        sleep(UPSERT).await;
        self.names.upsert(key, site).await
    }

    async fn delete(&self, key: &ObjectKey, last: Arc<Site>) -> Result<(), Failure> {
        self.begun.lock().remove(&key.to_string());
        self.names.delete(key, last).await
    }

    async fn background(&self, scope: Background) {
        self.names.background(scope).await;
    }
}

/// A registry that does not answer in the first minute of each process, and counts retries.
struct Overloaded {
    sites: Informer<Site>,
    external: External,
    state: Mutex<Attempts>,
    begun: Instant,
}

#[derive(Default)]
struct Attempts {
    known: BTreeMap<String, u32>,
    retries: Vec<Instant>,
}

/// More retries within one second than the limit of all retries allows: 100 at once and 10 per
/// second, and a few for the rounding of timers.
const TOO_MANY_RETRIES: usize = 118;

impl KeyedResource for Overloaded {
    type Object = Site;

    fn informer(&self) -> Informer<Site> {
        self.sites.clone()
    }

    async fn upsert(&self, key: &ObjectKey, site: Arc<Site>) -> Result<(), Failure> {
        let (now, recent) = (Instant::now(), Duration::from_secs(1));
        let is_overloaded = {
            let mut state = self.state.lock();
            let calls = state.known.entry(key.to_string()).or_default();
            *calls += 1;
            if *calls > 1 {
                state.retries.push(now);
            }
            state.retries.retain(|at| now.duration_since(*at) < recent);
            state.retries.len() > TOO_MANY_RETRIES
        };
        if is_overloaded {
            let name = "violation: too many retries in one second";
            self.external.put(name, "").await?;
        }
        if self.begun.elapsed() < Duration::from_secs(60) {
            return Err(Failure::new("the registry is overloaded"));
        }
        Ok(self.external.put(&host(key), &*site.spec.page).await?)
    }

    async fn delete(&self, key: &ObjectKey, _: Arc<Site>) -> Result<(), Failure> {
        self.external.remove(&host(key)).await?;
        Ok(())
    }
}

/// Keeps a name for each site in a registry that is overloaded.
pub(crate) async fn overloaded(process: Process) -> Ended {
    let Names {
        sites, external, ..
    } = names(&process, Duration::from_secs(600));
    let resource = Overloaded {
        sites,
        external,
        state: Mutex::default(),
        begun: Instant::now(),
    };
    let controller = ResourceController::new(process.handler("names", resource));
    Ok(controller.run(process.stop()).await?)
}

//! A controller of websites: a `KeyedResource`.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client};
use tokio::{sync::RwLock, time::sleep};
use windlass::{
    Failure, Informer, ObjectKey,
    keyed::{Background, KeyedResource, ResourceController},
};

use crate::website::{self, Dns, Website};

pub(crate) struct Websites {
    informer: Informer<Website>,
    client: Client,
    dns: Dns,
    /// Held by upserts, and alone by the removal of leftovers.
    sweep: RwLock<()>,
}

impl KeyedResource for Websites {
    type Object = Website;

    fn informer(&self) -> Informer<Website> {
        self.informer.clone()
    }

    async fn upsert(&self, key: &ObjectKey, site: Arc<Website>) -> Result<(), Failure> {
        let _no_sweep = self.sweep.read().await;
        self.dns
            .set(&website::host(key), &site.spec.address)
            .await?;
        website::apply_deployment(self.client.clone(), &site).await?;
        Ok(())
    }

    async fn delete(&self, key: &ObjectKey, _last: Arc<Website>) -> Result<(), Failure> {
        self.dns.remove(&website::host(key)).await?;
        Ok(())
    }

    /// Removes the records of websites that were deleted while no controller ran.
    async fn background(&self, scope: Background) {
        if self.informer.synced().await.is_err() {
            return;
        }
        let _no_upserts = self.sweep.write().await;
        let sites = self.informer.store().list();
        let is_used = |host: &String| {
            let mut hosts = sites
                .iter()
                .map(|site| website::host(&ObjectKey::of(&**site)));
            hosts.any(|it| it == *host)
        };
        for host in self.dns.records().into_keys() {
            while !is_used(&host)
                && !scope.stop().is_cancelled()
                && self.dns.remove(&host).await.is_err()
            {
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

pub(crate) fn websites(client: Client, dns: Dns) -> ResourceController<Websites> {
    let informer = Informer::new(Api::all(client.clone()));
    let websites = Websites {
        informer,
        client,
        dns,
        sweep: RwLock::default(),
    };
    ResourceController::new(websites).with_name("websites")
}

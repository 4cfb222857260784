//! A program for websites: an `Informer`.

use std::error::Error;

use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use windlass::{Event, Informer, ObjectKey};

use crate::website::{self, Dns, Website};

pub(crate) async fn run(
    client: Client,
    dns: Dns,
    stop: CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let websites = Informer::new(Api::<Website>::all(client.clone()));
    let mut events = websites.subscribe();
    let running = tokio::spawn(websites.run(stop));
    while let Some(event) = events.next().await {
        let Some(site) = event.object() else { continue };
        let is_deleted = matches!(event, Event::Deleted { .. });
        // An error is lost: nothing repeats the work.
        if let Err(error) = publish(&client, &dns, site, is_deleted).await {
            eprintln!("{}: {error}", ObjectKey::of(&**site));
        }
    }
    Ok(running.await??)
}

async fn publish(
    client: &Client,
    dns: &Dns,
    site: &Website,
    is_deleted: bool,
) -> Result<(), website::Error> {
    let host = website::host(&ObjectKey::of(site));
    if is_deleted {
        dns.remove(&host).await?;
        return Ok(());
    }
    dns.set(&host, &site.spec.address).await?;
    website::apply_deployment(client.clone(), site).await?;
    Ok(())
}

//! Windlass.

use std::{convert::Infallible, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Outcome, Request};
use windlass_informer::{HealthState, Informer, ListWatch};

use super::{Following, Lists, Object};
use crate::{Result, seen::Seen};

/// A store, and whoever listens to it, once it is whole.
pub(crate) async fn store<K: Object>(
    client: Client,
    lists: Lists,
    seen: Option<Arc<Seen>>,
) -> Result<Following> {
    let informer = informer::<K>(client, lists);
    if let Some(seen) = seen {
        let mut events = informer.subscribe();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Some(object) = event.object() {
                    seen.object(&**object);
                }
            }
        });
    }
    tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    informer.synced().await;
    informer
        .until(|state| matches!(state, HealthState::Watching))
        .await;
    let again = informer.clone();
    Ok(Following {
        relisted: Box::pin(async move {
            let watches = |state: &HealthState| matches!(state, HealthState::Watching);
            again.until(|state| !watches(state)).await;
            again.until(watches).await;
        }),
        _kept: Box::new(informer),
    })
}

/// A controller with a reconciler that does nothing, once it was called for every object.
pub(crate) async fn controller<K: Object>(
    client: Client,
    lists: Lists,
    seen: Arc<Seen>,
    broken: bool,
) -> Result<Following> {
    let controller = InformerController::new();
    controller.add_informer("healthy", &informer::<K>(client.clone(), lists))?;
    let noop = Arc::clone(&seen);
    controller.add_reconciler("healthy", move |request: Request<K>| {
        noop.object(&**request.object());
        async { Ok::<_, Infallible>(Outcome::done()) }
    })?;
    if broken {
        controller.add_informer("broken", &informer::<Secret>(client, lists))?;
        controller.add_reconciler("broken", |_: Request<Secret>| async {
            Ok::<_, Infallible>(Outcome::done())
        })?;
    }
    tokio::spawn({
        let controller = controller.clone();
        async move { controller.run(CancellationToken::new()).await }
    });
    seen.all().await;
    Ok(Following {
        relisted: Box::pin(std::future::pending()),
        _kept: Box::new(controller),
    })
}

fn informer<K: Object>(client: Client, lists: Lists) -> Informer<K> {
    let source = ListWatch::new(Api::<K>::all(client));
    Informer::builder(source.streamed_lists(lists == Lists::Streamed))
        .on_error(|_| {})
        .build()
}

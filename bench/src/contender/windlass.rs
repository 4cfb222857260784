//! Windlass.

use std::{convert::Infallible, hint::black_box, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Outcome, Request};
use windlass_informer::{HealthState, Informer, ListWatch, RawObject, Source, Stored};

use super::{Following, Keeps, Lists, Object};
use crate::{Result, seen::Seen};

/// Starts an informer with a subscriber, and waits until its store is filled.
pub(crate) async fn store<K: Object>(
    client: Client,
    lists: Lists,
    keeps: Keeps,
    seen: Option<Arc<Seen>>,
) -> Result<Following> {
    let source = source::<K>(client, lists);
    match keeps {
        Keeps::Typed => whole(informer(source), seen, typed).await,
        // The decoded objects are smaller than their JSON.
        Keeps::Own => whole(informer(source.decoded()), seen, typed).await,
        Keeps::Packed | Keeps::Metadata => whole(informer(source.raw()), seen, untouched).await,
        Keeps::Decoded => whole(informer(source.raw()), seen, decoded).await,
    }
}

/// Starts a controller with an empty reconciler, and waits until it was called for every object.
pub(crate) async fn controller<K: Object>(
    client: Client,
    lists: Lists,
    keeps: Keeps,
    seen: Arc<Seen>,
    broken: bool,
) -> Result<Following> {
    // The list of the broken watch never completes, and by default handlers wait for all lists.
    let builder = InformerController::builder().start_before_sync(broken);
    let controller = builder.build()?;
    let healthy = source::<K>(client.clone(), lists);
    match keeps {
        Keeps::Typed => add(&controller, &informer(healthy), &seen, typed)?,
        Keeps::Own => add(&controller, &informer(healthy.decoded()), &seen, typed)?,
        Keeps::Packed => add(&controller, &informer(healthy.raw()), &seen, untouched)?,
        // Decode metadata too, because the handlers of the peers get decoded metadata.
        Keeps::Decoded | Keeps::Metadata => {
            add(&controller, &informer(healthy.raw()), &seen, decoded)?;
        }
    }
    if broken {
        let secrets = source::<Secret>(client, lists);
        let broken_kind = controller.kind("broken")?;
        controller.add_informer(&broken_kind, &informer(secrets))?;
        controller.add_reconciler(&broken_kind, |_: Request<Secret>| async {
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
        read: Box::new(|| {}),
        _kept: Box::new(controller),
    })
}

async fn whole<S: Stored>(
    informer: Informer<S>,
    seen: Option<Arc<Seen>>,
    look: fn(&Seen, &S),
) -> Result<Following> {
    if let Some(seen) = seen {
        let mut events = informer.subscribe();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Some(object) = event.object() {
                    look(&seen, object);
                }
            }
        });
    }
    tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    informer.synced().await?;
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
        read: {
            let store = informer.store();
            let names = store.keys();
            Box::new(move || {
                for name in &names {
                    drop(black_box(store.get(name)));
                }
            })
        },
        _kept: Box::new(informer),
    })
}

fn add<S: Stored>(
    controller: &InformerController,
    informer: &Informer<S>,
    seen: &Arc<Seen>,
    look: fn(&Seen, &S),
) -> Result<()> {
    let healthy = controller.kind("healthy")?;
    controller.add_informer(&healthy, informer)?;
    let seen = Arc::clone(seen);
    controller.add_reconciler(&healthy, move |request: Request<S>| {
        let seen = Arc::clone(&seen);
        async move {
            let object = request.object();
            look(&seen, object);
            seen.or_hang(&**object).await;
            Ok::<_, Infallible>(Outcome::done())
        }
    })?;
    Ok(())
}

fn typed<K: Object>(seen: &Seen, object: &K) {
    seen.object(object);
}

fn untouched<K: Object>(seen: &Seen, object: &RawObject<K>) {
    seen.named(object);
}

fn decoded<K: Object>(seen: &Seen, object: &RawObject<K>) {
    if let Ok(object) = object.get() {
        seen.object(&*object);
    }
}

fn source<K: Object>(client: Client, lists: Lists) -> ListWatch<K> {
    ListWatch::new(Api::<K>::all(client)).streamed_lists(lists == Lists::Streamed)
}

fn informer<S: Stored>(source: impl Source<S>) -> Informer<S> {
    Informer::builder(source).on_error(|_| {}).build()
}

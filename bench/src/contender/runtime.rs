//! kube-runtime.

use std::{
    convert::Infallible, future::ready, hint::black_box, pin::pin, sync::Arc, time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::Action,
        reflector::{self, Lookup as _, ObjectRef},
        watcher,
    },
};
use tokio::sync::watch;

use super::{Following, Lists, Object};
use crate::{Result, seen::Seen};

/// Starts a reflector with a subscriber, and waits until its store is filled.
pub(crate) async fn store<K: Object>(
    client: Client,
    lists: Lists,
    seen: Option<Arc<Seen>>,
) -> Result<Following> {
    let (store, writer) = reflector::store::<K>();
    let (pictures, mut taken) = watch::channel(0_u32);
    let events = watcher(Api::<K>::all(client), config(lists)).default_backoff();
    let events = reflector::reflector(writer, events).inspect(move |event| {
        if let Ok(watcher::Event::InitDone) = event {
            pictures.send_modify(|pictures| *pictures += 1);
        }
    });
    tokio::spawn(async move {
        let mut objects = pin!(events.applied_objects());
        while let Some(object) = objects.next().await {
            if let (Ok(object), Some(seen)) = (object, &seen) {
                seen.object(&object);
            }
        }
    });
    store.wait_until_ready().await?;
    Ok(Following {
        relisted: Box::pin(async move {
            let before = *taken.borrow();
            _ = taken.wait_for(|pictures| *pictures > before.max(1)).await;
        }),
        read: {
            let store = store.clone();
            let names: Vec<_> = store
                .state()
                .iter()
                .map(|it| it.to_object_ref(()))
                .collect();
            Box::new(move || {
                for name in &names {
                    drop(black_box(store.get(name)));
                }
            })
        },
        _kept: Box::new(store),
    })
}

/// Starts a controller with an empty reconciler, and waits until it was called for every object.
pub(crate) async fn controller<K: Object>(
    client: Client,
    lists: Lists,
    seen: Arc<Seen>,
    broken: bool,
) -> Result<Following> {
    let mut controller = Controller::new(Api::<K>::all(client.clone()), config(lists));
    if broken {
        controller = controller.watches(Api::<Secret>::all(client), config(lists), |_| {
            None::<ObjectRef<K>>
        });
    }
    let store = controller.store();
    let noop = |object: Arc<K>, seen: Arc<Seen>| async move {
        seen.object(&*object);
        seen.or_hang(&*object).await;
        Ok::<_, Infallible>(Action::await_change())
    };
    let results = controller.run(
        noop,
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        Arc::clone(&seen),
    );
    tokio::spawn(results.for_each(|_| ready(())));
    seen.all().await;
    Ok(Following {
        relisted: Box::pin(std::future::pending()),
        read: Box::new(|| {}),
        _kept: Box::new(store),
    })
}

fn config(lists: Lists) -> watcher::Config {
    match lists {
        Lists::Paged => watcher::Config::default(),
        Lists::Streamed => watcher::Config::default().streaming_lists(),
    }
}

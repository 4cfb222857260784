//! `Controller<K>` of Windlass.

use std::{convert::Infallible, hint::black_box, sync::Arc};

use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Context, Controller, Outcome, Watch};
use windlass_informer::ListWatch;

use super::{Following, Lists, Object};
use crate::{Result, seen::Seen};

/// Starts a controller with an empty reconciler, and waits until it was called for every object.
pub(crate) async fn controller<K: Object>(
    client: Client,
    lists: Lists,
    seen: Arc<Seen>,
) -> Result<Following> {
    let source = ListWatch::new(Api::<K>::all(client.clone()));
    let watch = Watch::from(source.streamed_lists(lists == Lists::Streamed));
    let counts = Arc::clone(&seen);
    let controller = Controller::builder(client, watch).build(move |cx: Context<K>| {
        let seen = Arc::clone(&counts);
        async move {
            seen.object(&**cx.object());
            seen.or_hang(&**cx.object()).await;
            Ok::<_, Infallible>(Outcome::done())
        }
    })?;
    let controller = Arc::new(controller);
    tokio::spawn({
        let controller = Arc::clone(&controller);
        async move { controller.run(CancellationToken::new()).await }
    });
    seen.all().await;
    let informers = controller.informers().clone();
    let stores = informers.informers().into_iter();
    let names: Vec<_> = stores.flat_map(|it| it.store().keys()).collect();
    Ok(Following {
        relisted: Box::pin(std::future::pending()),
        read: Box::new(move || {
            for name in &names {
                drop(black_box(informers.get(name)));
            }
        }),
        _kept: Box::new(controller),
    })
}

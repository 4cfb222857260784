//! `windlass::runtime`: the program of kube-runtime with other imports.

use std::{convert::Infallible, future::ready, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{Api, Client};
use windlass_runtime::{
    controller::{Action, Controller},
    watcher,
};

use super::{Following, Object};
use crate::{Result, seen::Seen};

/// Starts a controller with an empty reconciler, and waits until it was called for every object. Its
/// lists are always streamed.
pub(crate) async fn controller<K: Object>(client: Client, seen: Arc<Seen>) -> Result<Following> {
    let controller = Controller::new(Api::<K>::all(client), watcher::Config::default());
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

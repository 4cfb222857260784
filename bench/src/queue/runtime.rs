//! The queue of kube-runtime: its `Controller`, with keys from `reconcile_all_on`. The program of
//! `moved.rs` with other imports.

use std::{convert::Infallible, future::ready, sync::Arc};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::{
        controller::{Action, Config, Controller},
        watcher,
    },
};
use tokio::sync::mpsc;

use super::{
    AT_ONCE, Queue,
    handler::{Does, Handler},
    served,
};
use crate::Result;

struct Runtime {
    trigger: mpsc::Sender<()>,
}

pub(super) async fn start(count: usize, handler: Arc<Handler>) -> Result<Box<dyn Queue>> {
    let (trigger, mut triggered) = mpsc::channel::<()>(1);
    let triggers = stream::poll_fn(move |context| triggered.poll_recv(context));
    let configs = Api::<ConfigMap>::all(served::client(count));
    // The server of this benchmark has no other lists.
    let results = Controller::new(configs, watcher::Config::default().streaming_lists())
        .with_config(Config::default().concurrency(AT_ONCE))
        .reconcile_all_on(triggers)
        .run(
            |object: Arc<ConfigMap>, handler: Arc<Handler>| async move {
                let again = handler.call(&object).await;
                Ok::<_, Infallible>(again.map_or_else(Action::await_change, Action::requeue))
            },
            |_, _, _| Action::await_change(),
            Arc::clone(&handler),
        );
    handler.expect(count, Does::Nothing);
    tokio::spawn(results.for_each(|_| ready(())));
    handler.all().await;
    Ok(Box::new(Runtime { trigger }))
}

// === impl Runtime ===

impl Queue for Runtime {
    fn offer_all(&self) -> Result<()> {
        Ok(self.trigger.try_send(())?)
    }
}

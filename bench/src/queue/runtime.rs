//! The queue of kube-runtime: its `Controller`, with keys from `reconcile_all_on`.

use std::{convert::Infallible, sync::Arc};

use futures::{StreamExt as _, future::ready, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{
    controller::{Action, Config, applier},
    reflector::{self, ObjectRef},
    watcher::Event,
};
use tokio::sync::mpsc;

use super::{AT_ONCE, Queue, handler::Handler, object};
use crate::Result;

struct Runtime {
    trigger: mpsc::Sender<()>,
}

pub(super) async fn start(count: usize, handler: Arc<Handler>) -> Result<Box<dyn Queue>> {
    let (store, mut writer) = reflector::store::<ConfigMap>();
    writer.apply_watcher_event(&Event::Init);
    for index in 0..count {
        writer.apply_watcher_event(&Event::InitApply(object(index)));
    }
    writer.apply_watcher_event(&Event::InitDone);
    store.wait_until_ready().await?;

    let (trigger, mut triggered) = mpsc::channel::<()>(1);
    let triggers = stream::poll_fn(move |context| triggered.poll_recv(context));
    let keys = store.clone();
    let queue = triggers.flat_map(move |()| {
        let keys = keys.state().into_iter();
        stream::iter(keys.map(|object| Ok::<_, Infallible>(ObjectRef::from_obj(&*object))))
    });
    let results = applier(
        |object: Arc<ConfigMap>, handler: Arc<Handler>| {
            Box::pin(async move {
                let again = handler.call(&object).await;
                Ok::<_, Infallible>(again.map_or_else(Action::await_change, Action::requeue))
            })
        },
        |_, _, _| Action::await_change(),
        handler,
        store,
        queue,
        Config::default().concurrency(AT_ONCE),
    );
    tokio::spawn(async move {
        // The writer must live as long as the reader.
        let _writer = writer;
        results.for_each(|_| ready(())).await;
    });
    Ok(Box::new(Runtime { trigger }))
}

// === impl Runtime ===

impl Queue for Runtime {
    fn offer_all(&self) -> Result<()> {
        Ok(self.trigger.try_send(())?)
    }
}

//! The queue of `Controller<K>` of Windlass, with keys from a trigger.

use std::{convert::Infallible, num::NonZeroUsize, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_controller::{Context, Controller, Outcome, Trigger, TriggerHandle, Watch};

use super::{
    AT_ONCE, Queue,
    handler::{Does, Handler},
    served,
};
use crate::Result;

struct Level {
    trigger: TriggerHandle,
}

pub(super) async fn start(count: usize, handler: Arc<Handler>) -> Result<Box<dyn Queue>> {
    let (trigger, triggers) = Trigger::handle();
    let mut builder = Controller::<ConfigMap>::builder(served::client(count), Watch::all());
    builder.trigger(triggers);
    let called = Arc::clone(&handler);
    let controller = builder
        .concurrency(NonZeroUsize::new(AT_ONCE.into()).ok_or("no calls at once")?)
        .build(move |cx: Context<ConfigMap>| {
            let handler = Arc::clone(&called);
            async move {
                let again = handler.call(cx.object()).await;
                Ok::<_, Infallible>(again.map_or_else(Outcome::done, Outcome::requeue_after))
            }
        })?;
    handler.expect(count, Does::Nothing);
    tokio::spawn(async move { controller.run(CancellationToken::new()).await });
    handler.all().await;
    Ok(Box::new(Level { trigger }))
}

// === impl Level ===

impl Queue for Level {
    fn offer_all(&self) -> Result<()> {
        self.trigger.reconcile_all();
        Ok(())
    }
}

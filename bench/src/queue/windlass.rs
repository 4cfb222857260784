//! The queue of Windlass.

use std::{convert::Infallible, num::NonZeroUsize, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Kind, Outcome, Request};
use windlass_informer::{Informer, Scripted};

use super::{AT_ONCE, Queue, handler::Handler, object};
use crate::Result;

struct Windlass {
    controller: InformerController,
    kind: Kind<ConfigMap>,
    informer: Informer<ConfigMap>,
    /// The informer of the kind until the first round: a controller rejects handlers of a kind
    /// without an informer.
    placeholder: Informer<ConfigMap>,
}

pub(super) async fn start(count: usize, handler: Arc<Handler>) -> Result<Box<dyn Queue>> {
    let (script, source) = Scripted::<ConfigMap>::new();
    let informer = Informer::new(source);
    tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    script.list((0..count).map(object)).await?;
    informer.synced().await?;
    // The source ends, and the informer keeps its objects.
    drop(script);

    let at_once = NonZeroUsize::from(std::num::NonZero::new(AT_ONCE).ok_or("no calls at once")?);
    let controller = InformerController::builder()
        .concurrency(at_once)
        // The queue must hold all of them.
        .queue(NonZeroUsize::new(count).ok_or("no objects")?)
        .build()?;
    let kind = controller.kind("configmaps")?;
    controller.add_reconciler(&kind, move |request: Request<ConfigMap>| {
        let handler = Arc::clone(&handler);
        async move {
            let again = handler.call(request.object()).await;
            Ok::<_, Infallible>(again.map_or_else(Outcome::done, Outcome::requeue_after))
        }
    })?;
    let placeholder = Informer::new(Scripted::<ConfigMap>::new().1);
    controller.add_informer(&kind, &placeholder)?;
    tokio::spawn({
        let controller = controller.clone();
        async move { controller.run(CancellationToken::new()).await }
    });
    Ok(Box::new(Windlass {
        controller,
        kind,
        informer,
        placeholder,
    }))
}

// === impl Windlass ===

impl Queue for Windlass {
    /// A new subscriber receives all objects of the store.
    fn offer_all(&self) -> Result<()> {
        self.controller.remove_informer(&self.placeholder);
        self.controller.remove_informer(&self.informer);
        Ok(self.controller.add_informer(&self.kind, &self.informer)?)
    }
}

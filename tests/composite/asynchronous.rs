//! Asynchronous handlers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use windlass::{
    Failure, Watch,
    composite::{
        AsyncCompositeHandler, ChildConfig, CompositeController, SyncRequest, SyncResponse,
    },
    controller::Runnable as _,
    kit::{self, Kit},
};

use crate::support::{Site, desired, site};

/// Asks another system, which takes five seconds of virtual time and no thread.
struct Asks(Arc<AtomicU32>);

impl AsyncCompositeHandler<Site> for Asks {
    async fn sync(&self, request: SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        desired(&request)
    }
}

#[test]
fn an_asynchronous_handler_is_awaited() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        kit.start(move |client: Client, stop| {
            let count = Arc::clone(&count);
            async move {
                let controller = CompositeController::builder(client, "sites", Watch::all())
                    .child::<ConfigMap>(ChildConfig::apply())
                    .build_async(Asks(count))
                    .expect("good settings");
                assert_eq!(controller.name(), "sites");
                assert!(!controller.prometheus_collectors().is_empty());
                controller.run(stop).await
            }
        });
        kit.create(&site("blog", "dark")).await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;
        assert!(calls.load(Ordering::Relaxed) >= 2);
        kit.delete::<Site>("blog").await;
        kit.expect_gone::<Site>("blog").await;
    });
}

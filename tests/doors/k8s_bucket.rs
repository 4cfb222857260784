//! A controller with an error type, actions and a status of its own, written for `k8s_controller`: only
//! the imports differ.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::k8s_controller::{self, Action, Controller, watcher};

use crate::cluster::{Cluster, until};

// --- the program ---

/// A storage provider.
#[derive(Clone, Default)]
struct Provider {
    buckets: Arc<Mutex<BTreeMap<String, u32>>>,
    /// The errors of the next requests.
    errors: Arc<Mutex<u32>>,
    seen: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug, thiserror::Error)]
enum BucketError {
    #[error("the provider is busy")]
    Busy,
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

struct BucketContext {
    provider: Provider,
}

#[async_trait::async_trait]
impl k8s_controller::Context for BucketContext {
    type Resource = ConfigMap;
    type Error = BucketError;

    const FINALIZER_NAME: &'static str = "buckets.example.com/finalizer";

    async fn apply(
        &self,
        client: Client,
        config: &ConfigMap,
    ) -> Result<Option<Action>, BucketError> {
        self.request()?;
        let bucket = config.name_any();
        *self
            .provider
            .buckets
            .lock()
            .unwrap()
            .entry(bucket.clone())
            .or_default() += 1;
        let api = Api::<ConfigMap>::namespaced(client, &config.namespace().unwrap_or_default());
        let patch =
            json!({ "metadata": { "annotations": { "buckets.example.com/ready": "true" } } });
        api.patch(&bucket, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(Some(Action::requeue(Duration::from_secs(300))))
    }

    async fn cleanup(
        &self,
        _client: Client,
        config: &ConfigMap,
    ) -> Result<Option<Action>, BucketError> {
        self.request()?;
        self.provider
            .buckets
            .lock()
            .unwrap()
            .remove(&config.name_any());
        Ok(Some(Action::await_change()))
    }

    fn error_action(
        self: Arc<Self>,
        config: Arc<ConfigMap>,
        err: &k8s_controller::Error<BucketError>,
        consecutive_errors: u32,
    ) -> Action {
        let line = format!("{} {err} {consecutive_errors}", config.name_any());
        self.provider.seen.lock().expect("not poisoned").push(line);
        Action::requeue(Duration::from_secs(1 + u64::from(consecutive_errors)))
    }
}

impl BucketContext {
    fn request(&self) -> Result<(), BucketError> {
        let mut errors = self.provider.errors.lock().expect("not poisoned");
        if *errors == 0 {
            return Ok(());
        }
        *errors -= 1;
        Err(BucketError::Busy)
    }
}

// --- the test ---

/// Rows: KC-05, KC-08, KC-13, KC-14, KC-19, KC-24, KC-25, KC-30
#[tokio::test(start_paused = true)]
async fn buckets_are_created_and_removed_despite_errors() {
    let cluster = Cluster::start().await;
    let provider = Provider::default();
    let context = BucketContext {
        provider: provider.clone(),
    };
    let controller =
        Controller::namespaced_all(cluster.client(), context, watcher::Config::default());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { controller.run_until(stopped).await });
    let api = cluster.api::<ConfigMap>("shop");

    *provider.errors.lock().expect("not poisoned") = 2;
    cluster
        .create::<ConfigMap>("shop", json!({ "metadata": { "name": "photos" } }))
        .await;
    let is_ready = async || {
        let config = api.get("photos").await.expect("it exists");
        config
            .annotations()
            .contains_key("buckets.example.com/ready")
    };
    until(is_ready).await;
    assert_eq!(
        std::mem::take(&mut *provider.seen.lock().expect("not poisoned")),
        [
            "photos cannot apply the object 0",
            "photos cannot apply the object 1"
        ]
    );

    *provider.errors.lock().expect("not poisoned") = 1;
    cluster.delete::<ConfigMap>("shop", "photos").await;
    until(async || api.get_opt("photos").await.expect("a response").is_none()).await;
    assert!(
        provider.buckets.lock().expect("not poisoned").is_empty(),
        "cleaned up before it was deleted"
    );
    assert_eq!(
        *provider.seen.lock().expect("not poisoned"),
        ["photos cannot clean up after the object 0"]
    );
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}

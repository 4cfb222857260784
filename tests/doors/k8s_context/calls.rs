//! The client and the concurrency of calls.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    controller::Runnable as _,
    k8s_controller::{Action, Context},
    leader::{Fence, FenceClosed},
};

use super::script::{FINALIZER, NotYet, Running, all, create, get, merge, pass, value};
use crate::cluster::{Cluster, until};

/// Writes after its lease has ended.
struct Late {
    fence: Fence,
    result: Arc<Mutex<Option<bool>>>,
}

#[async_trait::async_trait]
impl Context for Late {
    type Resource = ConfigMap;
    type Error = kube::Error;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(
        &self,
        client: Client,
        object: &ConfigMap,
    ) -> Result<Option<Action>, kube::Error> {
        self.fence.close();
        let api = kube::Api::<ConfigMap>::namespaced(client, "shop");
        let patch = Patch::Merge(json!({ "data": { "value": "late" } }));
        let written = api
            .patch(&object.name_any(), &PatchParams::default(), &patch)
            .await;
        let is_refused = written
            .as_ref()
            .err()
            .is_some_and(|it| FenceClosed::find(it).is_some());
        *self.result.lock().expect("not poisoned") = Some(is_refused);
        written.map(|_| Some(Action::await_change()))
    }

    async fn cleanup(&self, _: Client, _: &ConfigMap) -> Result<Option<Action>, kube::Error> {
        Ok(None)
    }
}

/// Rows: KC-35
#[tokio::test(start_paused = true)]
async fn the_client_of_apply_sends_no_write_after_the_lease() {
    let cluster = Cluster::start().await;
    let fence = Fence::new();
    fence.open_until(fence.now() + Duration::from_secs(3600));
    let result = Arc::new(Mutex::new(None));
    let context = Late {
        fence: fence.clone(),
        result: Arc::clone(&result),
    };
    let controller = all(&cluster, context);
    controller.set_fence(&fence);
    let running = Running::start(controller);
    create(&cluster, "a").await;
    until(async || result.lock().expect("not poisoned").is_some()).await;
    assert_eq!(
        *result.lock().expect("not poisoned"),
        Some(true),
        "it was refused"
    );
    assert_eq!(value(&get(&cluster, "a").await.expect("it exists")), "1");
    running.stop().await;
}

/// Counts its concurrent calls, which wait until the gate is open.
struct Gated {
    running: Arc<Mutex<HashSet<String>>>,
    most: Arc<AtomicUsize>,
    is_open: CancellationToken,
}

#[async_trait::async_trait]
impl Context for Gated {
    type Resource = ConfigMap;
    type Error = NotYet;
    const FINALIZER_NAME: &'static str = FINALIZER;

    async fn apply(&self, _: Client, object: &ConfigMap) -> Result<Option<Action>, NotYet> {
        let name = object.name_any();
        {
            let mut running = self.running.lock().expect("not poisoned");
            let is_only_one = running.insert(name.clone());
            let count = if is_only_one {
                running.len()
            } else {
                usize::MAX
            };
            self.most.fetch_max(count, Ordering::Relaxed);
        }
        self.is_open.cancelled().await;
        self.running.lock().expect("not poisoned").remove(&name);
        Ok(Some(Action::await_change()))
    }

    async fn cleanup(&self, _: Client, _: &ConfigMap) -> Result<Option<Action>, NotYet> {
        Ok(None)
    }
}

/// Rows: KC-28
#[tokio::test(start_paused = true)]
async fn the_number_of_concurrent_calls_is_limited_and_none_overlap_for_one_object() {
    for (concurrency, objects, most) in [(None, 40, 16), (Some(3), 10, 3), (Some(0), 1030, 1024)] {
        let cluster = Cluster::start().await;
        let gated = Gated {
            running: Arc::default(),
            most: Arc::default(),
            is_open: CancellationToken::new(),
        };
        let (running, reached) = (Arc::clone(&gated.running), Arc::clone(&gated.most));
        let is_open = gated.is_open.clone();
        let mut controller = all(&cluster, gated);
        if let Some(concurrency) = concurrency {
            controller = controller.with_concurrency(concurrency);
        }
        let calls = Running::start(controller);
        for at in 0..objects {
            create(&cluster, &format!("o{at}")).await;
        }
        let count = || running.lock().expect("not poisoned").len();
        until(async || count() == most).await;
        // Events of objects whose calls are in progress.
        let names: Vec<_> = running
            .lock()
            .expect("not poisoned")
            .iter()
            .cloned()
            .collect();
        for name in names.iter().take(20) {
            merge(&cluster, name, json!({ "data": { "value": "2" } })).await;
        }
        pass(60).await;
        assert_eq!(count(), most);
        is_open.cancel();
        pass(60).await;
        assert_eq!(count(), 0);
        assert_eq!(reached.load(Ordering::Relaxed), most);
        calls.stop().await;
    }
}

//! A resource of two functions in a test, as in the tests of consul-k8s.
//!
//! In Go:
//!
//! ```go
//! r := controller.NewResource(informer,
//!     func(key string, obj interface{}) error { ... },
//!     func(key string, obj interface{}) error { ... })
//! closer := controller.TestControllerRun(r)
//! defer closer()
//! ```

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use windlass::consul::{Informer, ObjectKey, new_resource, test_controller_run};

use crate::cluster::{Cluster, until};

/// Rows: CK-02, CK-03, CK-12, CK-21, CK-22
#[tokio::test(start_paused = true)]
async fn functions_are_a_resource() {
    let cluster = Cluster::start().await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let seen = Arc::new(Mutex::new(BTreeMap::new()));

    let (added, removed) = (Arc::clone(&seen), Arc::clone(&seen));
    let resource = new_resource(
        Informer::new(nodes.clone()),
        move |key: ObjectKey, node: Arc<Node>| {
            let uid = node.metadata.uid.clone();
            added
                .lock()
                .expect("not poisoned")
                .insert(key.to_string(), uid);
            async { Ok::<_, Infallible>(()) }
        },
        move |key: ObjectKey, _node| {
            removed
                .lock()
                .expect("not poisoned")
                .remove(&key.to_string());
            async { Ok::<_, Infallible>(()) }
        },
    );
    let closer = test_controller_run(resource);

    let node = serde_json::from_value(json!({ "metadata": { "name": "n1" } })).expect("a node");
    let created = nodes.create(&PostParams::default(), &node).await;
    let uid = created.expect("a new node").metadata.uid;
    let known = async |expected: Option<Option<String>>| {
        let seen = Arc::clone(&seen);
        until(async move || seen.lock().expect("not poisoned").get("n1").cloned() == expected)
            .await;
    };
    known(Some(uid)).await;
    let deleted = nodes.delete("n1", &DeleteParams::default()).await;
    deleted.expect("a node that exists");
    known(None).await;

    closer.stop().await.expect("no error");
    assert_eq!(
        Arc::strong_count(&seen),
        1,
        "the controller and its functions are dropped"
    );
}

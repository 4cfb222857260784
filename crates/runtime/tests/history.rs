//! A server whose history went back.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::timeout;
use windlass_apiserver::ApiServer;
use windlass_runtime::{
    controller::{Action, Controller, Error},
    watcher,
};

/// The longest wait for a condition. Time is paused: a watch from the future of the restored server
/// is silent, and its version is requested after three minutes of silence.
const LIMIT: Duration = Duration::from_secs(3600);

/// The program may remember what never happened on the restored server, so that it starts anew.
///
/// Decision: D25
#[tokio::test(start_paused = true)]
async fn a_restored_server_ends_the_stream_with_one_error() {
    let (first, restored) = (ApiServer::new(), ApiServer::new());
    let server = Arc::new(Mutex::new(first.client()));
    let current = Arc::clone(&server);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = current.lock().clone();
        async move { client.send(request).await }
    });
    let client = Client::new(service, "default");
    for (server, versions) in [(&first, 50), (&restored, 1)] {
        let configs = Api::<ConfigMap>::default_namespaced(server.client());
        let mut config = ConfigMap::default();
        config.metadata.name = Some("a".into());
        let created = configs.create(&PostParams::default(), &config).await;
        created.expect("a new object");
        for version in 0..versions {
            let patch = Patch::Merge(json!({ "data": { "version": version.to_string() } }));
            let patched = configs.patch("a", &PatchParams::default(), &patch).await;
            patched.expect("a patch");
        }
    }
    let mut stream = Controller::new(
        Api::<ConfigMap>::default_namespaced(client),
        watcher::Config::default(),
    )
    .run(
        |_, _| async { Ok::<_, std::convert::Infallible>(Action::await_change()) },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    )
    .boxed();
    let item = timeout(LIMIT, stream.next()).await.expect("in time");
    assert!(matches!(item, Some(Ok(_))), "{item:?}");
    *server.lock() = restored.client();
    first.close_watches();
    let mut last = None;
    while let Some(item) = timeout(LIMIT, stream.next()).await.expect("in time") {
        // Failed attempts may precede it.
        assert!(matches!(item, Err(Error::QueueError(_))), "{item:?}");
        last = Some(item);
    }
    let Some(Err(Error::QueueError(watcher::Error::WatchError(status)))) = last else {
        panic!("{last:?}");
    };
    assert_eq!(status.reason, "HistoryWentBack");
    assert!(
        status.message.contains("as after a restore"),
        "{}",
        status.message
    );
    assert!(
        timeout(LIMIT, stream.next())
            .await
            .expect("in time")
            .is_none()
    );
}

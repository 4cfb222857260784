//! A client whose read timeout is shorter than the time between two bookmarks.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_informer::{Event, Informer};

use crate::{child::LIMIT, cluster::Cluster};

#[test]
fn a_client_with_a_short_read_timeout_misses_and_delays_no_event() {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = cluster.config();
    config.read_timeout = Some(Duration::from_secs(2));
    let server = cluster.server.clone();
    runtime.block_on(async move {
        let client = Client::try_from(config).expect("a client");
        let problems = Arc::new(Mutex::new(Vec::new()));
        let informer = Informer::builder(Api::<ConfigMap>::all(client))
            .on_error({
                let problems = Arc::clone(&problems);
                move |problem| problems.lock().expect("no panic").push(problem.to_string())
            })
            .build();
        let mut events = informer.subscribe();
        tokio::spawn(informer.run(CancellationToken::new()));
        let synced = async {
            // Ends: the list is complete, or the timeout passes.
            while !matches!(events.next().await, Some(Event::Synced)) {}
        };
        timeout(LIMIT, synced).await.expect("it syncs");
        // Several timeouts of the socket, which pass in real time. Each would double the backoff.
        sleep(Duration::from_secs(9)).await;
        let mut config = ConfigMap::default();
        config.metadata.name = Some("late".to_owned());
        let configs: Api<ConfigMap> = Api::namespaced(server.client(), "default");
        let began = Instant::now();
        configs
            .create(&PostParams::default(), &config)
            .await
            .expect("it is new");
        let next = timeout(LIMIT, events.next()).await.expect("an event");
        assert!(matches!(next, Some(Event::Added(_))), "{next:?}");
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        let problems = problems.lock().expect("no panic").clone();
        assert!(problems.is_empty(), "{problems:?}");
    });
}

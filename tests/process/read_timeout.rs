//! A client whose read timeout is shorter than the time between two bookmarks.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::PostParams};
use libtest_mimic::Trial;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber as _;
use windlass_informer::{Event, Informer};

use crate::{
    child::{Child, Kind, LIMIT, is_child, on_both_servers, say},
    cluster::Cluster,
};

const QUIET: &str = "read_timeout::a_client_with_a_short_read_timeout_misses_and_delays_no_event";

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    on_both_servers(
        QUIET,
        a_client_with_a_short_read_timeout_misses_and_delays_no_event,
    )
}

fn a_client_with_a_short_read_timeout_misses_and_delays_no_event(kind: Kind) {
    if is_child() {
        return watches(kind);
    }
    let mut child = Child::start(kind, QUIET);
    assert_eq!(child.line(), "no event was missed or late");
}

/// An informer whose client has a short read timeout.
fn watches(kind: Kind) {
    let cluster = Cluster::start(kind);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = cluster.config();
    let aside = config.clone();
    config.read_timeout = Some(Duration::from_secs(2));
    let namespace = cluster.namespace().to_owned();
    runtime.block_on(async move {
        let client = Client::try_from(config).expect("a client");
        let problems = Arc::new(Mutex::new(Vec::new()));
        let informer = Informer::builder(Api::<ConfigMap>::namespaced(client, &namespace))
            .on_error({
                let problems = Arc::clone(&problems);
                move |problem| problems.lock().expect("no panic").push(problem.to_string())
            })
            .build();
        let mut events = informer.subscribe();
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer({
            let log = log.clone();
            move || log.clone()
        });
        let run = informer.run(CancellationToken::new());
        tokio::spawn(run.with_subscriber(subscriber.finish()));
        let synced = async {
            // Ends: the list is complete, or the timeout passes.
            while !matches!(events.next().await, Some(Event::Synced)) {}
        };
        timeout(LIMIT, synced).await.expect("it syncs");
        // Several timeouts of the socket, which pass in real time. Each would double the backoff.
        sleep(Duration::from_secs(9)).await;
        let mut config = ConfigMap::default();
        config.metadata.name = Some("late".to_owned());
        let aside = Client::try_from(aside).expect("a client");
        let configs: Api<ConfigMap> = Api::namespaced(aside, &namespace);
        let began = Instant::now();
        configs
            .create(&PostParams::default(), &config)
            .await
            .expect("it is new");
        let next = timeout(LIMIT, events.next()).await.expect("an event");
        assert!(matches!(next, Some(Event::Added(_))), "{next:?}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        let problems = problems.lock().expect("no panic").clone();
        assert!(problems.is_empty(), "{problems:?}");
        let log = log.0.lock().expect("no panic").clone();
        let log = String::from_utf8(log).expect("a text");
        let warning = "the client ended a quiet watch; set `read_timeout`";
        assert_eq!(log.matches(warning).count(), 1, "{log}");
    });
    say("no event was missed or late");
}

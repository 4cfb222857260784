//! The span of a call. In a program of its own: `tracing` remembers for all threads whether an earlier
//! subscriber wanted a span.

use std::{convert::Infallible, io::Write, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::rbac::v1::ClusterRole;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::timeout;
use tracing::Instrument as _;
use windlass_runtime::{Controller, controller::Action, reflector::store, watcher};

const LIMIT: Duration = Duration::from_secs(60);

fn role(name: &str) -> ClusterRole {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("a role")
}

/// A writer of logs to memory.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_call_is_logged_in_the_span_of_its_object_and_of_the_caller() {
    let logs = Logs::default();
    let written = logs.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (store, mut writer) = store::<ClusterRole>();
    for event in [
        watcher::Event::Init,
        watcher::Event::InitApply(role("a")),
        watcher::Event::InitDone,
    ] {
        writer.apply_watcher_event(&event);
    }
    let triggers = stream::iter([role("a")]).map(Ok).chain(stream::pending());
    let items = Controller::for_stream(triggers, store).run(
        |_, _| async {
            tracing::info!("before");
            tokio::task::yield_now().await;
            tracing::info!("after");
            Ok::<_, Infallible>(Action::await_change())
        },
        |_, _, _| Action::await_change(),
        Arc::new(()),
    );
    let mut items = Box::pin(items);
    let caller = tracing::info_span!("roles");
    let item = timeout(LIMIT, items.next().instrument(caller)).await;
    let (target, _) = item
        .expect("a call")
        .expect("it continues")
        .expect("no error");
    assert_eq!(target.name, "a");
    let logs = String::from_utf8(logs.0.lock().clone()).expect("text");
    for message in ["before", "after"] {
        let line = logs.lines().find(|line| line.ends_with(message));
        let line = line.unwrap_or_else(|| panic!("no {message}: {logs}"));
        let span = "roles:reconciling object{object.ref=ClusterRole.v1.rbac.authorization.k8s.io/a";
        assert!(line.contains(span), "{line}");
        assert!(line.contains("object.reason="), "{line}");
    }
}

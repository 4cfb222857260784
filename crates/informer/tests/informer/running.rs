//! A running informer with a scripted source, and its events as text.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{Event, Informer, InformerError, Script, Scripted, Subscription};

/// An informer that runs, and one handler's view of it.
pub(crate) struct Running {
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) events: Subscription<ConfigMap>,
    _task: AbortOnDropHandle<Result<(), InformerError>>,
}

pub(crate) fn start() -> (Script<ConfigMap>, Running) {
    let (script, source) = Scripted::new();
    (script, run(Informer::new(source)))
}

pub(crate) fn run(informer: Informer<ConfigMap>) -> Running {
    let events = informer.subscribe();
    let task = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run(CancellationToken::new()).await }
    });
    Running {
        informer,
        events,
        _task: AbortOnDropHandle::new(task),
    }
}

/// The next events, in words.
pub(crate) async fn receive(events: &mut Subscription<ConfigMap>, count: usize) -> Vec<String> {
    let version = |config: &ConfigMap| config.resource_version().unwrap_or_default();
    let mut received = Vec::new();
    while received.len() < count {
        let event = within_a_day(events.next()).await;
        received.push(match event.expect("the informer runs") {
            Event::Added(object) => format!("added {} {}", object.name_any(), version(&object)),
            Event::Updated { old, new } => {
                format!(
                    "updated {} {}>{}",
                    new.name_any(),
                    old.metadata()
                        .resource_version
                        .as_deref()
                        .unwrap_or_default(),
                    version(&new)
                )
            }
            Event::Deleted { last, missed } => {
                let how = if missed { "missed" } else { "deleted" };
                format!("{how} {} {}", last.name_any(), version(&last))
            }
            Event::Resynced(object) => format!("resynced {}", object.name_any()),
            _ => "synced".to_owned(),
        });
    }
    received
}

/// Time is paused, and so a day is nothing; but a test that waits for what never comes must end.
pub(crate) async fn within_a_day<T>(waiting: impl Future<Output = T>) -> T {
    let day = std::time::Duration::from_secs(24 * 3600);
    let waited = tokio::time::timeout(day, waiting).await;
    waited.expect("what the test waits for does not come")
}

pub(crate) fn config(name: &str, version: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.uid = Some(format!("uid-{name}"));
    config.metadata.resource_version = Some(version.to_owned());
    config.data = Some([("value".to_owned(), version.to_owned())].into());
    config
}

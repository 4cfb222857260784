//! Panics of user functions do not end the informer.

use std::{panic::panic_any, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use windlass_informer::{Index, Informer, Scripted, Verb, WatchError, WatchErrorCause};

use crate::running::{config, receive, run, within_a_day};

/// A payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_error_handler_does_not_stop_the_informer() {
    let handlers: [fn(); 2] = [|| panic!("no"), || panic_any(Bomb)];
    for handler in handlers {
        let (script, source) = Scripted::<ConfigMap>::new();
        let informer = Informer::builder(source).on_error(move |_| handler());
        let mut running = run(informer.build());
        let silent = WatchError::new(
            "configmaps",
            Verb::Watch,
            WatchErrorCause::Silent {
                limit: Duration::from_secs(1),
            },
        );
        let wait = Duration::from_secs(1);
        within_a_day(script.interrupt(silent, wait))
            .await
            .expect("runs");
        let list = [config("a", "1")];
        within_a_day(script.list(list)).await.expect("runs");
        assert_eq!(
            receive(&mut running.events, 2).await,
            ["added a 1", "synced"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_index_function_does_not_stop_the_informer() {
    let by_name = Index::new(|config: &ConfigMap| {
        if config.name_any() == "bomb" {
            panic_any(Bomb);
        }
        assert_ne!(config.name_any(), "bad");
        Some(config.name_any())
    });
    let (script, source) = Scripted::new();
    let informer = Informer::builder(source).index(&by_name).build();
    let store = informer.store();
    let mut running = run(informer);
    let list = ["bad", "bomb", "good"].map(|name| config(name, "1"));
    within_a_day(script.list(list)).await.expect("runs");
    receive(&mut running.events, 4).await;
    for (name, found) in [("bad", 0), ("bomb", 0), ("good", 1)] {
        assert_eq!(store.by(&by_name, name).expect("declared").len(), found);
    }
    assert_eq!(store.len(), 3);
}

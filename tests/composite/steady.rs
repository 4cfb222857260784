//! Steady states, crashes, and another writer.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kube::{
    Api, Client, CustomResourceExt as _,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    Failure, Informer, InformerController, Outcome, Request,
    kit::{self, Kit, Verb},
};

use crate::support::{Scripted, Site, desired, site};

/// Rows: RO-11, RO-37
#[test]
fn without_a_change_nothing_is_called_and_nothing_is_written() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        let operator = handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        // It was called again after the child was created.
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1, "observedGeneration": 1 } }))
            .await;
        let (since, calls) = (kit.mark(), handler.syncs.lock().len());
        kit.advance(Duration::from_secs(3600)).await;
        assert_eq!(kit.writes(since), []);
        assert_eq!(handler.syncs.lock().len(), calls);

        // A status that another writer changes is no reason for a call, and a child is.
        kit.set_status::<Site>("blog", json!({ "children": 7 }))
            .await;
        kit.quiet().await;
        assert_eq!(handler.syncs.lock().len(), calls);
        kit.edit::<ConfigMap>("blog", |it| {
            let data = it.data.get_or_insert_default();
            data.insert("theme".to_owned(), "light".to_owned());
        })
        .await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;

        // After a restart each object is applied once, which changes nothing.
        kit.quiet().await;
        let map = kit.get::<ConfigMap>("blog").await.expect("it exists");
        operator.restart();
        kit.quiet().await;
        let after = kit.get::<ConfigMap>("blog").await.expect("it exists");
        assert_eq!(
            after.metadata.resource_version,
            map.metadata.resource_version
        );
    });
}

/// A server that is busy refuses the status for no reason of its fields.
///
/// Rows: RO-28
#[test]
fn a_status_that_is_refused_once_has_the_observed_generation_later() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        kit.refuse_next(Verb::Patch, "sites", 500);
        kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
            .await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "observedGeneration": 2 } }))
            .await;
    });
}

/// Rows: RO-14
#[test]
fn after_a_crash_before_the_writes_sync_is_called_with_the_same_state() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let states = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&states);
        let handler = Scripted::new(move |request| {
            let version = request.parent().metadata.resource_version.clone();
            log.lock().push((version, request.children().count()));
            desired(request)
        });
        let operator = handler.start(&kit);
        let hold = kit.hold(Verb::Patch, "configmaps");
        kit.create(&site("blog", "dark")).await;
        while handler.syncs.lock().is_empty() {
            kit.advance(Duration::from_millis(10)).await;
        }
        operator.crash();
        drop(hold);
        operator.restart();
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        let states = states.lock().clone();
        assert_eq!(states[0], states[1]);
        assert_eq!(states[0].1, 0);
    });
}

/// A second writer of the config maps: whenever one has another theme, it applies its own.
async fn fight(client: Client, stop: CancellationToken) -> Result<(), String> {
    let controller = InformerController::new();
    let maps = controller.kind("maps").map_err(|it| it.to_string())?;
    let informer = Informer::new(Api::<ConfigMap>::all(client.clone()));
    let added = controller.add_informer(&maps, &informer);
    added.map_err(|it| it.to_string())?;
    let fighter = move |request: Request<ConfigMap>| {
        let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
        async move {
            let data = request.object().data.as_ref();
            if data
                .and_then(|it| it.get("theme"))
                .is_none_or(|it| it == "light")
            {
                return Ok::<_, Failure>(Outcome::done());
            }
            let theirs = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": request.key().name() }, "data": { "theme": "light" },
            });
            let params = PatchParams::apply("fighter").force();
            api.patch(request.key().name(), &params, &Patch::Apply(theirs))
                .await?;
            Ok(Outcome::done())
        }
    };
    controller
        .add_reconciler(&maps, fighter)
        .map_err(|it| it.to_string())?;
    controller.run(stop).await.map_err(|it| it.to_string())
}

/// Rows: RO-43
#[test]
fn two_writers_that_revert_each_other_slow_down_and_an_event_names_the_other() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        let begin = kit.mark();
        let fighter = kit.start(fight);
        // Without the dry runs that look for the other writer, which are refused.
        let ours = |since| {
            let writes = kit.writes(since).into_iter();
            let maps = writes.filter(|it| it.resource == "configmaps" && it.code == 200);
            let ours = maps.filter(|it| it.manager == "sites");
            ours.collect::<Vec<_>>()
        };
        kit.advance(Duration::from_secs(10)).await;
        let reverts = ours(begin).len();
        assert!(reverts < 15, "{reverts} reverts within 10 s");
        kit.advance(Duration::from_secs(3590)).await;
        let first = ours(begin);
        // A few at once, then 1, 2, 4 … 256 s apart.
        assert!(
            (15..=26).contains(&first.len()),
            "{}: {first:#?}",
            first.len()
        );

        let since = kit.mark();
        kit.advance(Duration::from_secs(3600)).await;
        let later = ours(since);
        assert!(
            (11..=12).contains(&later.len()),
            "{}: {later:#?}",
            later.len()
        );
        for pair in later.windows(2) {
            let gap = pair[1].at.saturating_sub(pair[0].at);
            assert!(gap >= Duration::from_secs(300), "{gap:?}");
        }
        let events: Vec<Event> = kit.list().await;
        let is_ours = |it: &&Event| it.reason.as_deref() == Some("ChildContended");
        let reports: Vec<_> = events.iter().filter(is_ours).collect();
        assert_eq!(reports.len(), 1, "{reports:#?}");
        let report = reports[0];
        assert_eq!(report.type_.as_deref(), Some("Warning"));
        let regarding = report.regarding.as_ref().expect("it is about an object");
        assert_eq!(regarding.kind.as_deref(), Some("Site"));
        assert_eq!(regarding.name.as_deref(), Some("blog"));
        let note = report.note.as_deref().expect("a note");
        for part in ["configmaps default/blog", "fighter", ".data.theme"] {
            assert!(note.contains(part), "no {part} in {note}");
        }

        // The other writer ends: one more revert, and nothing after it.
        fighter.crash();
        let since = kit.mark();
        kit.advance(Duration::from_secs(3600)).await;
        assert_eq!(ours(since).len(), 1);
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
    });
}

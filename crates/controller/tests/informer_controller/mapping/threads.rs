//! Themes and sites that are created, changed and deleted on several threads.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_controller::{Action, Coalescing, InformerController, Outcome, Request};
use windlass_informer::{Informer, ObjectKey, Script, Scripted, Store};

use super::themes::{THEMES, map, used_by};
use crate::support::{Log, Refused, Rig, Running, config, secs};

/// The known state of a site: its uid, and the themes that referred to it at its last dispatch.
struct Known {
    uid: Option<String>,
    themes: Vec<Option<String>>,
}

const OBJECTS: u32 = 40;
const ROUNDS: u32 = 40;

/// Themes move from site to site, while sites go and come back: in the end each site has been
/// dispatched since the last theme was added to it or removed, and not before it existed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_is_lost_with_concurrent_threads() {
    for delivery in [Coalescing::WhenFull, Coalescing::Always] {
        let errors = Log::default();
        let log = errors.clone();
        let builder = InformerController::builder()
            .coalescing(delivery)
            .on_error(move |report| log.say(report))
            .queue(16.try_into().expect("not zero"));
        let rig = Rig::new(builder);
        let (script, source) = Scripted::new();
        let informer = Informer::new(source);
        let controller = &rig.controller;
        let themes_kind = controller.kind(THEMES).expect("a new kind");
        controller
            .add_informer(&themes_kind, &informer)
            .expect("added");
        map(&rig, &themes_kind, used_by);
        let themes = informer.store();

        let seen: Arc<Mutex<HashMap<ObjectKey, Known>>> = Arc::default();
        let notified = Arc::new(Notify::new());
        let (store, book, tell) = (themes.clone(), Arc::clone(&seen), Arc::clone(&notified));
        rig.reconcile(move |request: Request<ConfigMap>| {
            let uid = request.object().metadata.uid.clone();
            let named = themes_of(&store, request.key());
            note(&mut book.lock(), &request, Known { uid, themes: named });
            tell.notify_one();
            async { Ok::<_, Refused>(Outcome::done()) }
        });

        let running = rig.start();
        tokio::join!(sites_come_and_go(&running), themes_move(&script));
        let all_know = || {
            let seen = seen.lock();
            (0..OBJECTS).all(|site| {
                let key = ObjectKey::new(format!("site-{site}")).within("shop");
                let known = seen.get(&key);
                known.is_some_and(|known| known.themes == themes_of(&themes, &key))
            })
        };
        let done = async {
            while !(have_moved(&themes) && all_know()) {
                notified.notified().await;
            }
        };
        let done = tokio::time::timeout(secs(60), done).await;
        assert!(done.is_ok(), "a change was lost, {delivery:?}");
        assert_eq!(errors.take().await, "", "{delivery:?}");
        running.stop().await.expect("it stops");
    }
}

/// Notes a dispatch of a site. It must exist, except for its creation and its deletion: of a site
/// that was created and deleted, only the deletion may be dispatched.
fn note(seen: &mut HashMap<ObjectKey, Known>, request: &Request<ConfigMap>, known: Known) {
    let before = seen.get(request.key()).map(|before| &before.uid);
    match request.action() {
        Action::Created => assert_eq!(before, None, "it was there before"),
        Action::Deleted => assert!(before.is_none_or(|before| *before == known.uid)),
        _ => assert_eq!(before, Some(&known.uid), "it was not there before"),
    }
    if request.action() == Action::Deleted {
        seen.remove(request.key());
    } else {
        seen.insert(request.key().clone(), known);
    }
}

async fn sites_come_and_go(running: &Running) {
    let list = (0..OBJECTS).map(|site| config(&format!("site-{site}"), 0));
    running.rig.script.list(list).await.expect("it runs");
    for round in 1..=ROUNDS {
        for site in (round % 5..OBJECTS).step_by(5) {
            let mut object = config(&format!("site-{site}"), round);
            running.delete(object.clone()).await;
            object.metadata.uid = Some(format!("uid-{site}-{round}"));
            running.apply(object).await;
            tokio::task::yield_now().await;
        }
    }
}

async fn themes_move(script: &Script<ConfigMap>) {
    script.list([]).await.expect("it runs");
    for round in 1..=ROUNDS {
        for theme in 0..OBJECTS {
            let site = (theme * 7 + round * 13) % OBJECTS;
            let mut object = config(&format!("theme-{theme}"), site);
            object.metadata.resource_version = Some((round * OBJECTS + theme).to_string());
            script.apply(object).await.expect("it runs");
        }
    }
}

/// Whether every theme is where it is in the end.
fn have_moved(themes: &Store<ConfigMap>) -> bool {
    let themes = themes.list();
    let last = themes.iter().filter(|theme| {
        let version = theme.metadata.resource_version.as_deref();
        version.is_some_and(|it| it.parse::<u32>().is_ok_and(|it| it >= ROUNDS * OBJECTS))
    });
    last.count() == OBJECTS as usize
}

/// The themes that name `site`.
fn themes_of(themes: &Store<ConfigMap>, site: &ObjectKey) -> Vec<Option<String>> {
    let themes = themes.list().into_iter();
    let named = themes.filter(|theme| used_by(theme).as_ref() == Some(site));
    let mut named: Vec<_> = named.map(|theme| theme.metadata.name.clone()).collect();
    named.sort();
    named
}

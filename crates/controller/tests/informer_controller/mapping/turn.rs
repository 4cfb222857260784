//! When the returned objects are dispatched: in their lane, and not once for each change.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Coalescing, Failure, InformerController, Kind, Outcome, Request};
use windlass_informer::{
    Change, Changes, Informer, Script, Scripted, Source, Subscription, WatchError,
};

use super::themes::{THEMES, map, rig, start, used_by};
use crate::support::{KIND, Log, Refused, ask, config, pass, reborn, secs, settle, word};

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_are_coalesced_into_few_calls() {
    for delivery in [Coalescing::WhenFull, Coalescing::Always] {
        let (rig, themes) = rig(InformerController::builder().coalescing(delivery));
        let gate = Arc::new(Semaphore::new(0));
        let calls = Arc::new(AtomicUsize::new(0));
        let slow = {
            let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
            move |_: Request<ConfigMap>| {
                let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
                async move {
                    gate.acquire().await?.forget();
                    calls.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Failure>(Outcome::done())
                }
            }
        };
        rig.reconcile(slow);
        map(&rig, &themes.kind, used_by);
        let running = start(rig, &themes).await;
        running.apply(config("site-1", 0)).await;
        settle().await;
        for version in 0..1000 {
            let mut theme = config("dark", 1);
            theme.metadata.resource_version = Some(version.to_string());
            themes.apply(theme).await.expect("it runs");
        }
        settle().await;
        gate.add_permits(Semaphore::MAX_PERMITS);
        settle().await;
        assert_eq!(calls.load(Ordering::Relaxed), 2, "{delivery:?}");
        running.stop().await.expect("it stops");
    }
}

/// The first lists come at once, and the handlers are far behind.
#[tokio::test(start_paused = true)]
async fn no_handler_is_called_for_a_mapped_object_before_its_first_event() {
    let one = 1.try_into().expect("not zero");
    let (rig, themes) = rig(InformerController::builder().queue(one).concurrency(one));
    let log = rig.log.clone();
    rig.reconcile(move |request: Request<ConfigMap>| {
        let log = log.clone();
        async move {
            tokio::time::sleep(secs(1)).await;
            let name = request.key().name().to_owned();
            log.say(format_args!("{} {name}", word(request.action())));
            Ok::<_, Refused>(Outcome::done())
        }
    });
    map(&rig, &themes.kind, used_by);
    let running = rig.start();
    let list = (0..100).map(|site| config(&format!("site-{site}"), 0));
    let sites = running.rig.script.list(list);
    let list = (0..100).map(|site| config(&format!("theme-{site}"), site));
    let (sites, themes) = tokio::join!(sites, themes.list(list));
    sites.and(themes).expect("it runs");
    tokio::time::sleep(secs(1000)).await;
    let logged = running.logged().await;
    let logged: Vec<_> = logged.split(", ").collect();
    for site in 0..100 {
        let at = |action: &str| {
            let line = format!("{action} site-{site}");
            logged.iter().position(|it| *it == line)
        };
        let created = at("created").expect("it was dispatched");
        assert!(at("resynced").is_none_or(|at| created < at), "{site}");
    }
    assert!(logged.len() <= 200, "{}", logged.len());
    running.stop().await.expect("it stops");
}

/// A mapped object has the priority of the change that was mapped, which is higher than that of the
/// first list.
#[tokio::test(start_paused = true)]
async fn a_mapped_object_does_not_wait_for_the_first_list() {
    let one = 1.try_into().expect("not zero");
    let (rig, themes) = rig(InformerController::builder().concurrency(one));
    let gate = Arc::new(Semaphore::new(1));
    let (log, pass) = (rig.log.clone(), Arc::clone(&gate));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, pass) = (log.clone(), Arc::clone(&pass));
        async move {
            log.say(ask(&request));
            pass.acquire().await?.forget();
            Ok::<_, Failure>(Outcome::done())
        }
    });
    map(&rig, &themes.kind, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    assert_eq!(running.logged().await, "created site-1=0");
    let (script, source) = Scripted::new();
    let controller = &running.rig.controller;
    controller
        .add_informer(&running.rig.kind, &Informer::new(source))
        .expect("added");
    let list = ["l1", "l2", "l3"].map(|name| config(name, 1));
    script.list(list).await.expect("it runs");
    assert_eq!(running.logged().await, "created l1=1");
    themes.apply(config("dark", 1)).await.expect("it runs");
    settle().await;
    gate.add_permits(9);
    assert_eq!(
        running.logged().await,
        "resynced site-1=0, created l2=1, created l3=1"
    );
    running.stop().await.expect("it stops");
}

/// A first list names an object, and then a change does: the more urgent of the two decides.
#[tokio::test(start_paused = true)]
async fn a_mapped_object_of_the_first_list_is_dispatched_earlier() {
    let mut slow = Slow::start().await;
    // The informer waits for its other subscriber with the second event.
    for name in ["called", "queued"] {
        slow.send(vec![applied(config(name, 1))]).await;
    }
    slow.add(
        &slow.kind,
        (0..20).map(|number| config(&format!("listed-{number}"), 1)),
    )
    .await;
    slow.add(&slow.themes_kind, [config("dark", 1)]).await;
    let light = slow.themes.apply(config("light", 1));
    light.await.expect("it runs");
    settle().await;
    slow.free();
    pass(100).await;
    let called = slow.log.take().await;
    let at = |line: &str| (called.find(line)).unwrap_or_else(|| panic!("no {line}: {called}"));
    assert!(at("resynced site-1") < at("created listed-19"), "{called}");
}

/// A change names an object that is deleted before its resync is delivered. That says nothing of
/// another object that takes its name.
#[tokio::test(start_paused = true)]
async fn a_new_object_of_a_name_does_not_inherit_the_priority_of_the_old_one() {
    let mut slow = Slow::start().await;
    // The informer waits for its other subscriber in the middle of a list without `site-1`.
    slow.send(vec![applied(config("called", 1))]).await;
    slow.send(vec![
        Change::ListStarted,
        applied(config("called", 1)),
        applied(config("queued", 1)),
        Change::ListEnded {
            resource_version: None,
        },
    ])
    .await;
    let light = slow.themes.apply(config("light", 1));
    light.await.expect("it runs");
    settle().await;
    slow.free();
    pass(100).await;
    slow.send(vec![applied(reborn("site-1", 2))]).await;
    pass(100).await;
    assert_eq!(
        slow.log.take().await,
        "created called, created queued, deleted site-1, created site-1"
    );

    // A first list names its successor, and while that waits, another object changes.
    // One turn of a worker in sixteen begins with the first lists; this is not that one.
    for passed in ["passed-1", "passed-2"] {
        slow.send(vec![applied(config(passed, 3))]).await;
        pass(100).await;
    }
    slow.send(vec![applied(config("called", 3))]).await;
    slow.add(&slow.themes_kind, [config("dark", 1)]).await;
    slow.send(vec![applied(config("changed", 4))]).await;
    pass(100).await;
    assert_eq!(
        slow.log.take().await,
        "created passed-1, created passed-2, updated called, created changed, resynced site-1"
    );
}

/// A resync of an object of two informers is requested, and one of them deletes the object while a call
/// runs: no handler is called with the delete.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_held_back_ends_the_requested_resync() {
    let mut slow = Slow::start().await;
    slow.add(&slow.kind, [config("site-1", 0)]).await;
    // The object belongs to both informers.
    slow.send(vec![applied(config("site-1", 1))]).await;
    pass(100).await;
    assert_eq!(slow.log.take().await, "updated site-1");
    // The first informer waits for its other subscriber in the middle of a list without `site-1`.
    slow.send(vec![
        Change::ListStarted,
        applied(config("queued", 1)),
        Change::ListEnded {
            resource_version: None,
        },
    ])
    .await;
    let light = slow.themes.apply(config("light", 1));
    light.await.expect("it runs");
    settle().await;
    slow.free();
    pass(100).await;
    let called = slow.log.take().await;
    assert!(!called.contains("deleted"), "{called}");
    slow.send(vec![applied(config("site-1", 2))]).await;
    pass(100).await;
    assert_eq!(slow.log.take().await, "updated site-1");

    // A first list names it again, and while that waits, another object changes.
    for passed in ["passed-1", "passed-2"] {
        slow.send(vec![applied(config(passed, 3))]).await;
        pass(100).await;
    }
    slow.send(vec![applied(config("called", 3))]).await;
    slow.add(&slow.themes_kind, [config("dark", 1)]).await;
    slow.send(vec![applied(config("changed", 4))]).await;
    pass(100).await;
    assert_eq!(
        slow.log.take().await,
        "created passed-1, created passed-2, created called, created changed, resynced site-1"
    );
}

/// A controller that runs with the site 1 and a mapper, and handles one object at a time, for a
/// second.
struct Slow {
    controller: InformerController,
    kind: Kind<ConfigMap>,
    themes_kind: Kind<ConfigMap>,
    log: Log,
    sites: mpsc::Sender<Vec<Change<ConfigMap>>>,
    themes: Script<ConfigMap>,
    /// Another subscriber of the informer of the sites. While it takes no events, the informer
    /// delivers one, and waits with the next and with all resyncs.
    held_up: Option<Subscription<ConfigMap>>,
}

/// A source that sends several changes at once.
struct Batches(mpsc::Receiver<Vec<Change<ConfigMap>>>);

impl Source<ConfigMap> for Batches {
    fn resource(&self) -> String {
        "batches".to_owned()
    }

    async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
        while let Some(batch) = self.0.recv().await {
            for change in batch {
                if changes.send(change).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Slow {
    async fn start() -> Self {
        let one = NonZeroUsize::MIN;
        let (sites, source) = mpsc::channel(1);
        let informer = Informer::builder(Batches(source)).buffer(one).build();
        let mut held_up = informer.subscribe();
        let controller = InformerController::builder().concurrency(one).build();
        let controller = controller.expect("good settings");
        let kind = controller.kind(KIND).expect("a new kind");
        controller.add_informer(&kind, &informer).expect("added");
        let (themes, source) = Scripted::new();
        let themes_kind = controller.kind(THEMES).expect("a new kind");
        let added = controller.add_informer(&themes_kind, &Informer::new(source));
        added.expect("added");
        let log = Log::default();
        let lines = log.clone();
        let reconciler = move |request: Request<ConfigMap>| {
            let lines = lines.clone();
            async move {
                let name = request.key().name();
                lines.say(format_args!("{} {name}", word(request.action())));
                // In virtual time: how long the call takes.
                tokio::time::sleep(secs(1)).await;
                Ok::<_, Refused>(Outcome::done())
            }
        };
        controller.add_reconciler(&kind, reconciler).expect("added");
        let added = controller.add_mapper(&themes_kind, &kind, used_by);
        added.expect("both kinds are there");
        tokio::spawn({
            let controller = controller.clone();
            async move { controller.run(CancellationToken::new()).await }
        });
        themes.list([]).await.expect("it runs");
        let list = vec![
            Change::ListStarted,
            applied(config("site-1", 0)),
            Change::ListEnded {
                resource_version: None,
            },
        ];
        sites.send(list).await.expect("it runs");
        for _ in ["added", "synced"] {
            held_up.next().await.expect("it runs");
        }
        pass(100).await;
        assert_eq!(log.take().await, "created site-1");
        Self {
            controller,
            kind,
            themes_kind,
            log,
            sites,
            themes,
            held_up: Some(held_up),
        }
    }

    /// Sends changes of sites.
    async fn send(&self, changes: Vec<Change<ConfigMap>>) {
        self.sites.send(changes).await.expect("it runs");
        settle().await;
    }

    /// Adds another informer of `kind`, which lists `objects`.
    async fn add(&self, kind: &Kind<ConfigMap>, objects: impl IntoIterator<Item = ConfigMap>) {
        let (script, source) = Scripted::new();
        let added = (self.controller).add_informer(kind, &Informer::new(source));
        added.expect("added");
        script.list(objects).await.expect("it runs");
        settle().await;
    }

    /// The other subscriber takes all events from now on.
    fn free(&mut self) {
        let mut held_up = self.held_up.take().expect("once");
        tokio::spawn(async move { while held_up.next().await.is_some() {} });
    }
}

fn applied(object: ConfigMap) -> Change<ConfigMap> {
    Change::Applied(object.into())
}

//! A change of one kind reconciles objects of another.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use windlass_controller::{
    Action, AddError, Delivery, GenerationChanged, InformerController, InformerControllerBuilder,
    Mapper, Outcome, Request, Role, SameName,
};
use windlass_informer::{Informer, ObjectKey, Script, Scripted, Store};

use crate::support::{
    KIND, Refused, Rig, Running, ask, config, generation, secs, settle, show, word,
};

/// The kind whose changes concern objects of [`KIND`].
const THEMES: &str = "themes";

/// Rows: KR-05, KR-17
#[tokio::test(start_paused = true)]
async fn whom_a_mapper_names_is_told_again_in_its_newest_state() {
    let (rig, themes) = rig(InformerController::builder());
    rig.watch(rig.log.watcher("w"))
        .reconcile(rig.log.reconciler("r"));
    map(&rig, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 1)).await;
    running.apply(config("site-1", 2)).await;
    running.apply(config("site-2", 1)).await;
    running.said().await;

    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(
        running.said().await,
        "w update site-1=2 site-1=2, r resynced site-1=2"
    );
    themes.delete(config("dark", 1)).await.expect("it runs");
    assert_eq!(
        running.said().await,
        "w update site-1=2 site-1=2, r resynced site-1=2"
    );
    running.stop().await.expect("it stops");
}

/// Rows: BO-09
#[tokio::test(start_paused = true)]
async fn a_reference_that_moves_wakes_both_ends() {
    let running = sites(InformerController::builder(), used_by).await;
    let themes = &running.1;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.0.said().await, "r resynced site-1=0");
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(sorted(&running.0.said().await), [1, 2]);
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(running.0.said().await, "", "nothing changed");
    running.0.stop().await.expect("it stops");
}

/// Its own handler is late, and is told one event for all: each end is woken all the same.
#[tokio::test(start_paused = true)]
async fn a_reference_that_moves_again_and_again_wakes_every_end() {
    let (rig, themes) = rig(InformerController::builder().delivery(Delivery::Latest));
    rig.reconcile(rig.log.reconciler("r"));
    map(&rig, used_by);
    let gate = Arc::new(Semaphore::new(0));
    let late = {
        let (gate, log) = (Arc::clone(&gate), rig.log.clone());
        move |request: Request<ConfigMap>| {
            let (gate, log) = (Arc::clone(&gate), log.clone());
            async move {
                gate.acquire().await?.forget();
                log.say(format_args!("theme {}", ask(&request)));
                Ok::<_, windlass_controller::Failure>(Outcome::done())
            }
        }
    };
    rig.controller.add_reconciler(THEMES, late).expect("added");
    let running = start(rig, &themes).await;
    for site in 1..=4 {
        running.apply(config(&format!("site-{site}"), 0)).await;
    }
    running.said().await;
    for site in 1..=4 {
        themes.apply(config("dark", site)).await.expect("it runs");
    }
    let mut woken = sorted(&running.said().await);
    woken.dedup();
    assert_eq!(woken, [1, 2, 3, 4]);
    gate.add_permits(9);
    assert_eq!(
        running.said().await,
        "theme created dark=1, theme updated dark=4"
    );
    running.stop().await.expect("it stops");
}

/// Rows: KR-17
#[tokio::test(start_paused = true)]
async fn a_mapper_may_name_nobody_many_and_those_that_are_not_there() {
    let named = |theme: &ConfigMap| {
        let sites = match show(theme).as_str() {
            "light=1" => vec!["site-1", "site-9", "site-2", "site-1"],
            _ => Vec::new(),
        };
        sites
            .into_iter()
            .map(|site| ObjectKey::new(site).within("shop"))
            .collect::<Vec<_>>()
    };
    let (running, themes) = sites(InformerController::builder(), named).await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.said().await, "");
    themes.apply(config("light", 1)).await.expect("it runs");
    assert_eq!(sorted(&running.said().await), [1, 2]);
    // It was named before it came, and is told as any other.
    running.apply(config("site-9", 1)).await;
    assert_eq!(running.said().await, "r created site-9=1");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_are_not_a_thousand_calls() {
    for delivery in [Delivery::Every, Delivery::Latest] {
        let (rig, themes) = rig(InformerController::builder().delivery(delivery));
        let gate = Arc::new(Semaphore::new(0));
        let calls = Arc::new(AtomicUsize::new(0));
        let slow = {
            let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
            move |_: Request<ConfigMap>| {
                let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
                async move {
                    gate.acquire().await?.forget();
                    calls.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, windlass_controller::Failure>(Outcome::done())
                }
            }
        };
        rig.reconcile(slow);
        map(&rig, used_by);
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
async fn nobody_is_told_again_before_being_told() {
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
    map(&rig, used_by);
    let running = rig.start();
    let list = (0..100).map(|site| config(&format!("site-{site}"), 0));
    let sites = running.rig.script.list(list);
    let list = (0..100).map(|site| config(&format!("theme-{site}"), site));
    let (sites, themes) = tokio::join!(sites, themes.list(list));
    sites.and(themes).expect("it runs");
    tokio::time::sleep(secs(1000)).await;
    let said = running.said().await;
    let said: Vec<_> = said.split(", ").collect();
    for site in 0..100 {
        let at = |action: &str| {
            let line = format!("{action} site-{site}");
            said.iter().position(|it| *it == line)
        };
        let created = at("created").expect("it was told");
        assert!(at("resynced").is_none_or(|at| created < at), "{site}");
    }
    assert!(said.len() <= 200, "{}", said.len());
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_that_panics_is_reported_and_loses_its_own_answer_alone() {
    let reports = crate::support::Log::default();
    let log = reports.clone();
    let builder = InformerController::builder().on_error(move |report| {
        assert_eq!(report.role, Role::Mapper);
        log.say(report);
    });
    let (running, themes) = sites(builder, |theme: &ConfigMap| {
        assert_ne!(show(theme), "dark=1", "not this one");
        used_by(theme)
    })
    .await;
    map(&running.rig, |_: &ConfigMap| {
        Some(ObjectKey::new("site-3").within("shop"))
    });
    themes.apply(config("dark", 1)).await.expect("it runs");
    // Another mapper is asked all the same.
    assert_eq!(sorted(&running.said().await), [3]);
    let report = reports.take().await;
    assert!(
        report.starts_with("mapper 1 of themes shop/dark on CREATE: the handler panicked:"),
        "{report}"
    );
    // And what it says of the new object, where it panics for the old.
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(sorted(&running.said().await), [2, 3]);
    assert!(reports.take().await.contains("on UPDATE"));
    running.stop().await.expect("it stops");
}

#[test]
fn a_mapper_needs_a_kind_to_name_and_has_the_type_of_the_kind_that_it_is_asked_of() {
    let rig = Rig::new(InformerController::builder());
    let add = |kind, to| rig.controller.add_mapper::<Secret>(kind, to, SameName);
    let unknown = add("secrets", "themes").expect_err("nobody is called so");
    assert!(matches!(&unknown, AddError::UnknownKind { kind } if kind == "themes"));
    assert_eq!(unknown.reason(), "unknown_kind");
    assert!(matches!(add("", KIND), Err(AddError::EmptyKind)));
    assert!(matches!(add(KIND, KIND), Err(AddError::OtherType { .. })));
    add("secrets", KIND).expect("both are known");
    add("secrets", "secrets").expect("both are known");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_is_added_and_removed_while_the_controller_runs() {
    let (rig, themes) = rig(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    running.said().await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.said().await, "", "nobody has asked for it");

    let first = map(&running.rig, used_by);
    themes.apply(config("light", 1)).await.expect("it runs");
    assert_eq!(running.said().await, "r resynced site-1=0");

    let controller = &running.rig.controller;
    assert!(!controller.remove_mapper(KIND, first), "of another kind");
    assert!(!controller.remove_reconciler(THEMES, first), "no handler");
    assert!(controller.remove_mapper(THEMES, first));
    assert!(!controller.remove_mapper(THEMES, first));
    themes.delete(config("light", 1)).await.expect("it runs");
    assert_eq!(running.said().await, "");
    map(&running.rig, used_by);
    map(&running.rig, used_by);
    assert_eq!(controller.remove_all_mappers(THEMES), 2);
    assert_eq!(controller.remove_all_mappers("nobody"), 0);
    running.stop().await.expect("it stops");
}

/// It is as urgent as the change that woke it, and nothing that was there at the start is.
#[tokio::test(start_paused = true)]
async fn who_is_named_does_not_wait_for_the_first_list() {
    let one = 1.try_into().expect("not zero");
    let (rig, themes) = rig(InformerController::builder().concurrency(one));
    let gate = Arc::new(Semaphore::new(1));
    let (log, pass) = (rig.log.clone(), Arc::clone(&gate));
    rig.reconcile(move |request: Request<ConfigMap>| {
        let (log, pass) = (log.clone(), Arc::clone(&pass));
        async move {
            log.say(ask(&request));
            pass.acquire().await?.forget();
            Ok::<_, windlass_controller::Failure>(Outcome::done())
        }
    });
    map(&rig, used_by);
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    assert_eq!(running.said().await, "created site-1=0");
    let (script, source) = Scripted::new();
    let controller = &running.rig.controller;
    controller
        .add_informer(KIND, &Informer::new(source))
        .expect("added");
    let list = ["l1", "l2", "l3"].map(|name| config(name, 1));
    script.list(list).await.expect("it runs");
    assert_eq!(running.said().await, "created l1=1");
    themes.apply(config("dark", 1)).await.expect("it runs");
    settle().await;
    gate.add_permits(9);
    assert_eq!(
        running.said().await,
        "resynced site-1=0, created l2=1, created l3=1"
    );
    running.stop().await.expect("it stops");
}

/// Whoever names objects of its own kind wakes them, and is not asked of that again.
#[tokio::test(start_paused = true)]
async fn what_is_named_is_not_mapped_again() {
    let rig = Rig::new(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    rig.controller
        .add_mapper(KIND, KIND, |_: &ConfigMap| {
            ["a", "b"].map(|name| ObjectKey::new(name).within("shop"))
        })
        .expect("added");
    let running = rig.start_empty().await;
    running.apply(config("a", 1)).await;
    running.said().await;
    running.apply(config("b", 1)).await;
    let said = running.said().await;
    let mut said: Vec<_> = said.split(", ").collect();
    said.sort_unstable();
    assert_eq!(said, ["r created b=1", "r resynced a=1"]);
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_can_have_a_predicate() {
    let used_by = Mapper::filter(used_by, GenerationChanged);
    let (running, themes) = sites(InformerController::builder(), used_by).await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.said().await, "r resynced site-1=0");
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(running.said().await, "", "its generation is the same");
    let changed = generation(config("dark", 3), 2);
    themes.apply(changed).await.expect("it runs");
    assert_eq!(sorted(&running.said().await), [2, 3]);
    running.stop().await.expect("it stops");
}

/// What another informer of the kind has is found there.
#[tokio::test(start_paused = true)]
async fn whom_a_mapper_names_is_looked_for_in_every_informer_of_the_kind() {
    let (running, themes) = sites(InformerController::builder(), used_by).await;
    let (script, source) = Scripted::new();
    let controller = &running.rig.controller;
    controller
        .add_informer(KIND, &Informer::new(source))
        .expect("added");
    script.list([config("site-7", 0)]).await.expect("it runs");
    running.said().await;
    themes.apply(config("dark", 7)).await.expect("it runs");
    assert_eq!(running.said().await, "r resynced site-7=0");
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn what_mappers_name_is_counted_if_it_is_there() {
    let builder = InformerController::builder().on_error(|_| {});
    let (running, themes) = sites(builder, used_by).await;
    for site in [1, 2, 9] {
        let theme = config(&format!("theme-{site}"), site);
        themes.apply(theme).await.expect("it runs");
    }
    running.said().await;
    map(&running.rig, |_: &ConfigMap| -> Option<ObjectKey> {
        panic!("no answer")
    });
    themes.apply(config("theme-1", 1)).await.expect("it runs");
    themes.delete(config("theme-1", 1)).await.expect("it runs");
    running.said().await;
    let counted = |name: &str, kind: &str| {
        let collectors = running.rig.controller.prometheus_collectors();
        let families = collectors.iter().flat_map(|it| it.collect());
        let mut metrics = families
            .filter(|family| family.name() == name)
            .flat_map(|family| family.get_metric().to_vec());
        let of_kind = metrics.find(|metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.name() == "kind" && label.value() == kind)
        });
        of_kind.map(|metric| metric.get_counter().get_value().to_string())
    };
    let three = Some("3".to_owned());
    assert_eq!(counted("mapped_objects_total", KIND), three);
    let panics = "controller_runtime_reconcile_panics_total";
    assert_eq!(counted(panics, THEMES).as_deref(), Some("1"));
    running.stop().await.expect("it stops");
}

/// What is known of a site: its uid, and the themes that named it when it was last told.
struct Known {
    uid: Option<String>,
    themes: Vec<Option<String>>,
}

const OBJECTS: u32 = 40;
const ROUNDS: u32 = 40;

/// Themes move from site to site, while sites go and come back: in the end each site has been
/// told since the last theme came to it or left it, and none before it was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_is_lost_whatever_the_threads_do() {
    for delivery in [Delivery::Every, Delivery::Latest] {
        let errors = crate::support::Log::default();
        let log = errors.clone();
        let builder = InformerController::builder()
            .delivery(delivery)
            .on_error(move |report| log.say(report))
            .queue(16.try_into().expect("not zero"));
        let rig = Rig::new(builder);
        let (script, source) = Scripted::new();
        let informer = Informer::new(source);
        let controller = &rig.controller;
        controller.add_informer(THEMES, &informer).expect("added");
        map(&rig, used_by);
        let themes = informer.store();

        let seen: Arc<Mutex<HashMap<ObjectKey, Known>>> = Arc::default();
        let told = Arc::new(Notify::new());
        let (store, book, tell) = (themes.clone(), Arc::clone(&seen), Arc::clone(&told));
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
                told.notified().await;
            }
        };
        let done = tokio::time::timeout(secs(60), done).await;
        assert!(done.is_ok(), "a change was lost, {delivery:?}");
        assert_eq!(errors.take().await, "", "{delivery:?}");
        running.stop().await.expect("it stops");
    }
}

/// Notes what a site has been told. It must have been there, but for its beginning and its end:
/// one that came and went may be told its end alone.
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

// --- themes and the sites that use them ---

/// A theme names the site whose number is its value.
fn used_by(theme: &ConfigMap) -> Option<ObjectKey> {
    let number = &theme.data.as_ref()?["value"];
    Some(ObjectKey::new(format!("site-{number}")).within("shop"))
}

/// A controller with an informer of themes too.
fn rig(builder: InformerControllerBuilder) -> (Rig, Script<ConfigMap>) {
    let rig = Rig::new(builder);
    let (script, source) = Scripted::new();
    let themes = Informer::new(source);
    rig.controller
        .add_informer(THEMES, &themes)
        .expect("another informer");
    (rig, script)
}

fn map(rig: &Rig, mapper: impl Mapper<ConfigMap>) -> windlass_controller::HandlerId {
    let added = rig.controller.add_mapper(THEMES, KIND, mapper);
    added.expect("both kinds are there")
}

async fn start(rig: Rig, themes: &Script<ConfigMap>) -> Running {
    let running = rig.start_empty().await;
    themes.list([]).await.expect("it runs");
    settle().await;
    running
}

/// A controller that runs, with a reconciler, a mapper, and the sites 1 to 3.
async fn sites(
    builder: InformerControllerBuilder,
    mapper: impl Mapper<ConfigMap>,
) -> (Running, Script<ConfigMap>) {
    let (rig, themes) = rig(builder);
    rig.reconcile(rig.log.reconciler("r"));
    map(&rig, mapper);
    let running = start(rig, &themes).await;
    for site in 1..=3 {
        running.apply(config(&format!("site-{site}"), 0)).await;
    }
    running.said().await;
    (running, themes)
}

/// The numbers of the sites that were told again.
fn sorted(said: &str) -> Vec<u32> {
    let sites = said.split(", ").filter(|line| !line.is_empty());
    let mut sites: Vec<_> = sites
        .map(|line| {
            let number = line.strip_prefix("r resynced site-").expect(line);
            let number = number.split('=').next().expect("a part");
            number.parse().expect("a number")
        })
        .collect();
    sites.sort_unstable();
    sites
}

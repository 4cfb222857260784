//! Several informers of one kind give the handlers one history of each object: random histories.
//!
//! The informers select different parts of the kind, lag behind each other by any number of writes,
//! list again, are removed and added. The calls are compared with what the stores of the informers
//! have, and with the server when all have caught up.

mod server;

use std::{collections::BTreeMap, convert::Infallible, fmt::Display, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_controller::{InformerController, Kind, RunError, Watcher};
use windlass_informer::Informer;

use self::server::{Follower, Replica, Server, Version, identify};
use crate::support::{KIND, settle};

/// The parts of the kind that each informer selects. Every two of them overlap.
const SELECTED: [&[u8]; 3] = [&[0, 1], &[1, 2], &[0, 2]];

/// Something that happens to the server or to an informer.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Creates the object of this name in this part, or moves it there.
    Write(u8, u8),
    Delete(u8),
    /// The watch of this informer sends this number of writes.
    Watch(usize, usize),
    /// The watch expires, so the source lists again.
    Expire(usize),
    /// A relist is requested.
    Relist(usize),
    /// The list of this informer is complete.
    EndList(usize),
    /// Adds this informer, or removes it.
    Toggle(usize),
    /// All informers read everything.
    CatchUp,
}

/// The state of each object as the calls show it, by uid.
#[derive(Default)]
struct Calls {
    shown: BTreeMap<String, Version>,
    /// The versions of deletes: an older state of the object must not be shown.
    deleted: BTreeMap<String, u64>,
    /// Objects that may be added again: an informer that had them was removed.
    forgotten: Vec<String>,
    /// Whether the calls may show a state again: an informer ran before there was another one. Only
    /// the last state of each object is checked then.
    may_repeat: bool,
    /// Calls that do not follow from the calls before them.
    wrong: Vec<String>,
}

/// A watcher that checks each call against the calls before it.
#[derive(Clone, Default)]
struct Checked(Arc<Mutex<Calls>>);

struct World {
    server: Arc<Mutex<Server>>,
    controller: InformerController,
    kind: Kind<ConfigMap>,
    informers: [Option<(Informer<ConfigMap>, Arc<Replica>)>; SELECTED.len()],
    /// Whether the first informer ran before there was another one: objects that it has are shown as
    /// it shows them, until its next event.
    precedes: bool,
    calls: Checked,
    stop: CancellationToken,
    run: JoinHandle<Result<(), RunError>>,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn several_informers_are_merged_into_one_history_of_each_object(
        steps in prop::collection::vec(step(), 1..60),
        first in 1..=SELECTED.len(),
    ) {
        check(&steps, first);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let informer = || 0..SELECTED.len();
    prop_oneof![
        10 => (0..3_u8, 0..3_u8).prop_map(|(name, part)| Step::Write(name, part)),
        4 => (0..3_u8).prop_map(Step::Delete),
        14 => (informer(), 1..4_usize).prop_map(|(informer, count)| Step::Watch(informer, count)),
        2 => informer().prop_map(Step::Expire),
        1 => informer().prop_map(Step::Relist),
        6 => informer().prop_map(Step::EndList),
        2 => informer().prop_map(Step::Toggle),
        2 => Just(Step::CatchUp),
    ]
}

/// Runs `steps` with the `first` informers at the start.
fn check(steps: &[Step], first: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(first);
        world.catch_up().await;
        for step in steps {
            world.take(*step).await;
        }
        world.catch_up().await;
        world.stop.cancel();
        let ended = world.run.await;
        ended.expect("no panic").expect("it stops");
    });
}

// === impl Calls ===

impl Calls {
    /// Notes that `is` has to be true. A panic would only fail the call, which would be repeated.
    fn require(&mut self, is: bool, why: impl Display) {
        if !is && !self.may_repeat {
            self.wrong.push(why.to_string());
        }
    }
}

// === impl Checked ===

impl Watcher<ConfigMap> for Checked {
    type Error = Infallible;

    async fn add(&self, object: Arc<ConfigMap>) -> Result<(), Infallible> {
        let (uid, version) = identify(&object);
        let mut calls = self.0.lock();
        let deleted = calls.deleted.get(&uid).copied();
        let is_deleted = deleted.is_some_and(|it| version.number < it);
        let before = calls.shown.insert(uid.clone(), version);
        let is_new = before.is_none() || calls.forgotten.contains(&uid);
        let call = format!("add {uid} {version:?}");
        calls.require(!is_deleted, format_args!("{call}, deleted at {deleted:?}"));
        calls.require(is_new, format_args!("{call}, shown as {before:?}"));
        Ok(())
    }

    async fn update(&self, old: Arc<ConfigMap>, new: Arc<ConfigMap>) -> Result<(), Infallible> {
        let ((other, old), (uid, new)) = (identify(&old), identify(&new));
        let mut calls = self.0.lock();
        let before = calls.shown.insert(uid.clone(), new);
        let old_is_known = before.is_some_and(|it| it.has_content_of(old)) && uid == other;
        let is_newer = new.number > old.number || (new.number == old.number && new != old);
        let follows = old_is_known && is_newer;
        let call = format!("update {uid} {old:?} {new:?}");
        calls.require(follows, format_args!("{call}, shown as {before:?}"));
        Ok(())
    }

    async fn delete(&self, last: Arc<ConfigMap>) -> Result<(), Infallible> {
        let (uid, last) = identify(&last);
        let mut calls = self.0.lock();
        let before = calls.shown.remove(&uid);
        let follows = before.is_some_and(|it| last.number >= it.number);
        let call = format!("delete {uid} {last:?}");
        calls.require(follows, format_args!("{call}, shown as {before:?}"));
        calls.deleted.insert(uid, last.number);
        Ok(())
    }

    async fn resync(&self, object: Arc<ConfigMap>) -> Result<(), Infallible> {
        let (uid, version) = identify(&object);
        let mut calls = self.0.lock();
        let shown = calls.shown.get(&uid).copied();
        let call = format!("resync {uid} {version:?}");
        calls.require(
            shown == Some(version),
            format_args!("{call}, shown as {shown:?}"),
        );
        Ok(())
    }
}

// === impl World ===

impl World {
    /// Starts a controller with the `first` informers.
    fn new(first: usize) -> Self {
        let controller = InformerController::builder()
            .cache_sync_timeout(None)
            .build()
            .expect("good settings");
        let calls = Checked::default();
        calls.0.lock().may_repeat = first == 1;
        let kind = controller.kind(KIND).expect("a new kind");
        (controller.add_watcher(&kind, calls.clone())).expect("a watcher");
        let server = Arc::<Mutex<Server>>::default();
        let mut informers = [const { None }; SELECTED.len()];
        for (informer, parts) in informers.iter_mut().zip(SELECTED).take(first) {
            *informer = Some(add(&controller, &kind, &server, parts));
        }
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (controller, stop) = (controller.clone(), stop.clone());
            async move { controller.run(stop).await }
        });
        Self {
            server,
            controller,
            kind,
            informers,
            precedes: first == 1,
            calls,
            stop,
            run,
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Write(name, part) => self.server.lock().write(name, part),
            Step::Delete(name) => self.server.lock().delete(name),
            Step::Watch(informer, count) => {
                self.change(informer, |it, head| {
                    it.target = (it.position + count).min(head);
                });
            }
            Step::Expire(informer) => self.change(informer, |it, _| it.expired = true),
            Step::Relist(informer) => {
                if let Some((informer, _)) = &self.informers[informer] {
                    informer.relist();
                }
            }
            Step::EndList(informer) => self.change(informer, |it, _| it.may_end = true),
            Step::Toggle(informer) => self.toggle(informer).await,
            Step::CatchUp => self.catch_up().await,
        }
        settle().await;
        self.compare_with_stores();
    }

    fn change(&self, informer: usize, change: impl FnOnce(&mut Follower, usize)) {
        let head = self.server.lock().head();
        if let Some((_, replica)) = &self.informers[informer] {
            replica.change(|it| change(it, head));
        }
    }

    /// Adds an informer, or removes it unless it is the last one.
    async fn toggle(&mut self, at: usize) {
        let Some((informer, _)) = &self.informers[at] else {
            self.informers[at] = Some(add(
                &self.controller,
                &self.kind,
                &self.server,
                SELECTED[at],
            ));
            return;
        };
        let is_last = self.informers.iter().flatten().count() == 1;
        // Before all have synced, its events are queued, and would be dispatched after that.
        if is_last || !self.controller.has_synced() {
            return;
        }
        settle().await;
        let mut calls = self.calls.0.lock();
        calls.forgotten = calls.shown.keys().cloned().collect();
        assert!(self.controller.remove_informer(informer));
        self.informers[at] = None;
        self.precedes &= at > 0;
        let holders: Vec<_> = self.stores();
        let is_held = |uid: &String| holders.iter().any(|it| it.contains_key(uid));
        // Without an event.
        calls.shown.retain(|uid, _| is_held(uid));
        calls.deleted.retain(|uid, _| is_held(uid));
    }

    /// The objects of each store.
    fn stores(&self) -> Vec<BTreeMap<String, Version>> {
        let informers = self.informers.iter().flatten();
        let store = |(informer, _): &(Informer<ConfigMap>, _)| {
            let objects = informer.store().list();
            objects.iter().map(|it| identify(it)).collect()
        };
        informers.map(store).collect()
    }

    /// Checks that exactly the objects in the stores were shown, unless they were deleted later.
    fn compare_with_stores(&self) {
        let calls = self.calls.0.lock();
        assert!(calls.wrong.is_empty(), "{:?}", calls.wrong);
        if !self.controller.has_synced() {
            return;
        }
        let stores = self.stores();
        for (uid, shown) in &calls.shown {
            let known = || stores.iter().filter_map(|it| it.get(uid));
            let preceding = known()
                .next()
                .filter(|_| self.precedes && stores[0].contains_key(uid));
            let newest = preceding.or_else(|| known().max_by_key(|it| it.number));
            let newest = newest.map(|it| it.number);
            let newest = newest.unwrap_or_else(|| panic!("no store has {uid}"));
            assert!(
                shown.number >= newest,
                "{uid} {shown:?}, a store has {newest}"
            );
        }
        let all = stores.iter().flatten();
        for (uid, version) in all.filter(|(uid, _)| !calls.shown.contains_key(*uid)) {
            let deleted = self.server.lock().newest_delete(uid);
            assert!(
                deleted.is_some_and(|it| version.number < it),
                "{uid} {version:?} was not shown"
            );
        }
    }

    /// Lets all informers read everything. Then the calls have shown the state of the server.
    async fn catch_up(&mut self) {
        // A list, one that another informer requests, and their watches.
        for _ in 0..8 {
            for informer in 0..SELECTED.len() {
                self.change(informer, |it, head| {
                    it.may_end = true;
                    it.target = head;
                });
            }
            settle().await;
        }
        let server = self.server.lock();
        for (_, replica) in self.informers.iter().flatten() {
            let follower = replica.follower.lock();
            assert!(follower.is_watching && follower.position == server.head());
        }
        let selected: BTreeMap<_, _> = (self.informers.iter().zip(SELECTED))
            .filter(|(informer, _)| informer.is_some())
            .flat_map(|(_, parts)| server.list(parts))
            .map(|object| identify(&object))
            .collect();
        let mut calls = self.calls.0.lock();
        assert!(calls.wrong.is_empty(), "{:?}", calls.wrong);
        assert_eq!(calls.shown, selected);
        calls.forgotten.clear();
    }
}

fn add(
    controller: &InformerController,
    kind: &Kind<ConfigMap>,
    server: &Arc<Mutex<Server>>,
    parts: &'static [u8],
) -> (Informer<ConfigMap>, Arc<Replica>) {
    let (replica, source) = Replica::new(server, parts);
    let informer = Informer::new(source);
    (controller.add_informer(kind, &informer)).expect("an informer");
    (informer, replica)
}

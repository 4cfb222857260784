//! Wrapped handlers that receive events directly, in an order in which informers that lag show
//! them.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use windlass_controller::{
    Action, DeleteOrder, Failure, FinalizerHook, Interest, OnSelectorExit, OpinionatedReconciler,
    OpinionatedWatcher, Outcome, Reconciler, Request, SimpleWatcher, Watcher,
};
use windlass_informer::{Event, LazyObject};

use crate::{
    support::Rig,
    world::{Fault, OWN},
};

const THEIRS: &str = "test.windlass.dev/theirs";

/// A wrapped watcher or a wrapped reconciler.
enum Wrapped<R> {
    Watcher(OpinionatedWatcher<Lease, SimpleWatcher<Lease>>),
    Reconciler(OpinionatedReconciler<Lease, R>),
}

/// The type of the reconciler where there is none.
type NoReconciler = fn(Request<Lease>) -> std::future::Ready<Result<Outcome, Failure>>;

// === impl Wrapped ===

impl<R: Reconciler<Lease>> Wrapped<R> {
    /// The lines that the inner handler logs for an add, a resume and a clean-up.
    fn words(&self) -> [&'static str; 3] {
        match self {
            Self::Watcher(_) => ["add", "sync", "delete"],
            Self::Reconciler(_) => ["created", "resynced", "deleted"],
        }
    }

    async fn add(&self, object: &Arc<Lease>) -> Result<(), Failure> {
        match self {
            Self::Watcher(watcher) => watcher.add(Arc::clone(object)).await,
            Self::Reconciler(reconciler) => call(reconciler, Action::Created, object).await,
        }
    }

    async fn resync(&self, object: &Arc<Lease>) -> Result<(), Failure> {
        match self {
            Self::Watcher(watcher) => watcher.resync(Arc::clone(object)).await,
            Self::Reconciler(reconciler) => call(reconciler, Action::Resynced, object).await,
        }
    }

    async fn update(&self, old: &Arc<Lease>, new: &Arc<Lease>) -> Result<(), Failure> {
        match self {
            Self::Watcher(watcher) => watcher.update(Arc::clone(old), Arc::clone(new)).await,
            Self::Reconciler(reconciler) => call(reconciler, Action::Updated, new).await,
        }
    }

    async fn delete(&self, last: &Arc<Lease>) -> Result<(), Failure> {
        match self {
            Self::Watcher(watcher) => watcher.delete(Arc::clone(last)).await,
            Self::Reconciler(reconciler) => call(reconciler, Action::Deleted, last).await,
        }
    }

    fn interest(&self, event: &Event<Lease>) -> Interest {
        self.finalizer().on_event(event)
    }

    fn finalizer(&self) -> FinalizerHook<'_, Lease> {
        let finalizer = match self {
            Self::Watcher(watcher) => watcher.finalizer(),
            Self::Reconciler(reconciler) => reconciler.finalizer(),
        };
        finalizer.expect("it has one")
    }

    /// The number of objects that the wrapper remembers.
    fn remembered(&self) -> usize {
        let shown = match self {
            Self::Watcher(watcher) => format!("{watcher:?}"),
            Self::Reconciler(reconciler) => format!("{reconciler:?}"),
        };
        let (_, number) = shown.split_once("remembered: ").expect("a field");
        let (number, _) = number.split_once(' ').expect("the end of the struct");
        number.parse().expect("a number")
    }
}

async fn call<R: Reconciler<Lease>>(
    reconciler: &OpinionatedReconciler<Lease, R>,
    action: Action,
    object: &Arc<Lease>,
) -> Result<(), Failure> {
    let request = Request::new(action, Arc::clone(object));
    let outcome: Outcome = reconciler.reconcile(request).await?;
    assert_eq!(outcome.delay(), None);
    Ok(())
}

/// Each wrapper in a world of its own.
fn each(exit: OnSelectorExit) -> [(Rig, Wrapped<impl Reconciler<Lease>>); 2] {
    let (first, second) = (Rig::new(), Rig::new());
    let watcher = first.watcher().on_selector_exit(exit);
    let reconciler = second.reconciler().on_selector_exit(exit);
    [
        (first, Wrapped::Watcher(watcher)),
        (second, Wrapped::Reconciler(reconciler)),
    ]
}

/// Creates an object and adds it. Returns its first state, and that with the finalizer.
async fn added<R: Reconciler<Lease>>(rig: &Rig, wrapped: &Wrapped<R>) -> [Arc<Lease>; 2] {
    rig.world.create("web", 1).await;
    let first = rig.world.object("web").await;
    wrapped.add(&first).await.expect("it is added");
    let [add, ..] = wrapped.words();
    assert_eq!(
        rig.logged().await,
        format!("web [wip], {add} web=1, web [own]")
    );
    [first, rig.world.object("web").await]
}

#[tokio::test(start_paused = true)]
async fn a_wrapper_names_its_finalizer() {
    for (_rig, wrapped) in each(OnSelectorExit::default()) {
        assert_eq!(wrapped.finalizer().name().as_str(), OWN);
    }
}

/// Row: GA-80
#[tokio::test(start_paused = true)]
async fn an_object_that_was_cleaned_up_after_its_end_is_not_resumed_by_an_informer_that_lags() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        let [_, held] = added(&rig, &wrapped).await;
        rig.world.remove("web").await;
        wrapped.delete(&held).await.expect("it is cleaned up");
        let [.., delete] = wrapped.words();
        assert_eq!(rig.logged().await, format!("{delete} web=1"));
        wrapped.add(&held).await.expect("nothing is done");
        wrapped.resync(&held).await.expect("nothing is done");
        assert_eq!(rig.logged().await, "");
    }
}

/// A wrapper remembers a limited number of released objects, of which an informer that lags may
/// show an old state.
#[tokio::test(start_paused = true)]
async fn the_number_of_remembered_objects_is_limited() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        for number in 0..1_005 {
            let name = format!("web-{number}");
            rig.world.create(&name, 1).await;
            wrapped
                .add(&rig.world.object(&name).await)
                .await
                .expect("it is added");
            let held = rig.world.object(&name).await;
            rig.world.delete(&name).await;
            let marked = rig.world.object(&name).await;
            wrapped.update(&held, &marked).await.expect("cleaned up");
            wrapped.delete(&marked).await.expect("it was released");
        }
        assert_eq!(wrapped.remembered(), 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_foreign_terminating_object_is_removed_with_it() {
    let calls = ["", "deleted web=1"];
    for ((rig, wrapped), calls) in each(OnSelectorExit::default()).into_iter().zip(calls) {
        rig.world.create("web", 1).await;
        rig.world.set_finalizers("web", &[THEIRS]).await;
        rig.world.delete("web").await;
        let marked = rig.world.object("web").await;
        wrapped.add(&marked).await.expect("it is ignored");
        assert_eq!(wrapped.remembered(), 1);
        rig.world.remove("web").await;
        wrapped.delete(&marked).await.expect("it is forgotten");
        assert_eq!(rig.logged().await, calls);
        if calls.is_empty() {
            assert_eq!(wrapped.remembered(), 0);
        }
    }
}

/// With the finalizer removed first, a clean-up follows the last state that the informer has shown.
#[tokio::test(start_paused = true)]
async fn after_its_release_an_object_is_cleaned_up_in_its_last_shown_state() {
    let rig = Rig::new();
    let reconciler = rig.reconciler().delete_order(DeleteOrder::AfterRemoval);
    let wrapped = Wrapped::Reconciler(reconciler);
    let [_, held] = added(&rig, &wrapped).await;
    rig.world.set_finalizers("web", &[OWN, THEIRS]).await;
    rig.world.delete("web").await;
    let marked = rig.world.object("web").await;
    wrapped
        .update(&held, &marked)
        .await
        .expect("it is released");
    assert_eq!(rig.logged().await, "web [theirs]");
    // The object leaves the selector, and is changed outside of it.
    rig.world.update("web", 2).await;
    wrapped.delete(&marked).await.expect("it is cleaned up");
    assert_eq!(rig.logged().await, "deleted web=1");
}

/// An object leaves the selector after another writer has removed our finalizer.
#[tokio::test(start_paused = true)]
async fn outside_of_the_selector_a_free_object_is_cleaned_up_if_it_dies_or_the_setting_says_so() {
    for exit in [OnSelectorExit::Release, OnSelectorExit::CleanUp] {
        for dies in [true, false] {
            for (rig, wrapped) in each(exit) {
                let [_, held] = added(&rig, &wrapped).await;
                if dies {
                    rig.world.set_finalizers("web", &[OWN, THEIRS]).await;
                    rig.world.delete("web").await;
                }
                rig.world.set_finalizers("web", &[THEIRS]).await;
                wrapped.delete(&held).await.expect("it is processed");
                let is_called = dies || exit == OnSelectorExit::CleanUp;
                let [.., delete] = wrapped.words();
                let expected = if is_called {
                    format!("{delete} web=1")
                } else {
                    String::new()
                };
                assert_eq!(rig.logged().await, expected, "{exit:?}, dies: {dies}");
            }
        }
    }
}

/// The object was released outside of the selector, and an informer shows it with its previous
/// finalizer.
#[tokio::test(start_paused = true)]
async fn a_released_object_that_is_shown_with_its_old_finalizer_gets_a_new_one() {
    for (rig, wrapped) in each(OnSelectorExit::Release) {
        let [_, held] = added(&rig, &wrapped).await;
        wrapped.delete(&held).await.expect("it is released");
        assert_eq!(rig.logged().await, "web []");
        wrapped.add(&held).await.expect("it is added");
        let [add, ..] = wrapped.words();
        assert_eq!(
            rig.logged().await,
            format!("web [wip], {add} web=1, web [own]")
        );
    }
}

/// The state with the deletion mark is older than our patch. So the finalizer is only removed if
/// the object still has the mark.
#[tokio::test(start_paused = true)]
async fn after_a_restore_only_an_object_that_dies_is_released() {
    for dies in [true, false] {
        let rig = Rig::new();
        let wrapped = Wrapped::<NoReconciler>::Watcher(rig.watcher());
        let [_, held] = added(&rig, &wrapped).await;
        // The wrapper learns from this that the informer shows the finalizer.
        wrapped.resync(&held).await.expect("it is resumed");
        assert_eq!(rig.logged().await, "sync web=1");
        rig.world.delete("web").await;
        let marked = rig.world.object("web").await;
        rig.world.restore("web").await;
        let restored = rig.world.object("web").await;
        rig.world.set_finalizers("web", &[]).await;
        let free = rig.world.object("web").await;
        // The inner watcher receives nothing, so that the newest state is not remembered.
        wrapped.update(&restored, &free).await.expect("it is held");
        assert_eq!(rig.logged().await, "web [own]");
        if dies {
            rig.world.delete("web").await;
        }
        wrapped.update(&held, &marked).await.expect("cleaned up");
        let patch = if dies { ", web []" } else { "" };
        assert_eq!(rig.logged().await, format!("delete web=1{patch}"));
    }
}

/// An earlier process has guarded it, and it is marked for deletion: the event with the mark will
/// arrive.
#[tokio::test(start_paused = true)]
async fn an_object_that_terminates_before_its_add_is_not_added() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        rig.world.create("web", 1).await;
        let first = rig.world.object("web").await;
        let in_progress = format!("{OWN}.in-progress");
        rig.world.set_finalizers("web", &[&in_progress]).await;
        rig.world.delete("web").await;
        wrapped.add(&first).await.expect("nothing is done");
        let writes = rig.world.writes().await;
        assert!(writes > 0, "it was not known that it dies");
        wrapped.add(&first).await.expect("nothing is done");
        assert_eq!(rig.logged().await, "");
        assert_eq!(rig.world.writes().await, writes);
        let marked = rig.world.object("web").await;
        wrapped.update(&first, &marked).await.expect("cleaned up");
        let [.., delete] = wrapped.words();
        assert_eq!(rig.logged().await, format!("{delete} web=1, web []"));
    }
}

/// Another writer changes the object twice before it is guarded, and the watcher receives the
/// newest state.
#[tokio::test(start_paused = true)]
async fn an_update_to_a_state_before_the_added_one_is_not_passed() {
    let rig = Rig::new();
    let watcher = rig.watcher();
    rig.world.create("web", 1).await;
    let first = rig.world.object("web").await;
    rig.world.update("web", 2).await;
    let second = rig.world.object("web").await;
    rig.world.update("web", 3).await;
    watcher.add(Arc::clone(&first)).await.expect("it is added");
    assert_eq!(rig.logged().await, "web [wip], add web=3, web [own]");
    watcher.update(first, second).await.expect("it is known");
    assert_eq!(rig.logged().await, "");
}

/// Also if the wrapper remembers nothing, as after a restart.
#[tokio::test(start_paused = true)]
async fn an_update_that_only_shows_our_finalizer_is_rejected() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        rig.world.create("web", 1).await;
        let free = rig.world.object("web").await;
        rig.world.set_finalizers("web", &[OWN]).await;
        let held = rig.world.object("web").await;
        rig.world.label("web", "a").await;
        let labelled = rig.world.object("web").await;
        let update = |old: &Arc<Lease>, new: &Arc<Lease>| Event::Updated {
            old: LazyObject::from(Arc::clone(old)),
            new: Arc::clone(new),
        };
        assert_eq!(wrapped.interest(&update(&free, &held)), Interest::No);
        assert_eq!(wrapped.interest(&update(&held, &free)), Interest::Needed);
        assert_eq!(wrapped.interest(&update(&held, &labelled)), Interest::Yes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_an_object_with_our_finalizer_is_needed() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        rig.world.create("web", 1).await;
        let free = rig.world.object("web").await;
        rig.world.set_finalizers("web", &[OWN]).await;
        let held = rig.world.object("web").await;
        let deleted = |last: &Arc<Lease>| Event::Deleted {
            last: Arc::clone(last),
            missed: false,
        };
        assert_eq!(wrapped.interest(&deleted(&held)), Interest::Needed);
        assert_eq!(wrapped.interest(&deleted(&free)), Interest::Yes);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_from_before_our_patch_is_a_resync_or_skipped() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        let [first, _] = added(&rig, &wrapped).await;
        wrapped.add(&first).await.expect("it was added");
        assert_eq!(rig.logged().await, "");
        wrapped.resync(&first).await.expect("it is resumed");
        let [_, resume, _] = wrapped.words();
        assert_eq!(rig.logged().await, format!("{resume} web=1"));
    }
}

/// The call for the add is not repeated. A later change is passed.
#[tokio::test(start_paused = true)]
async fn an_update_after_a_finalizer_that_could_not_be_written_writes_it_and_is_passed() {
    for (rig, wrapped) in each(OnSelectorExit::default()) {
        rig.world.plan(Fault::Fails(2)).await;
        rig.world.create("web", 1).await;
        let first = rig.world.object("web").await;
        wrapped.add(&first).await.expect_err("the patch fails");
        rig.logged().await;
        rig.world.update("web", 2).await;
        let second = rig.world.object("web").await;
        wrapped.update(&first, &second).await.expect("it is passed");
        let logged = rig.logged().await;
        let update = ["web [own], update web=1 web=2", "web [own], updated web=2"];
        assert!(update.contains(&&*logged), "{logged}");
    }
}

/// Predicates of the wrapped reconciler see the action that it would receive.
#[tokio::test(start_paused = true)]
async fn a_predicate_that_rejects_adds_passes_a_resync_and_a_clean_up() {
    let rig = Rig::new();
    let no_adds = |event: &Event<Lease>| event.action() != "CREATE";
    let inner = rig.log.reconciler().filter(no_adds);
    let wrapped = Wrapped::Reconciler(OpinionatedReconciler::new(rig.finalizers(), inner));
    rig.world.create("web", 1).await;
    rig.world.set_finalizers("web", &[OWN]).await;
    let held = rig.world.object("web").await;
    wrapped
        .add(&held)
        .await
        .expect("an earlier process added it");
    assert_eq!(rig.logged().await, "resynced web=1");
    rig.world.delete("web").await;
    let marked = rig.world.object("web").await;
    wrapped.update(&held, &marked).await.expect("cleaned up");
    assert_eq!(rig.logged().await, "deleted web=1, web []");
}

/// The finalizer is rewritten under its current name, and then the object is resumed.
#[tokio::test(start_paused = true)]
async fn an_object_with_a_legacy_finalizer_is_resumed_after_its_migration() {
    let rig = Rig::new();
    let legacy = windlass_controller::FinalizerName::new("test.windlass.dev/legacy");
    let finalizers = rig.finalizers().legacy_name(legacy.expect("a name"));
    let wrapped = Wrapped::Reconciler(OpinionatedReconciler::new(finalizers, rig.log.reconciler()));
    rig.world.create("web", 1).await;
    rig.world
        .set_finalizers("web", &["test.windlass.dev/legacy"])
        .await;
    let held = rig.world.object("web").await;
    wrapped
        .add(&held)
        .await
        .expect("an earlier process added it");
    assert_eq!(rig.logged().await, "web [own], resynced web=1");
}

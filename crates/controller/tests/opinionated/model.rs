//! A model of the wrappers: random histories of one object, with failed calls and failed patches.
//!
//! The handler in a wrapper receives each object once as new, then its changes from one state to the
//! next, then one clean-up. When everything has settled, it has the last state of the object, and
//! the object has the finalizer exactly while the handler has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use proptest::prelude::*;
use windlass_controller::{
    Action, ExponentialBackoff, OnSelectorExit, OpinionatedReconciler, OpinionatedWatcher, Outcome,
    Reconciler, Request, Watcher,
};

use crate::{
    support::{Refused, Rig, Running, builder, pass},
    world::Fault,
};

const NAME: &str = "web";

/// Something that happens to the object, to the handler or to the server.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Update,
    Label,
    Delete,
    /// Another writer removes all finalizers.
    Strip,
    /// The object leaves the selector of the informer.
    Hide,
    /// The object returns to the selector.
    Show,
    /// The next call of the handler fails.
    FailCall,
    /// The patch after this number of others fails.
    FailPatch(u32),
    /// The response to the patch after this number of others is lost.
    LoseResponse(u32),
    /// The patch after this number of others is rejected because of a race.
    Conflict(u32),
    /// All retries and events pass.
    Settle,
}

/// The objects that the handler has created, by uid.
#[derive(Default)]
struct Calls {
    has: BTreeMap<String, i32>,
    cleaned_up: BTreeSet<String>,
    /// The newest version that the handler has received.
    versions: BTreeMap<String, u64>,
    /// The number of next calls that fail.
    failing: u32,
    /// Calls that do not follow from the calls before them.
    wrong: Vec<String>,
}

/// A handler that checks each call against the calls before it.
#[derive(Clone, Default)]
struct Checked(Arc<Mutex<Calls>>);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_wrapped_watcher_has_what_the_server_has(steps in prop::collection::vec(step(), 1..40)) {
        check(&steps, true);
    }

    #[test]
    fn a_wrapped_reconciler_has_what_the_server_has(steps in prop::collection::vec(step(), 1..40)) {
        check(&steps, false);
    }
}

/// Histories in which an update once had another old state than the last one that the watcher had
/// received: a newer one, since a patch failed before the call; an older one, since the watcher had
/// received the new state already, or a state between the two.
#[test]
fn the_old_state_of_an_update_is_the_last_one_that_the_watcher_received() {
    use Step::{Create, Delete, FailCall, FailPatch, Hide, LoseResponse, Settle, Strip, Update};
    check(
        &[
            Create,
            LoseResponse(3),
            Strip,
            FailPatch(2),
            Strip,
            Update,
            Update,
        ],
        true,
    );
    check(
        &[
            Create,
            Delete,
            Settle,
            FailCall,
            FailPatch(2),
            Create,
            Update,
            Update,
            Hide,
        ],
        true,
    );
    check(&[LoseResponse(2), Create, Update, Update, Update], true);
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Create),
        8 => Just(Step::Update),
        3 => Just(Step::Label),
        4 => Just(Step::Delete),
        3 => Just(Step::Strip),
        2 => Just(Step::Hide),
        2 => Just(Step::Show),
        4 => Just(Step::FailCall),
        2 => (1..4_u32).prop_map(Step::FailPatch),
        2 => (1..4_u32).prop_map(Step::LoseResponse),
        2 => (1..4_u32).prop_map(Step::Conflict),
        8 => Just(Step::Settle),
    ]
}

/// Runs `steps` with a wrapped watcher or a wrapped reconciler.
fn check(steps: &[Step], with_watcher: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (rig, calls) = (Rig::new(), Checked::default());
        let running = start(&rig, &calls, with_watcher).await;
        let (mut value, mut is_hidden) = (0, false);
        for step in steps {
            let exists = rig.world.finalizers(NAME).await != "gone";
            value += 1;
            match *step {
                Step::Create if !exists && !is_hidden => rig.world.create(NAME, value).await,
                Step::Update if exists => rig.world.update(NAME, value).await,
                Step::Label if exists => rig.world.label(NAME, &value.to_string()).await,
                Step::Delete if exists => rig.world.delete(NAME).await,
                Step::Strip if exists => rig.world.set_finalizers(NAME, &[]).await,
                Step::Hide if exists && !is_hidden => {
                    settle(&rig, &calls, is_hidden).await;
                    if rig.world.finalizers(NAME).await != "gone" {
                        is_hidden = true;
                        rig.world.hide(NAME).await;
                        settle(&rig, &calls, is_hidden).await;
                    }
                }
                Step::Show if exists && is_hidden => {
                    is_hidden = false;
                    calls.0.lock().cleaned_up.clear();
                    rig.world.show(NAME).await;
                }
                Step::FailCall => calls.0.lock().failing += 1,
                Step::FailPatch(after) => {
                    let number = rig.world.writes().await + after;
                    rig.world.plan(Fault::Fails(number)).await;
                }
                Step::LoseResponse(after) => {
                    let number = rig.world.writes().await + after;
                    rig.world.plan(Fault::LosesReply(number)).await;
                }
                Step::Conflict(after) => {
                    let number = rig.world.writes().await + after;
                    rig.world.plan(Fault::Conflicts(number)).await;
                }
                Step::Settle => settle(&rig, &calls, is_hidden).await,
                _ => {}
            }
        }
        settle(&rig, &calls, is_hidden).await;
        running.stop(&rig).await;
    });
}

/// Starts an operator that cleans up after an object that leaves the selector.
async fn start(rig: &Rig, calls: &Checked, with_watcher: bool) -> Running {
    let policy = ExponentialBackoff::forever(Duration::from_secs(1)).cap(Duration::from_secs(10));
    let controller = builder().retry_policy(policy).build();
    let controller = controller.expect("good settings");
    let leases = controller.kind("leases").expect("a new kind");
    let exit = OnSelectorExit::CleanUp;
    if with_watcher {
        let watcher = OpinionatedWatcher::new(rig.finalizers(), calls.clone());
        let watcher = watcher.on_selector_exit(exit);
        controller.add_watcher(&leases, watcher).expect("added");
    } else {
        let reconciler = OpinionatedReconciler::new(rig.finalizers(), calls.reconciler());
        let reconciler = reconciler.on_selector_exit(exit);
        let added = controller.add_reconciler(&leases, reconciler);
        added.expect("added");
    }
    rig.start(controller, &leases, None).await
}

/// Waits for all retries, and compares the handler with the server.
async fn settle(rig: &Rig, calls: &Checked, is_hidden: bool) {
    // More than all retries of at most 10 seconds each.
    pass(3600).await;
    let finalizers = rig.world.finalizers(NAME).await;
    let has: Vec<i32> = {
        let calls = calls.0.lock();
        assert_eq!(calls.wrong, Vec::<String>::new());
        calls.has.values().copied().collect()
    };
    let value = rig.world.value(NAME).await;
    if is_hidden {
        assert!(
            finalizers.is_empty() || finalizers == "gone",
            "{finalizers}"
        );
        assert!(has.is_empty(), "{has:?}");
    } else {
        let expected = if value.is_some() { "own" } else { "gone" };
        assert_eq!(finalizers, expected);
        assert_eq!(has, Vec::from_iter(value));
    }
}

// === impl Calls ===

impl Calls {
    /// Notes that `is` has to be true. A panic would only fail the call, which would be repeated.
    fn require(&mut self, is: bool, why: impl Display) {
        if !is {
            self.wrong.push(why.to_string());
        }
    }

    /// Makes a call for `object`. An update of a watcher has the `old` state, which has to be the last
    /// one that it has received.
    fn call(&mut self, action: Action, object: &Lease, old: Option<&Lease>) -> Result<(), Refused> {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let version = object.metadata.resource_version.as_deref();
        let version: u64 = version.and_then(|it| it.parse().ok()).unwrap_or_default();
        let newest = self.versions.get(&uid).copied().unwrap_or_default();
        let has = self.has.get(&uid).copied();
        let call = format!("{action:?} {uid} version {version}, has {has:?}");
        self.require(newest <= version, format_args!("{call} after {newest}"));
        self.require(!self.cleaned_up.contains(&uid), format_args!("{call} late"));
        match action {
            Action::Created => self.require(has.is_none(), format_args!("{call} again")),
            Action::Updated => {
                self.require(has.is_some(), format_args!("{call} before its add"));
                if let Some(old) = old.map(value_of) {
                    self.require(has == Some(old), format_args!("{call}, old {old}"));
                }
            }
            Action::Deleted => {}
            _ => self.require(has.is_some(), format_args!("{call} before its add")),
        }
        self.versions.insert(uid.clone(), version);
        if self.failing > 0 {
            self.failing -= 1;
            return Err(Refused("not yet"));
        }
        if action == Action::Deleted {
            self.has.remove(&uid);
            self.cleaned_up.insert(uid);
        } else {
            self.has.insert(uid, value_of(object));
        }
        Ok(())
    }
}

fn value_of(object: &Lease) -> i32 {
    let spec = object.spec.as_ref();
    spec.and_then(|spec| spec.lease_duration_seconds)
        .unwrap_or_default()
}

// === impl Checked ===

impl Checked {
    fn reconciler(&self) -> impl Reconciler<Lease> + use<> {
        let calls = self.clone();
        move |request: Request<Lease>| {
            // A newer event replaces a failed call, and its old state is that of the informer.
            let done = calls
                .0
                .lock()
                .call(request.action(), request.object(), None);
            async move { done.map(|()| Outcome::done()) }
        }
    }
}

impl Watcher<Lease> for Checked {
    type Error = Refused;

    async fn add(&self, object: Arc<Lease>) -> Result<(), Refused> {
        self.0.lock().call(Action::Created, &object, None)
    }

    async fn update(&self, old: Arc<Lease>, new: Arc<Lease>) -> Result<(), Refused> {
        self.0.lock().call(Action::Updated, &new, Some(&old))
    }

    async fn delete(&self, last: Arc<Lease>) -> Result<(), Refused> {
        self.0.lock().call(Action::Deleted, &last, None)
    }

    async fn resync(&self, object: Arc<Lease>) -> Result<(), Refused> {
        self.0.lock().call(Action::Resynced, &object, None)
    }
}

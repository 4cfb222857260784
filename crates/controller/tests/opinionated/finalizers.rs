//! Finalizer names and suppliers, their migration, and their writers.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::core::GroupVersionKind;
use windlass_controller::{
    DefaultFinalizerSupplier, FinalizerName, FinalizerPatch, FinalizerSupplier, Finalizers,
    InvalidFinalizer, OpinionatedWatcher, PatchClient,
};
use windlass_informer::ObjectKey;

use crate::{
    support::Rig,
    world::{OWN, World},
};

/// Rows: GA-11
#[test]
fn the_default_finalizer_names_the_version_the_kind_and_the_group() {
    let website = GroupVersionKind::gvk("example.io", "v1alpha1", "Website");
    let name = DefaultFinalizerSupplier.finalizer(&website);
    assert_eq!(
        name.expect("a name").as_str(),
        "operator.v1alpha1.Website.example.io"
    );
}

/// Rows: GA-18
#[test]
fn a_closure_from_a_kind_to_a_name_is_a_supplier() {
    let rig = Rig::new();
    let supplier =
        |kind: &GroupVersionKind| format!("test.windlass.dev/{}.{}", kind.kind, kind.version);
    let finalizers = Finalizers::<Lease>::new(rig.world.clone(), supplier);
    let finalizers = finalizers.expect("a finalizer");
    assert_eq!(finalizers.name().as_str(), "test.windlass.dev/Lease.v1");
}

/// Rows: GA-84
#[tokio::test(start_paused = true)]
async fn a_watcher_has_the_default_finalizer_or_one_of_a_supplier() {
    for (finalizers, shown) in [
        (
            {
                let rig = Rig::new();
                (
                    Finalizers::<Lease>::new(rig.world.clone(), DefaultFinalizerSupplier),
                    rig,
                )
            },
            "operator.v1.Lease.coordination.k8s.io",
        ),
        (
            {
                let rig = Rig::new();
                let supplier = |_: &GroupVersionKind| "test.windlass.dev/supplied".to_owned();
                (Finalizers::<Lease>::new(rig.world.clone(), supplier), rig)
            },
            "supplied",
        ),
    ] {
        let (finalizers, rig) = finalizers;
        let finalizers = finalizers.expect("a finalizer");
        let watcher = OpinionatedWatcher::new(finalizers, rig.log.watcher());
        let running = rig.watch(watcher).await;
        rig.world.create("web", 1).await;
        rig.logged().await;
        assert_eq!(rig.world.finalizers("web").await, shown);
        running.stop(&rig).await;
    }
}

/// A client cannot be absent; an empty finalizer is an error.
///
/// Rows: GA-72
#[test]
fn an_invalid_finalizer_is_an_error() {
    let rig = Rig::new();
    let empty = Finalizers::<Lease>::new(rig.world.clone(), |_: &GroupVersionKind| String::new());
    assert_eq!(empty.expect_err("empty"), InvalidFinalizer::Empty);
}

#[test]
fn a_built_in_kind_requires_a_domain() {
    struct PanickingClient;
    impl PatchClient<ConfigMap> for PanickingClient {
        async fn patch(&self, _: &ObjectKey, _: &FinalizerPatch) -> Result<ConfigMap, kube::Error> {
            panic!("nothing is written")
        }
    }
    let refused = Finalizers::<ConfigMap>::new(PanickingClient, DefaultFinalizerSupplier);
    assert_eq!(
        refused.expect_err("not qualified").to_string(),
        "\"operator.v1.ConfigMap\" cannot be a finalizer of ConfigMap, which is built into \
         Kubernetes and requires a domain before it; give your operator a name of its own, as in \
         example.io/clean-up"
    );
}

/// Rows: GA-87
#[tokio::test(start_paused = true)]
async fn any_client_with_a_patch_method_can_be_used() {
    struct OnlyPatch(World);
    impl PatchClient<Lease> for OnlyPatch {
        async fn patch(
            &self,
            key: &ObjectKey,
            patch: &FinalizerPatch,
        ) -> Result<Lease, kube::Error> {
            self.0.patch(key, patch).await
        }
    }
    let rig = Rig::new();
    let name = FinalizerName::new(OWN).expect("a name");
    let finalizers = Finalizers::new(OnlyPatch(rig.world.clone()), name).expect("a finalizer");
    let watcher = OpinionatedWatcher::new(finalizers, rig.log.watcher());
    let running = rig.watch(watcher).await;
    rig.world.create("web", 1).await;
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
    running.stop(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_legacy_name_is_ours_and_is_replaced_in_one_patch() {
    let legacy = FinalizerName::new("test.windlass.dev/legacy").expect("a name");
    let progress = legacy.in_progress();
    let rig = Rig::new();
    for name in ["web", "begun", "terminating"] {
        rig.world.create(name, 1).await;
    }
    let theirs = "test.windlass.dev/theirs";
    rig.world
        .set_finalizers("web", &[legacy.as_str(), theirs])
        .await;
    rig.world
        .set_finalizers("begun", &[progress.as_str()])
        .await;
    rig.world
        .set_finalizers("terminating", &[legacy.as_str(), theirs])
        .await;
    rig.world.delete("terminating").await;

    let migrating = || rig.finalizers().legacy_name(legacy.clone());
    let watcher = OpinionatedWatcher::new(migrating(), rig.log.watcher()).sync_to_add();
    let running = rig.watch(watcher).await;
    let logged = rig.logged().await;
    let logged: Vec<_> = logged.split(", ").collect();
    for expected in [
        // Held: one patch, and no moment without a finalizer.
        ["web [own theirs]", "add web=1"],
        // Begun, and not known how it went.
        ["add begun=1", "begun [own]"],
        // Dying: it is cleaned up after, and gets nothing new.
        ["delete terminating=1", "terminating [theirs]"],
    ] {
        let place = |line: &str| logged.iter().position(|it| *it == line);
        let (first, second) = (place(expected[0]), place(expected[1]));
        assert!(
            first.is_some() && first < second,
            "{expected:?} in {logged:?}"
        );
    }
    assert_eq!(logged.len(), 6, "{logged:?}");
    running.stop(&rig).await;
}

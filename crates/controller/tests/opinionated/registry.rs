//! Two handlers do not share the name of a finalizer on one object, whichever controllers have them.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Resource,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    AddError, Failure, FinalizerName, FinalizerPatch, FinalizerRegistry, Finalizers,
    InformerController, Kind, OpinionatedReconciler, OpinionatedWatcher, Outcome, PatchClient,
    Reconciler, Registration, Request, Watcher,
};
use windlass_informer::{Changes, Informer, ObjectKey, Source, Stored, WatchError};

/// A source without changes.
struct Silent(Option<&'static str>);

impl<K: Stored> Source<K> for Silent {
    fn resource(&self) -> String {
        "silent".to_owned()
    }

    fn namespaces(&self) -> Option<Vec<String>> {
        self.0.map(|namespace| vec![namespace.to_owned()])
    }

    async fn run(&mut self, _: Changes<K>) -> Result<(), WatchError> {
        std::future::pending().await
    }
}

struct NoClient;

impl<K: Send + 'static> PatchClient<K> for NoClient {
    async fn patch(&self, _: &ObjectKey, _: &FinalizerPatch) -> Result<K, kube::Error> {
        Err(kube::Error::LinesCodecMaxLineLengthExceeded)
    }
}

/// A controller with one kind of Leases.
struct Rig {
    controller: InformerController,
    leases: Kind<Lease>,
}

// === impl Rig ===

impl Rig {
    fn new(name: &str, registry: &FinalizerRegistry) -> Self {
        let controller = InformerController::builder().name(name).build();
        let controller = controller.expect("good settings");
        controller
            .register_finalizers(registry)
            .expect("it has none");
        let leases = controller.kind("leases").expect("a new kind");
        Self { controller, leases }
    }

    /// A controller with a wrapper for these namespaces.
    fn watching(
        name: &str,
        registry: &FinalizerRegistry,
        namespaces: &[Option<&'static str>],
        finalizer: Finalizers<Lease>,
    ) -> Result<Self, AddError> {
        let rig = Self::new(name, registry);
        for namespace in namespaces {
            rig.informer(*namespace)?;
        }
        rig.hold(finalizer)?;
        Ok(rig)
    }

    fn informer(&self, namespace: Option<&'static str>) -> Result<Informer<Lease>, AddError> {
        let informer = Informer::new(Silent(namespace));
        self.controller.add_informer(&self.leases, &informer)?;
        Ok(informer)
    }

    fn hold(&self, finalizer: Finalizers<Lease>) -> Result<Registration, AddError> {
        let wrapper = OpinionatedReconciler::new(finalizer, nothing::<Lease>);
        self.controller.add_reconciler(&self.leases, wrapper)
    }
}

async fn nothing<K>(_: Request<K>) -> Result<Outcome, Failure> {
    Ok(Outcome::done())
}

fn name(name: &str) -> FinalizerName {
    FinalizerName::new(name).expect("a name")
}

fn own<K>() -> Finalizers<K>
where
    K: Resource<DynamicType = ()> + Serialize + Send + Sync + 'static,
{
    Finalizers::new(NoClient, name("example.io/own")).expect("a finalizer")
}

#[track_caller]
fn taken<T>(result: Result<T, AddError>, finalizer: &str, by: &str) {
    match result.err().expect("it is taken") {
        AddError::FinalizerTaken {
            finalizer: taken,
            controller,
            ..
        } => assert_eq!((&*taken, &*controller), (finalizer, by)),
        other => panic!("{other}"),
    }
}

#[test]
fn a_name_is_refused_where_two_controllers_receive_the_same_object() {
    let check = |first: &[_], second: &[_], refused: bool| {
        let registry = FinalizerRegistry::new();
        let _first = Rig::watching("first", &registry, first, own()).expect("free");
        let second = Rig::watching("second", &registry, second, own());
        if refused {
            taken(second, "example.io/own", "first");
        } else {
            second.expect("other objects");
        }
    };
    check(&[Some("shop")], &[Some("blog")], false);
    check(&[Some("shop")], &[Some("shop")], true);
    check(&[None], &[Some("shop")], true);
    check(&[Some("shop")], &[None], true);
    check(
        &[Some("shop"), Some("wiki")],
        &[Some("blog"), Some("wiki")],
        true,
    );
    check(&[], &[None], false);
}

#[test]
fn controllers_of_two_registries_and_of_none_may_share_a_name() {
    let (one, other) = (FinalizerRegistry::new(), FinalizerRegistry::new());
    let _first = Rig::watching("first", &one, &[None], own()).expect("free");
    let _second = Rig::watching("second", &other, &[None], own()).expect("another registry");
    // The builder's registry stays: this controller is for another cluster.
    let built = InformerController::builder().finalizer_registry(&FinalizerRegistry::new());
    let built = built.build().expect("good settings");
    built.register_finalizers(&one).expect("without effect");
    let leases = built.kind::<Lease>("leases").expect("a new kind");
    built
        .add_informer(&leases, &Informer::new(Silent(None)))
        .expect("added");
    let wrapper = OpinionatedReconciler::new(own(), nothing::<Lease>);
    built
        .add_reconciler(&leases, wrapper)
        .expect("another registry");
    // A controller without an operator has a registry of its own.
    let alone = InformerController::new();
    let leases = alone.kind::<Lease>("leases").expect("a new kind");
    alone
        .add_informer(&leases, &Informer::new(Silent(None)))
        .expect("added");
    let watcher = windlass_controller::SimpleWatcher::<Lease>::new();
    let watcher = OpinionatedWatcher::new(own(), watcher);
    alone.add_watcher(&leases, watcher).expect("free");
    let refused = alone.register_finalizers(&one);
    taken(refused, "example.io/own", "first");
}

#[test]
fn the_other_forms_of_a_finalizer_are_names_too() {
    let legacy = || own().legacy_name(name("example.io/old"));
    for (first, second, shared) in [
        (
            "example.io/own.in-progress",
            own(),
            "example.io/own.in-progress",
        ),
        ("example.io/old", legacy(), "example.io/old"),
        (
            "example.io/old.in-progress",
            legacy(),
            "example.io/old.in-progress",
        ),
    ] {
        let registry = FinalizerRegistry::new();
        let finalizer = Finalizers::new(NoClient, name(first)).expect("a finalizer");
        let _first = Rig::watching("first", &registry, &[None], finalizer).expect("free");
        let second = Rig::watching("second", &registry, &[None], second);
        taken(second, shared, "first");
    }
}

/// Both kinds have the same Rust type.
#[test]
fn two_dynamic_kinds_may_share_a_name() {
    let controller = InformerController::new();
    let add = |kind: &str, name_of_kind: &str| {
        let types = ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", "v1", kind));
        let kind = controller.kind::<DynamicObject>(name_of_kind)?;
        controller.add_informer(&kind, &Informer::new(Silent(None)))?;
        let finalizers = Finalizers::of(NoClient, &types, name("example.io/own"));
        let finalizers = finalizers.expect("a finalizer");
        let wrapper = OpinionatedReconciler::new(finalizers, nothing::<DynamicObject>);
        controller.add_reconciler(&kind, wrapper)?;
        Ok::<_, AddError>(kind)
    };
    let _websites = add("Website", "websites").expect("free");
    let _certificates = add("Certificate", "certificates").expect("another resource");
    let again = add("Website", "again");
    taken(again, "example.io/own", controller.name());
}

#[test]
fn two_types_of_one_resource_do_not_share_a_name() {
    let controller = InformerController::builder().name("own").build();
    let controller = controller.expect("good settings");
    let configs = controller.kind::<ConfigMap>("configs").expect("a new kind");
    controller
        .add_informer(&configs, &Informer::new(Silent(None)))
        .expect("added");
    let wrapper = OpinionatedReconciler::new(own(), nothing::<ConfigMap>);
    controller.add_reconciler(&configs, wrapper).expect("free");
    let types = ApiResource::erase::<ConfigMap>(&());
    let dynamic = controller
        .kind::<DynamicObject>("dynamic")
        .expect("a new kind");
    controller
        .add_informer(&dynamic, &Informer::new(Silent(None)))
        .expect("added");
    let finalizers = Finalizers::of(NoClient, &types, name("example.io/own"));
    let finalizers = finalizers.expect("a finalizer");
    let wrapper = OpinionatedReconciler::new(finalizers, nothing::<DynamicObject>);
    let refused = controller.add_reconciler(&dynamic, wrapper);
    taken(refused, "example.io/own", "own");
}

#[test]
fn an_informer_that_is_added_later_is_refused_too() {
    let registry = FinalizerRegistry::new();
    let first = Rig::watching("first", &registry, &[Some("shop")], own()).expect("free");
    let second = Rig::watching("second", &registry, &[Some("blog")], own()).expect("free");
    taken(second.informer(Some("shop")), "example.io/own", "first");
    taken(second.informer(None), "example.io/own", "first");
    assert_eq!(second.controller.health().len(), 1, "none was added");
    // The namespace is free without the informer of the first, and without its handler.
    let wiki = first.informer(Some("wiki")).expect("free");
    taken(second.informer(Some("wiki")), "example.io/own", "first");
    assert!(first.controller.remove_informer(&wiki));
    second.informer(Some("wiki")).expect("released");
    assert_eq!(first.controller.remove_all_reconcilers(&first.leases), 1);
    second.informer(Some("shop")).expect("released");
    taken(first.hold(own()), "example.io/own", "second");
}

/// D31: also when the run is dropped, and when a controller is dropped that never ran.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_controller_releases_its_finalizers() {
    let registry = FinalizerRegistry::new();
    let first = Rig::watching("first", &registry, &[None], own()).expect("free");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, stop) = (first.controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    tokio::task::yield_now().await;
    taken(
        Rig::watching("second", &registry, &[None], own()),
        "example.io/own",
        "first",
    );
    stop.cancel();
    running.await.expect("no panic").expect("no error");
    drop(Rig::watching("second", &registry, &[None], own()).expect("released"));
    let third = Rig::watching("third", &registry, &[None], own()).expect("released");
    let running = tokio::spawn({
        let controller = third.controller.clone();
        async move { controller.run(CancellationToken::new()).await }
    });
    tokio::task::yield_now().await;
    running.abort();
    assert!(running.await.expect_err("aborted").is_cancelled());
    Rig::watching("fourth", &registry, &[None], own()).expect("released");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_added_to_a_controller_that_has_ended() {
    let rig = Rig::watching("first", &FinalizerRegistry::new(), &[None], own()).expect("free");
    let stop = CancellationToken::new();
    stop.cancel();
    rig.controller.run(stop).await.expect("no error");
    let informer = rig.informer(None).map(drop).expect_err("it has ended");
    assert!(matches!(informer, AddError::Ended { .. }), "{informer}");
    let filtered = nothing::<Lease>.filter(|_: &windlass_informer::Event<Lease>| true);
    let handler = rig.controller.add_reconciler(&rig.leases, filtered);
    let handler = handler.expect_err("it has ended");
    assert!(handler.to_string().contains("\"leases\""), "{handler}");
    let watcher = windlass_controller::SimpleWatcher::<Lease>::new();
    let watcher = watcher.filter(|_: &windlass_informer::Event<Lease>| true);
    let watcher = rig.controller.add_watcher(&rig.leases, watcher);
    assert!(matches!(watcher, Err(AddError::Ended { .. })));
}

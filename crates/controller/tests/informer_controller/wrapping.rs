//! Wrappers of handlers pass on all that the handlers say about themselves.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use windlass_controller::{
    Failure, FinalizerName, FinalizerPatch, Finalizers, Interest, OpinionatedReconciler,
    OpinionatedWatcher, Outcome, PatchClient, Predicate, Reconciler, Request, SimpleWatcher,
    TypedReconciler, Watcher,
};
use windlass_informer::{Event, LazyObject, ObjectKey};

use crate::support::config;

const OWN: &str = "example.io/own";

/// A client of an API server that does not answer.
struct NoServer;

impl PatchClient<ConfigMap> for NoServer {
    async fn patch(&self, _: &ObjectKey, _: &FinalizerPatch) -> Result<ConfigMap, kube::Error> {
        Err(kube::Error::LinesCodecMaxLineLengthExceeded)
    }
}

fn finalizers() -> Finalizers<ConfigMap> {
    let name = FinalizerName::new(OWN).expect("a name");
    Finalizers::new(NoServer, name).expect("a finalizer")
}

/// A reconciler with a finalizer.
pub(crate) fn wrapped_reconciler() -> impl Reconciler<ConfigMap> {
    let nothing = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    OpinionatedReconciler::new(finalizers(), nothing)
}

fn wrapped_watcher() -> OpinionatedWatcher<ConfigMap, SimpleWatcher<ConfigMap>> {
    OpinionatedWatcher::new(finalizers(), SimpleWatcher::new())
}

#[test]
fn handlers_around_a_wrapper_return_its_finalizer() {
    fn nothing<K>(_: &Event<K>) -> bool {
        false
    }
    let reconciler = Reconciler::filter(wrapped_reconciler(), nothing::<ConfigMap>);
    let watcher = Watcher::filter(wrapped_watcher(), nothing::<ConfigMap>);
    let typed = TypedReconciler::<ConfigMap, _>::new(wrapped_reconciler());
    let reconciler = Reconciler::finalizer(&reconciler).expect("it is in it");
    let watcher = Watcher::finalizer(&watcher).expect("it is in it");
    let typed = Reconciler::finalizer(&typed).expect("it is in it");
    for name in [reconciler.name(), watcher.name(), typed.name()] {
        assert_eq!(name.as_str(), OWN);
    }
    let shown = format!("{watcher:?}");
    assert!(
        shown.starts_with("FinalizerHook") && shown.contains(OWN),
        "{shown}"
    );
    let held = |value| {
        let mut object = config("web", value);
        object.metadata.finalizers = Some(vec![OWN.to_owned()]);
        object
    };
    for event in events(|value| Arc::new(held(value))) {
        let expected = interest(&event);
        assert_eq!(reconciler.on_event(&event), expected);
        assert_eq!(watcher.on_event(&event), expected);
    }
    for event in events(|value| dynamic(&held(value))) {
        assert_eq!(typed.on_event(&event), interest(&event));
    }
}

/// The interest in events of an object with the finalizer.
fn interest<K>(event: &Event<K>) -> Interest {
    match event {
        Event::Deleted { .. } => Interest::Needed,
        _ => Interest::Yes,
    }
}

#[test]
fn most_handlers_have_no_finalizer() {
    let handler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let watcher = SimpleWatcher::<ConfigMap>::new();
    assert!(Reconciler::finalizer(&handler).is_none());
    assert!(Watcher::<ConfigMap>::finalizer(&watcher).is_none());
    let typed = TypedReconciler::<ConfigMap, _>::new(handler);
    assert!(Reconciler::finalizer(&typed).is_none());
}

#[test]
fn a_typed_reconciler_has_the_predicates_of_its_handler() {
    for wanted in ["CREATE", "UPDATE", "DELETE", "RESYNC"] {
        let handler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
        let filtered = handler.filter(move |event: &Event<ConfigMap>| event.action() == wanted);
        let typed = TypedReconciler::<ConfigMap, _>::new(filtered);
        for event in events(|value| dynamic(&config("web", value))) {
            let action = event.action();
            assert_eq!(typed.passes(&event), action == wanted, "{action}, {wanted}");
        }
    }
}

#[test]
fn debug_output_names_what_is_wrapped() {
    let nothing = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let wrapped = OpinionatedReconciler::new(finalizers(), nothing);
    let typed = TypedReconciler::<ConfigMap, _>::new(wrapped);
    let watcher = SimpleWatcher::<ConfigMap>::new()
        .on_delete(|_: Arc<ConfigMap>| std::future::ready(Ok::<_, Failure>(())));
    for (shown, expected) in [
        (
            format!("{typed:?}"),
            "TypedReconciler(OpinionatedReconciler {",
        ),
        (
            format!("{watcher:?}"),
            "SimpleWatcher { add: false, update: false, delete: true }",
        ),
    ] {
        assert!(shown.starts_with(expected), "{shown}");
    }
}

/// An event of each kind.
fn events<K: Send + Sync + 'static>(object: impl Fn(u32) -> Arc<K>) -> [Event<K>; 4]
where
    LazyObject<K>: From<Arc<K>>,
{
    [
        Event::Added(object(1)),
        Event::Updated {
            old: LazyObject::from(object(1)),
            new: object(2),
        },
        Event::Deleted {
            last: object(2),
            missed: false,
        },
        Event::Resynced(object(2)),
    ]
}

fn dynamic(object: &ConfigMap) -> Arc<DynamicObject> {
    let object = serde_json::to_value(object).expect("plain JSON");
    Arc::new(serde_json::from_value(object).expect("an object"))
}

//! Wrappers of handlers pass on all that the handlers say about themselves.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use windlass_controller::{
    Failure, FinalizerIdentity, FinalizerName, Outcome, Predicate, Reconciler, Request,
    SimpleWatcher, TypedReconciler, Watcher,
};
use windlass_informer::{Event, LazyObject};

use crate::support::config;

const OWN: &str = "example.io/own";

/// A handler with a finalizer, which needs deletes.
#[derive(Clone, Debug)]
struct Finalizing(FinalizerIdentity);

impl Finalizing {
    fn new() -> Self {
        let name = FinalizerName::new(OWN).expect("a name");
        Self(FinalizerIdentity::new("configmaps", name))
    }
}

impl Reconciler<ConfigMap> for Finalizing {
    type Error = Failure;

    async fn reconcile(&self, _: Request<ConfigMap>) -> Result<Outcome, Failure> {
        Ok(Outcome::done())
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        Some(&self.0)
    }

    fn needs(&self, event: &Event<ConfigMap>) -> bool {
        matches!(event, Event::Deleted { .. })
    }
}

impl Watcher<ConfigMap> for Finalizing {
    type Error = Failure;

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        Some(&self.0)
    }

    fn needs(&self, event: &Event<ConfigMap>) -> bool {
        matches!(event, Event::Deleted { .. })
    }
}

#[test]
fn wrappers_have_the_finalizer_and_the_needs_of_their_handler() {
    fn nothing<K>(_: &Event<K>) -> bool {
        false
    }
    let reconciler = Reconciler::filter(Finalizing::new(), nothing::<ConfigMap>);
    let watcher = Watcher::filter(Finalizing::new(), nothing::<ConfigMap>);
    let typed = TypedReconciler::<ConfigMap, _>::new(Finalizing::new());
    let finalizers = [
        Reconciler::finalizer(&reconciler),
        Watcher::finalizer(&watcher),
        Reconciler::finalizer(&typed),
    ];
    let names = finalizers.map(|it| it.map(|it| it.name().as_str()));
    assert_eq!(names, [Some(OWN); 3]);
    for event in events(|value| Arc::new(config("web", value))) {
        let is_needed = matches!(event, Event::Deleted { .. });
        assert_eq!(Reconciler::needs(&reconciler, &event), is_needed);
        assert_eq!(Watcher::needs(&watcher, &event), is_needed);
        // This does not depend on the predicate.
        assert_eq!(Reconciler::receives(&reconciler, &event), is_needed);
        assert_eq!(Watcher::receives(&watcher, &event), is_needed);
    }
    for event in events(dynamic) {
        let is_needed = matches!(event, Event::Deleted { .. });
        assert_eq!(Reconciler::needs(&typed, &event), is_needed);
    }
}

/// A handler without a finalizer needs no event that its predicates refuse.
#[test]
fn most_handlers_need_no_event() {
    let handler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    let watcher = SimpleWatcher::<ConfigMap>::new();
    for event in events(|value| Arc::new(config("web", value))) {
        assert!(!Reconciler::needs(&handler, &event));
        assert!(!Watcher::needs(&watcher, &event));
    }
    assert!(Reconciler::finalizer(&handler).is_none());
    assert!(Watcher::<ConfigMap>::finalizer(&watcher).is_none());
}

#[test]
fn a_typed_reconciler_has_the_predicates_of_its_handler() {
    for wanted in ["CREATE", "UPDATE", "DELETE", "RESYNC"] {
        let handler = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
        let filtered = handler.filter(move |event: &Event<ConfigMap>| event.action() == wanted);
        let typed = TypedReconciler::<ConfigMap, _>::new(filtered);
        for event in events(dynamic) {
            let action = event.action();
            assert_eq!(typed.passes(&event), action == wanted, "{action}, {wanted}");
        }
    }
}

#[test]
fn debug_output_names_what_is_wrapped() {
    let typed = TypedReconciler::<ConfigMap, _>::new(Finalizing::new());
    let watcher = SimpleWatcher::<ConfigMap>::new()
        .on_delete(|_: Arc<ConfigMap>| std::future::ready(Ok::<_, Failure>(())));
    for (shown, expected) in [
        (format!("{typed:?}"), "TypedReconciler(Finalizing("),
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

fn dynamic(value: u32) -> Arc<DynamicObject> {
    let object = serde_json::to_value(config("web", value)).expect("plain JSON");
    Arc::new(serde_json::from_value(object).expect("an object"))
}

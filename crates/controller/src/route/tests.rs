//! Tests of `route.rs`.

use futures::{FutureExt, future::BoxFuture};

use super::*;
use crate::{
    ErasedObject, Failure, Outcome, event::AnyEvent, finalizer::FinalizerIdentity, reconciler::Call,
};

#[test]
fn watchers_come_before_reconcilers_each_in_add_order() {
    check("r r w r w", "w2 w4 r0 r1 r3");
}

#[test]
fn removing_a_handler_keeps_the_others() {
    check("w w w -0", "w1 w2");
    check("w r w -0 w", "w2 w3 r1");
    check("w w -7", "w0 w1");
}

#[test]
fn a_name_is_never_used_again() {
    check("w -0 w -1 w", "w2");
}

#[test]
fn a_name_is_used_by_one_kind() {
    let mut route = Route::default();
    new_kind(&mut route, "numbers").expect("a new kind");
    let again = new_kind(&mut route, "numbers").expect_err("it exists");
    assert!(matches!(again, AddError::KindExists { kind } if kind == "numbers"));
}

#[test]
fn a_kind_has_a_name() {
    let nameless = new_kind(&mut Route::default(), "");
    assert!(matches!(nameless, Err(AddError::EmptyKind)));
}

#[test]
fn mappers_are_added_and_removed_and_are_in_no_chain() {
    let mut route = Route::default();
    let from = new_kind(&mut route, "from").expect("new");
    let to = new_kind(&mut route, "to").expect("new");
    let first = route.add_mapper(from, to, Box::new(Inert));
    let second = route.add_mapper(from, to, Box::new(Inert));
    let handler = route.add(from, Role::Watcher, Box::new(Inert));
    assert_eq!((first, second), (HandlerId(0), HandlerId(1)));
    assert_eq!(handler, HandlerId(2), "names are shared");
    assert_eq!(route.chain(from).len(), 1);
    assert_eq!(route.remove_mappers(from, Some(handler)).len(), 0);
    assert_eq!(route.remove_mappers(from, Some(first)).len(), 1);
    let left: Vec<_> = route.mappers(from).iter().map(|it| it.id).collect();
    assert_eq!(left, [second]);
    assert_eq!(route.remove_mappers(from, None).len(), 1);
    assert!(route.mappers(from).is_empty());
}

/// Adds watchers and reconcilers, and removes (`-1`) them; `chain` is what is left.
#[track_caller]
fn check(script: &str, chain: &str) {
    let mut route = Route::default();
    let kind = new_kind(&mut route, "k").expect("a new kind");
    for step in script.split(' ') {
        match step {
            "w" => _ = route.add(kind, Role::Watcher, Box::new(Inert)),
            "r" => _ = route.add(kind, Role::Reconciler, Box::new(Inert)),
            step => {
                let id = HandlerId(step[1..].parse().expect("a number"));
                route.remove(kind, |handler| handler.id == id);
            }
        }
    }
    let left: Vec<_> = (route.chain(kind).iter())
        .map(|it| format!("{}{}", &it.role.as_str()[..1], it.id))
        .collect();
    assert_eq!(left.join(" "), chain, "{script}");
}

fn new_kind(route: &mut Route, name: &str) -> Result<KindId, AddError> {
    let metrics = crate::metrics::Metrics::new("", "test").expect("good names");
    let added = route.add_kind(name, false, |name| KindMetrics::new(&metrics, name));
    added.map(|(id, _)| id)
}

#[test]
fn a_kind_that_nothing_uses_is_removed() {
    let mut route = Route::default();
    let from = new_kind(&mut route, "from").expect("new");
    let to = new_kind(&mut route, "to").expect("new");
    assert!(route.remove_unused(to).is_none(), "it has a handle");
    route.drop_handle(from);
    route.drop_handle(to);
    let mapper = route.add_mapper(from, to, Box::new(Inert));
    route.add(from, Role::Watcher, Box::new(Inert));
    assert!(route.remove_unused(from).is_none(), "it has a handler");
    assert!(route.remove_unused(to).is_none(), "a mapper names it");
    route.remove_mappers(from, Some(mapper));
    assert_eq!(route.remove_unused(to).as_deref(), Some("to"));
    let again = new_kind(&mut route, "to").expect("the name is free");
    assert_ne!(again, to, "a number is never used again");
}

#[test]
fn a_kind_that_only_a_mapper_names_needs_an_informer() {
    let mut route = Route::default();
    let from = new_kind(&mut route, "from").expect("new");
    let to = new_kind(&mut route, "to").expect("new");
    route.add_informer(from);
    assert_eq!(route.without_informer(), None);
    route.add_mapper(from, to, Box::new(Inert));
    assert_eq!(route.without_informer().as_deref(), Some("to"));
    assert!(!route.has_informer(to));
    route.add_informer(to);
    assert_eq!(route.without_informer(), None);
    assert!(route.has_informer(to));
    route.remove_informer(to);
    assert!(!route.has_informer(to));
}

struct Inert;

impl ErasedHandler for Inert {
    fn type_name(&self) -> &'static str {
        "Inert"
    }

    fn call(&self, _: Call) -> BoxFuture<'_, Result<Outcome, Failure>> {
        async { Ok(Outcome::done()) }.boxed()
    }

    fn wants(&self, _: &AnyEvent) -> bool {
        true
    }

    fn finalizer(&self) -> Option<&FinalizerIdentity> {
        None
    }
}

impl ErasedMapper for Inert {
    fn type_name(&self) -> &'static str {
        "Inert"
    }

    fn keys(
        &self,
        _: &Arc<dyn ErasedObject>,
    ) -> Result<Vec<windlass_informer::ObjectKey>, windlass_informer::DecodeError> {
        Ok(Vec::new())
    }

    fn keys_before(
        &self,
        _: &Arc<dyn ErasedObject>,
    ) -> Result<Vec<windlass_informer::ObjectKey>, windlass_informer::DecodeError> {
        Ok(Vec::new())
    }

    fn wants(&self, _: &AnyEvent) -> bool {
        true
    }
}

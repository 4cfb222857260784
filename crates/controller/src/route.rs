//! The kinds of a controller, and the handlers of each.
//!
//! A kind is a name of the user's choice. Its chain is its watchers followed by its reconcilers,
//! each in registration order. The id of a handler is never reused, so that removing one does not
//! affect the others. A kind without an informer, handler and mapper is removed.

mod kind;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use self::kind::Kind;
pub(crate) use self::kind::{
    Chain, FormUser, KindId, KindSnapshot, Mappers, ObjectType, RegisteredMapper,
};
use crate::{
    AddError, HandlerId, Role,
    handler::{ErasedHandler, ErasedMapper, Handler},
    merge::Merge,
    metrics::KindMetrics,
};

/// The kinds of a controller, and their chains.
#[derive(Default)]
pub(crate) struct Route {
    kinds: HashMap<KindId, Kind>,
    names: HashMap<Arc<str>, KindId>,
    handlers: u64,
    next_kind: u32,
}

// === impl Route ===

impl Route {
    /// Returns the kind called `name` with objects of type `of`. Creates it with `metrics` if it is
    /// new.
    pub(crate) fn kind(
        &mut self,
        name: &str,
        of: ObjectType,
        metrics: impl FnOnce(&Arc<str>) -> KindMetrics,
    ) -> Result<KindId, AddError> {
        if name.is_empty() {
            return Err(AddError::EmptyKind);
        }
        if let Some((id, kind)) = self
            .find(name)
            .and_then(|id| Some((id, self.kinds.get(&id)?)))
        {
            return if kind.of.id == of.id {
                Ok(id)
            } else {
                Err(AddError::OtherType {
                    kind: name.to_owned(),
                    known: kind.of.name,
                    given: of.name,
                })
            };
        }
        let id = KindId(self.next_kind);
        self.next_kind += 1;
        let name: Arc<str> = Arc::from(name);
        self.names.insert(Arc::clone(&name), id);
        let metrics = Arc::new(metrics(&name));
        self.kinds.insert(
            id,
            Kind {
                name,
                of,
                informers: Vec::new(),
                handler_form: None,
                chain: Chain::from([]),
                mappers: Mappers::from([]),
                metrics,
                merge: Arc::default(),
            },
        );
        Ok(id)
    }

    /// Registers the stored form (decoded, or [`RawObject`](windlass_informer::RawObject)) of an
    /// informer or a handler of `kind`. Handlers of decoded objects accept all forms; other handlers
    /// only their own.
    pub(crate) fn form(
        &mut self,
        kind: KindId,
        form: ObjectType,
        by: FormUser,
    ) -> Result<(), AddError> {
        let Some(kind) = self.kinds.get_mut(&kind) else {
            return Ok(());
        };
        let unlike = |it: &&ObjectType| it.id != form.id;
        let known = match by {
            FormUser::Informer => kind.handler_form.iter().find(unlike),
            FormUser::Handler if form.id == kind.of.id => return Ok(()),
            FormUser::Handler => kind.informers.iter().find(unlike),
        };
        if let Some(known) = known {
            return Err(AddError::OtherType {
                kind: kind.name.to_string(),
                known: known.name,
                given: form.name,
            });
        }
        match by {
            FormUser::Informer => kind.informers.push(form),
            FormUser::Handler => kind.handler_form = Some(form),
        }
        Ok(())
    }

    /// Notes that an informer of `kind` was removed.
    pub(crate) fn remove_informer(&mut self, kind: KindId) {
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.informers.pop();
        }
    }

    /// Removes `kind` if nothing uses it. Returns its name.
    pub(crate) fn remove_unused(&mut self, kind: KindId) -> Option<Arc<str>> {
        let known = self.kinds.get(&kind)?;
        if !known.informers.is_empty() || self.needs_informer(kind, known) {
            return None;
        }
        let removed = self.kinds.remove(&kind)?;
        self.names.remove(&removed.name);
        Some(removed.name)
    }

    /// Whether `kind` has a handler or mapper, or is the target of a mapper.
    fn needs_informer(&self, id: KindId, kind: &Kind) -> bool {
        let mapped = || (self.kinds.values()).any(|it| it.mappers.iter().any(|it| it.to == id));
        !kind.chain.is_empty() || !kind.mappers.is_empty() || mapped()
    }

    /// Returns a kind that has a handler or mapper but no informer, and the kind with an informer
    /// that has the most similar name.
    pub(crate) fn without_informer(&self) -> Option<(String, Option<String>)> {
        let mut kinds: Vec<_> = (self.kinds.iter())
            .filter(|(id, kind)| kind.informers.is_empty() && self.needs_informer(**id, kind))
            .collect();
        kinds.sort_unstable_by_key(|(id, _)| **id);
        let (_, kind) = kinds.first()?;
        Some((kind.name.to_string(), self.closest(&kind.name)))
    }

    /// Returns the kind with an informer that has the most similar name.
    pub(crate) fn closest(&self, name: &str) -> Option<String> {
        let named = self
            .kinds
            .values()
            .filter(|kind| !kind.informers.is_empty());
        let like = named.map(|kind| (strsim::jaro_winkler(name, &kind.name), &kind.name));
        let (_, closest) = like.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some(closest.to_string())
    }

    /// Whether a handler for objects of type `of` has `finalizer`.
    pub(crate) fn has_finalizer(&self, of: ObjectType, finalizer: &str) -> bool {
        let same = self.kinds.values().filter(|kind| kind.of.id == of.id);
        let mut handlers = same.flat_map(|kind| kind.chain.iter());
        handlers.any(|handler| handler.code.finalizer() == Some(finalizer))
    }

    /// Whether `kind` has an informer.
    pub(crate) fn has_informer(&self, kind: KindId) -> bool {
        (self.kinds.get(&kind)).is_some_and(|kind| !kind.informers.is_empty())
    }

    /// The merge of the informers of `kind`.
    pub(crate) fn merge(&self, kind: KindId) -> Option<Arc<Mutex<Merge>>> {
        Some(Arc::clone(&self.kinds.get(&kind)?.merge))
    }

    /// The metrics of `kind`.
    pub(crate) fn metrics(&self, kind: KindId) -> Option<Arc<KindMetrics>> {
        Some(Arc::clone(&self.kinds.get(&kind)?.metrics))
    }

    /// The metrics of all kinds.
    pub(crate) fn all_metrics(&self) -> impl Iterator<Item = &Arc<KindMetrics>> {
        self.kinds.values().map(|kind| &kind.metrics)
    }

    /// The handlers and metrics of each kind.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = (KindId, KindSnapshot)> {
        self.kinds.iter().map(|(id, kind)| {
            let snapshot = KindSnapshot {
                chain: Arc::clone(&kind.chain),
                metrics: Arc::clone(&kind.metrics),
            };
            (*id, snapshot)
        })
    }

    /// The id of the kind called `name`, if it exists.
    pub(crate) fn find(&self, name: &str) -> Option<KindId> {
        self.names.get(name).copied()
    }

    /// The name of `kind`.
    pub(crate) fn name(&self, kind: KindId) -> Arc<str> {
        let kind = self.kinds.get(&kind);
        kind.map_or_else(|| Arc::from(""), |kind| Arc::clone(&kind.name))
    }

    /// The handlers of `kind`.
    #[cfg(test)]
    pub(crate) fn chain(&self, kind: KindId) -> Chain {
        Arc::clone(&self.kinds[&kind].chain)
    }

    /// The handler with this id, if it was not removed.
    pub(crate) fn handler(&self, kind: KindId, id: HandlerId) -> Option<Arc<Handler>> {
        let chain = &self.kinds.get(&kind)?.chain;
        chain.iter().find(|handler| handler.id == id).cloned()
    }

    /// Adds a handler after those of its role.
    pub(crate) fn add(
        &mut self,
        kind: KindId,
        role: Role,
        code: Box<dyn ErasedHandler>,
    ) -> HandlerId {
        let id = self.next();
        let handler = Arc::new(Handler::new(id, role, code));
        if let Some(kind) = self.kinds.get_mut(&kind) {
            let mut chain = kind.chain.to_vec();
            let at = chain.partition_point(|it| it.role <= role);
            chain.insert(at, handler);
            kind.chain = chain.into();
        }
        id
    }

    /// Removes the handlers of `kind` that match. Returns them.
    pub(crate) fn remove(
        &mut self,
        kind: KindId,
        matches: impl Fn(&Handler) -> bool,
    ) -> Vec<Arc<Handler>> {
        let Some(kind) = self.kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let (removed, kept): (Vec<_>, Vec<_>) =
            kind.chain.iter().cloned().partition(|it| matches(it));
        if removed.is_empty() {
            return Vec::new();
        }
        kind.chain = kept.into();
        kind.forget_form();
        for handler in &removed {
            handler.remove();
        }
        removed
    }

    /// The mappers of `kind`.
    pub(crate) fn mappers(&self, kind: KindId) -> Mappers {
        let kind = self.kinds.get(&kind);
        kind.map_or_else(|| Mappers::from([]), |kind| Arc::clone(&kind.mappers))
    }

    /// Adds a mapper from `kind` to the kind `to`.
    pub(crate) fn add_mapper(
        &mut self,
        kind: KindId,
        to: KindId,
        code: Box<dyn ErasedMapper>,
    ) -> HandlerId {
        let id = self.next();
        if let Some(kind) = self.kinds.get_mut(&kind) {
            let mapper = Arc::new(RegisteredMapper { id, to, code });
            kind.mappers = kind.mappers.iter().cloned().chain([mapper]).collect();
        }
        id
    }

    /// Removes the mapper with this id from `kind`, or all mappers. Returns them.
    pub(crate) fn remove_mappers(
        &mut self,
        kind: KindId,
        id: Option<HandlerId>,
    ) -> Vec<Arc<RegisteredMapper>> {
        let Some(kind) = self.kinds.get_mut(&kind) else {
            return Vec::new();
        };
        let matches = |it: &Arc<RegisteredMapper>| id.is_none_or(|id| it.id == id);
        let (removed, kept): (Vec<_>, Vec<_>) = kind.mappers.iter().cloned().partition(matches);
        kind.mappers = kept.into();
        kind.forget_form();
        removed
    }

    fn next(&mut self) -> HandlerId {
        let id = HandlerId(self.handlers);
        self.handlers += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::BoxFuture};

    use super::*;
    use crate::{ErasedObject, Failure, Outcome, event::AnyEvent, reconciler::Call};

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
    fn a_kind_has_one_type() {
        let mut route = Route::default();
        let kind = new_kind(&mut route, "numbers", ObjectType::of::<u8>());
        assert_eq!(
            new_kind(&mut route, "numbers", ObjectType::of::<u8>()).ok(),
            kind.ok()
        );
        let other = new_kind(&mut route, "numbers", ObjectType::of::<String>());
        assert_eq!(
            other.expect_err("another type").to_string(),
            "the kind \"numbers\" has objects of type u8, not alloc::string::String; use another name for the kind"
        );
    }

    #[test]
    fn a_kind_has_objects_of_one_form() {
        let mut route = Route::default();
        let (text, raw) = (ObjectType::of::<String>(), ObjectType::of::<Box<str>>());
        let kind = new_kind(&mut route, "texts", text).expect("a new kind");
        let mut form = |form, by| route.form(kind, form, by).map_err(|it| it.to_string());
        assert_eq!(form(raw, FormUser::Informer), Ok(()));
        assert_eq!(form(text, FormUser::Handler), Ok(()));
        assert_eq!(form(raw, FormUser::Handler), Ok(()));
        let other = form(text, FormUser::Informer).expect_err("a handler takes raw objects");
        assert!(
            other.contains("has objects of type alloc::boxed::Box<str>"),
            "{other}"
        );

        let kind = self::tests::new_kind(&mut route, "others", text).expect("a new kind");
        let mut form = |form, by| route.form(kind, form, by);
        assert!(form(text, FormUser::Informer).is_ok());
        assert!(form(raw, FormUser::Handler).is_err());
    }

    #[test]
    fn the_form_of_handlers_and_mappers_is_removed_with_the_last_one() {
        let mut route = Route::default();
        let (text, raw) = (ObjectType::of::<String>(), ObjectType::of::<Box<str>>());
        let kind = new_kind(&mut route, "texts", text).expect("a new kind");
        route.form(kind, raw, FormUser::Handler).expect("the first");
        let mapper = route.add_mapper(kind, kind, Box::new(Inert));
        let handler = route.add(kind, Role::Watcher, Box::new(Inert));
        assert_eq!(route.remove(kind, |it| it.id == handler).len(), 1);
        assert!(
            route.form(kind, text, FormUser::Informer).is_err(),
            "the mapper"
        );
        assert_eq!(route.remove_mappers(kind, Some(mapper)).len(), 1);
        assert!(route.form(kind, text, FormUser::Informer).is_ok());
    }

    #[test]
    fn a_kind_has_a_name() {
        let nameless = new_kind(&mut Route::default(), "", ObjectType::of::<u8>());
        assert!(matches!(nameless, Err(AddError::EmptyKind)));
    }

    #[test]
    fn mappers_are_added_and_removed_and_are_in_no_chain() {
        let mut route = Route::default();
        let from = new_kind(&mut route, "from", ObjectType::of::<u8>()).expect("new");
        let to = new_kind(&mut route, "to", ObjectType::of::<u16>()).expect("new");
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
        let kind = new_kind(&mut route, "k", ObjectType::of::<u8>()).expect("a new kind");
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

    fn new_kind(route: &mut Route, name: &str, of: ObjectType) -> Result<KindId, AddError> {
        let metrics = crate::metrics::Metrics::new("", "test").expect("good names");
        route.kind(name, of, |name| KindMetrics::new(&metrics, name))
    }

    #[test]
    fn an_unused_kind_is_removed() {
        let mut route = Route::default();
        let from = new_kind(&mut route, "from", ObjectType::of::<u8>()).expect("new");
        let to = new_kind(&mut route, "to", ObjectType::of::<u8>()).expect("new");
        let mapper = route.add_mapper(from, to, Box::new(Inert));
        route.add(from, Role::Watcher, Box::new(Inert));
        assert!(route.remove_unused(from).is_none(), "it has a handler");
        assert!(route.remove_unused(to).is_none(), "a mapper names it");
        route.remove_mappers(from, Some(mapper));
        assert_eq!(route.remove_unused(to).as_deref(), Some("to"));
        assert_eq!(route.find("to"), None);
        let again =
            new_kind(&mut route, "to", ObjectType::of::<u16>()).expect("of another type now");
        assert_ne!(again, to, "a number is never used again");
    }

    #[test]
    fn the_error_suggests_the_closest_kind() {
        let mut route = Route::default();
        let sites = new_kind(&mut route, "websites", ObjectType::of::<u8>()).expect("new");
        let pods = new_kind(&mut route, "pods", ObjectType::of::<u8>()).expect("new");
        for kind in [sites, pods] {
            route
                .form(kind, ObjectType::of::<u8>(), FormUser::Informer)
                .expect("its form");
        }
        let typo = new_kind(&mut route, "webistes", ObjectType::of::<u8>()).expect("new");
        assert_eq!(route.without_informer(), None, "nothing was added to it");
        route.add(typo, Role::Watcher, Box::new(Inert));
        let named = Some(("webistes".to_owned(), Some("websites".to_owned())));
        assert_eq!(route.without_informer(), named);
    }

    #[test]
    fn a_kind_that_only_a_mapper_names_needs_an_informer() {
        let mut route = Route::default();
        let of = ObjectType::of::<u8>();
        let from = new_kind(&mut route, "from", of).expect("new");
        let to = new_kind(&mut route, "to", of).expect("new");
        let informer = FormUser::Informer;
        route.form(from, of, informer).expect("its form");
        assert_eq!(route.without_informer(), None);
        route.add_mapper(from, to, Box::new(Inert));
        let named = Some(("to".to_owned(), Some("from".to_owned())));
        assert_eq!(route.without_informer(), named);
        assert!(!route.has_informer(to));
        route.form(to, of, informer).expect("its form");
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

        fn finalizer(&self) -> Option<&str> {
            None
        }

        fn history_went_back(&self, _: &str) {}
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
}

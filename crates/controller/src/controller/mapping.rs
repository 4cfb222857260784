//! From an object of one kind to those of another that it concerns.
//!
//! Mappers name; the informer of whoever is named tells them again, in their turn; and here is
//! kept how urgent that is until they come. So what is named is bounded by what is there, and
//! comes after everything that has happened to it, however far behind the handlers are.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing::Span;
use windlass_informer::{ObjectKey, ResyncHandle};

use super::{Shared, report::ErrorReport};
use crate::{
    Action, HandlerError,
    event::AnyEvent,
    route::{KindId, Mapping, Role},
    schedule::Class,
    trace, work,
};

/// Who of one informer's objects is to be told again.
#[derive(Default)]
pub(super) struct Woken {
    /// None until the informer is listened to: then everything will be told.
    recall: OnceLock<ResyncHandle>,
    /// How urgent each is. Keys of objects that are there, until they are told.
    classes: Mutex<HashMap<ObjectKey, Class>>,
}

/// Asks `mappers` about `event` of `kind`, which is as urgent as `class`, and wakes whom they
/// name.
pub(super) fn map(
    shared: &Shared,
    mappers: &[Arc<Mapping>],
    kind: KindId,
    event: &AnyEvent,
    class: Class,
    told: &Span,
) {
    if mappers.is_empty() {
        return;
    }
    let _told = told.enter();
    let mut named: HashMap<KindId, HashSet<ObjectKey>> = HashMap::new();
    for mapper in mappers {
        let keys = ask(shared, kind, mapper, event);
        named.entry(mapper.to).or_default().extend(keys);
    }
    // Who has changed is told of that.
    if let Some((named, object)) = named.get_mut(&kind).zip(event.object()) {
        named.remove(&object.key());
    }
    for (kind, keys) in named {
        let woken = shared.wake(kind, &keys, class);
        shared.kind_metrics(kind).mapped(woken);
    }
}

/// Whom one mapper names. Why it does not say is told as of a call that failed.
fn ask(shared: &Shared, kind: KindId, mapper: &Mapping, event: &AnyEvent) -> Vec<ObjectKey> {
    let Some((action, object)) = Action::of(event).zip(event.object()) else {
        return Vec::new();
    };
    let span = trace::handler(Role::Mapper, mapper.id, action, 0);
    let (keys, failed) = span.in_scope(|| work::map(&*mapper.code, event));
    trace::mapped(&span, failed.as_ref());
    if let Some(error) = failed {
        if let HandlerError::Panicked { .. } = error {
            shared.kind_metrics(kind).mapper_panicked();
        }
        let name = shared.route.read().name(kind);
        let report = ErrorReport {
            kind: &name,
            key: &object.key(),
            handler: mapper.id,
            role: Role::Mapper,
            action,
            attempt: 0,
            error: &error,
            retry_in: None,
        };
        work::ask("on_error", || (shared.settings.on_error)(&report));
    }
    keys
}

// === impl Woken ===

impl Woken {
    /// From now on `recall` is asked.
    pub(super) fn listen(&self, recall: ResyncHandle) {
        // A feed is pumped once.
        _ = self.recall.set(recall);
    }

    /// Has those of `keys` told again that are there. Returns how many those are.
    pub(super) fn wake(
        &self,
        keys: &HashSet<ObjectKey>,
        class: Class,
        is_there: impl Fn(&ObjectKey) -> bool,
    ) -> usize {
        let Some(recall) = self.recall.get() else {
            return 0;
        };
        let there: Vec<_> = {
            // Looked up under the lock: whoever goes after that finds what was noted of them.
            let mut classes = self.classes.lock();
            let there = keys.iter().filter(|key| is_there(key));
            let there = there.inspect(|key| {
                let noted = classes.entry((*key).clone()).or_insert(class);
                *noted = class.min(*noted);
            });
            there.cloned().collect()
        };
        let woken = there.len();
        if woken > 0 {
            recall.ask(there);
        }
        woken
    }

    /// How urgent it is that the object of `key` is told, now that it has come or is gone.
    pub(super) fn take(&self, key: &ObjectKey) -> Option<Class> {
        self.classes.lock().remove(key)
    }
}

//! An event on its way, and which events are as good as one.

use std::{num::NonZeroU32, sync::Arc};

use windlass_informer::{Event, Named};

use super::room::Room;
use crate::{
    HandlerError, HandlerId, State,
    event::AnyEvent,
    route::Role,
    schedule::{About, Moment},
    trace::Origin,
};

/// What becomes of several events of one object that nobody could be told of yet.
///
/// | waiting | newer | `Every` | `Latest` |
/// |--|--|--|--|
/// | `Added(a)` | `Updated { a, b }` | both | `Added(b)` |
/// | `Updated { a, b }` | `Updated { b, c }` | both | `Updated { a, c }` |
/// | `Resynced(a)` | `Updated { a, b }` | both | `Updated { a, b }` |
/// | `Added`, `Updated`, `Resynced` | `Deleted` | both | `Deleted` |
/// | `Added`, `Updated`, `Resynced` | `Resynced` | the one that waits | the one that waits |
/// | anything | of another uid | both | both |
///
/// A resync is no news while there is news, so it never waits beside another event; a handler
/// whose [`Predicate`](crate::Predicate) does not want that one is told the resync instead. A
/// `Deleted` is told even where the `Added` was not: what an earlier life of this process was
/// told is not known, and may be to clean up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Every event is told, in order. While too many wait to be told, the watch waits.
    #[default]
    Every,
    /// What happened to one object in the meantime is told as one event, from the oldest
    /// state that was not told to the newest. An object that changes all the time costs as
    /// much as any other.
    Latest,
}

/// An event on its way to its handlers.
pub(crate) struct Notice {
    pub(crate) event: AnyEvent,

    /// A resync has become one with it.
    pub(crate) resynced: bool,

    /// The trace that it is told in.
    pub(crate) origin: Origin,

    /// When it came, or the oldest of those that it stands for.
    pub(crate) received: Moment,

    /// The last handler that has been told, if the telling broke off.
    pub(crate) told: Option<Place>,

    /// Its room in the queue, given back when all have been told.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) room: Option<Room>,
}

/// A handler's place in its chain, in four bytes: there is one for every event that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(NonZeroU32);

/// What a pending call needs.
pub(crate) struct Owed {
    /// The event as it was received.
    pub(crate) event: AnyEvent,
    pub(crate) attempt: u32,
    /// Hardly any call leaves one.
    pub(crate) state: Option<Box<State>>,
    /// Why the last call failed, if it did.
    pub(crate) error: Option<Arc<HandlerError>>,
    /// The trace of the call that it comes from.
    pub(crate) origin: Origin,
}

// === impl Delivery ===

impl Delivery {
    /// Makes one event of two about the same object, or gives the newer one back. What is not
    /// needed any more is put into `rest`, to be dropped where no lock is held.
    pub(crate) fn fold(
        self,
        older: &mut Notice,
        mut newer: Notice,
        rest: &mut Vec<Notice>,
    ) -> Option<Notice> {
        // Somebody has been told of the older one already.
        if older.told.is_some() {
            return Some(newer);
        }
        let latest = self == Self::Latest;
        let is_resync = |event: &AnyEvent| matches!(event, Event::Resynced(_));
        let resynced = is_resync(&older.event) || is_resync(&newer.event);
        match (&mut older.event, &mut newer.event) {
            (Event::Added(_) | Event::Updated { .. } | Event::Resynced(_), Event::Resynced(_)) => {}
            (
                Event::Added(object) | Event::Updated { new: object, .. },
                Event::Updated { new, .. },
            ) if latest => std::mem::swap(object, new),
            (
                older @ Event::Resynced(_),
                newer @ (Event::Updated { .. } | Event::Deleted { .. }),
            )
            | (older @ (Event::Added(_) | Event::Updated { .. }), newer @ Event::Deleted { .. })
                if latest =>
            {
                std::mem::swap(older, newer);
            }
            _ => return Some(newer),
        }
        // There is no state to tell again of what is gone.
        older.resynced =
            (older.resynced || resynced) && !matches!(older.event, Event::Deleted { .. });
        rest.push(newer);
        None
    }
}

// === impl Notice ===

impl About for Notice {
    fn uid(&self) -> Option<&str> {
        uid(&self.event)
    }

    fn address(&self) -> Option<usize> {
        address(&self.event)
    }

    fn owners(&self) -> usize {
        self.event.object().map_or(0, Arc::strong_count)
    }
}

// === impl Owed ===

impl About for Owed {
    fn uid(&self) -> Option<&str> {
        uid(&self.event)
    }

    fn address(&self) -> Option<usize> {
        address(&self.event)
    }
}

fn uid(event: &AnyEvent) -> Option<&str> {
    Named::uid(&**event.object()?)
}

fn address(event: &AnyEvent) -> Option<usize> {
    Some(Arc::as_ptr(event.object()?).addr())
}

// === impl Place ===

impl Place {
    pub(crate) fn of((role, id): (Role, HandlerId)) -> Self {
        /// The bits of the number; above them is the role.
        const NUMBERS: u32 = 30;
        let number = u32::try_from(id.0).expect("handlers are added by hand");
        debug_assert!(number < 1 << NUMBERS, "handlers are added by hand");
        Self(NonZeroU32::MIN.saturating_add((role as u32) << NUMBERS | number))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use windlass_informer::Kept;

    use super::*;
    use crate::AnyObject;

    #[test]
    fn the_newest_state_is_told_with_the_oldest_that_was_not() {
        check(Delivery::Latest, "add a", "update a b", "add b");
        check(Delivery::Latest, "update a b", "update b c", "update a c");
        check(Delivery::Latest, "resync a", "update a b", "update a b+");
    }

    #[test]
    fn a_delete_is_told_in_place_of_what_came_before() {
        check(Delivery::Latest, "add a", "delete b", "delete b");
        check(Delivery::Latest, "update a b", "delete c", "delete c");
        check(Delivery::Latest, "resync a", "delete a", "delete a");
    }

    #[test]
    fn a_resync_is_no_news_while_there_is_news() {
        for delivery in [Delivery::Every, Delivery::Latest] {
            check(delivery, "add a", "resync a", "add a+");
            check(delivery, "update a b", "resync b", "update a b+");
            check(delivery, "resync a", "resync a", "resync a+");
        }
    }

    #[test]
    fn that_there_was_a_resync_is_not_forgotten() {
        let mut first = notice("update a b");
        for (newer, shown) in [
            ("resync b", "update a b+"),
            ("update b c", "update a c+"),
            ("delete d", "delete d"),
        ] {
            let second = Delivery::Latest.fold(&mut first, notice(newer), &mut Vec::new());
            assert!(second.is_none());
            assert_eq!(show(&first), shown, "{newer}");
        }
    }

    #[test]
    fn nothing_follows_a_delete_as_one() {
        for delivery in [Delivery::Every, Delivery::Latest] {
            check(delivery, "delete a", "add b", "delete a, add b");
            check(delivery, "delete a", "resync a", "delete a, resync a");
        }
    }

    #[test]
    fn every_event_is_told_on_its_own() {
        for (older, newer) in [
            ("add a", "update a b"),
            ("update a b", "update b c"),
            ("update a b", "delete b"),
            ("resync a", "update a b"),
        ] {
            check(Delivery::Every, older, newer, &format!("{older}, {newer}"));
        }
    }

    #[test]
    fn what_somebody_has_been_told_stays_as_it_is() {
        let mut older = notice("update a b");
        older.told = Some(Place::of((Role::Watcher, HandlerId(0))));
        assert!(
            Delivery::Latest
                .fold(&mut older, notice("update b c"), &mut Vec::new())
                .is_some()
        );
    }

    #[test]
    fn one_object_is_known_by_its_uid_and_a_state_of_it_by_its_place() {
        let object = |uid: &str| -> Arc<dyn AnyObject> {
            let mut map = ConfigMap::default();
            map.metadata.uid = Some(uid.to_owned());
            Arc::new(map)
        };
        let added = |object: &Arc<dyn AnyObject>| Notice {
            event: Event::Added(Arc::clone(object)),
            ..notice("add a")
        };
        let (first, again, other) = (object("1"), object("1"), object("2"));
        assert_eq!(added(&first).address(), added(&first).address());
        assert!(added(&first).is_about(&added(&first)));
        assert_ne!(added(&first).address(), added(&again).address());
        assert!(added(&first).is_about(&added(&again)));
        assert!(!added(&first).is_about(&added(&other)));
    }

    #[test]
    fn places_stand_in_the_order_of_the_chain() {
        let chain = [
            (Role::Watcher, HandlerId(0)),
            (Role::Watcher, HandlerId(7)),
            (Role::Reconciler, HandlerId(0)),
            (Role::Reconciler, HandlerId(3)),
        ];
        assert!(chain.is_sorted());
        assert!(chain.map(Place::of).is_sorted_by(|a, b| a < b));
    }

    #[track_caller]
    fn check(delivery: Delivery, older: &str, newer: &str, told: &str) {
        let mut first = notice(older);
        let mut all = Vec::new();
        let second = delivery.fold(&mut first, notice(newer), &mut Vec::new());
        all.push(show(&first));
        all.extend(second.as_ref().map(show));
        assert_eq!(
            all.join(", "),
            told,
            "{older} and then {newer}, {delivery:?}"
        );
    }

    fn notice(text: &str) -> Notice {
        let words: Vec<_> = text.split(' ').collect();
        let object = |name: &str| -> Arc<dyn AnyObject> {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(name.to_owned());
            Arc::new(map)
        };
        let event = match *words {
            ["add", a] => Event::Added(object(a)),
            ["update", a, b] => Event::Updated {
                old: Kept::any(object(a)),
                new: object(b),
            },
            ["delete", a] => Event::Deleted {
                last: object(a),
                missed: false,
            },
            ["resync", a] => Event::Resynced(object(a)),
            _ => panic!("no such event: {text}"),
        };
        Notice {
            event,
            resynced: false,
            origin: Origin::default(),
            received: Moment::default(),
            told: None,
            room: None,
        }
    }

    fn show(notice: &Notice) -> String {
        let resynced = if notice.resynced { "+" } else { "" };
        let event = match &notice.event {
            Event::Added(a) => format!("add {}", a.key()),
            Event::Updated { old, new } => format!("update {} {}", old.key(), new.key()),
            Event::Deleted { last, .. } => format!("delete {}", last.key()),
            Event::Resynced(a) => format!("resync {}", a.key()),
            _ => "synced".to_owned(),
        };
        event + resynced
    }
}

//! Merges the events of several informers of one kind into one history per object. *(pure)*
//!
//! Informers of one kind may overlap, lag behind each other, or select parts of one kind between
//! which objects move. Handlers get one history of each object: each version once, versions that
//! never decrease, and `Deleted` when no informer has the uid any more. If a kind has one informer,
//! its events pass unchanged, and no state is kept.
//!
//! - An event that is not newer than the last emitted one is dropped.
//! - `Deleted` from one informer is held back while another one has the uid.
//! - After `Deleted`, an event of the same uid is an `Added` if its version is at least that of the
//!   delete (the object is in another informer now). An older one comes from an informer that lags,
//!   and is dropped.
//! - Tombstones are kept until each informer has passed their version, up to a bound. When one is
//!   dropped at the bound, the informers that have not passed it relist. Until then, an object that
//!   only such an informer shows, in a state before that delete, is withheld: it may be the deleted
//!   one.
//! - Versions that are not numbers cannot be compared: then the order of arrival counts, and
//!   overlapping informers are reported.
//!
//! - When one informer detects that the history of the server went back, a new epoch begins and all
//!   others relist. With that list an informer enters the epoch, whether it has detected the change
//!   or listed for the first time after it.
//!
//! An informer whose events passed before the second one was added keeps its own history: its
//! objects belong to it until its next event of that object, or until it is removed.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use windlass_informer::{Event, InformerId, LazyObject, ObjectIdentity, ObjectKey, Uid};

use crate::{ErasedObject, event::AnyEvent};

type Object = Arc<dyn ErasedObject>;

/// Merges the events of the informers of one kind.
#[derive(Default)]
pub(crate) struct Merge {
    members: Vec<MemberInformer>,
    objects: HashMap<Uid, TrackedObject>,
    tombstones: HashMap<Uid, Version>,
    /// The uids of the tombstones, oldest first.
    tombstone_order: VecDeque<Uid>,
    /// The newest epoch of the kind.
    epoch: u32,
    /// Whether informers that cannot be compared were reported.
    reported: bool,
    /// The informers that must relist.
    lagging: Vec<InformerId>,
    /// Events of withheld objects that turned out to exist.
    released: Vec<MergedEvent>,
}

/// One informer of the kind.
struct MemberInformer {
    informer: InformerId,

    /// Whether its events passed before there was another informer.
    preceding: bool,

    /// The newest version of its watch events.
    passed: Version,

    /// Its epoch as the informer counts.
    counted: u32,

    /// Its epoch as the kind counts.
    epoch: u32,

    /// The version that it has to pass, because a tombstone of that version was dropped. `None` if
    /// there is none.
    must_pass: Option<Version>,

    /// Whether a relist was requested.
    relisting: bool,

    /// Whether another relist must follow: the requested one may have begun before the newest
    /// epoch.
    relist_again: bool,

    /// The objects that it shows and that may be deleted. They are in its store, or were shortly
    /// before.
    withheld: HashMap<Uid, WithheldObject>,
}

/// An event of one informer.
pub(super) struct InformerEvent {
    pub(super) informer: InformerId,
    pub(super) event: AnyEvent,
    /// The epoch as the informer counts.
    pub(super) epoch: u32,
    /// Whether it comes from the watch, and not from a list.
    pub(super) live: bool,
    /// Whether it is the first state of its object since the history of this informer went back.
    pub(super) restored: bool,
}

/// An event for the handlers.
pub(super) struct MergedEvent {
    pub(super) event: AnyEvent,
    /// Whether it is the first state of its object since the history went back, for all informers.
    pub(super) restored: bool,
}

/// An object that may be deleted.
struct WithheldObject {
    key: ObjectKey,
    /// Whether a state of it was the first since the history went back.
    restored: bool,
}

/// The merged state of one uid.
struct TrackedObject {
    /// The informers that have it.
    holders: Vec<InformerId>,

    /// The last emitted state. `None` if a preceding informer has the object and has not sent an
    /// event of it since.
    emitted: Option<Object>,

    /// The newest state that another informer has shown since.
    held_back: Option<Object>,

    /// The epoch of both.
    epoch: u32,

    /// Whether the informer that showed it may not have detected that the history went back, or
    /// listed later.
    doubtful: bool,

    /// The newest version at which an informer showed that it was deleted, or left its selector.
    left: Version,
}

/// The position of a state in the history of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// The number of times that the history went back.
    epoch: u32,
    /// None if it is not a number.
    number: Option<u64>,
}

/// Looks up the object with this key and uid in an informer's store.
pub(super) type Lookup<'a> = &'a dyn Fn(InformerId, &ObjectKey, &str) -> Option<Object>;

// === impl Merge ===

impl Merge {
    /// The maximum number of tombstones: 1 MB.
    const TOMBSTONES: usize = 10_000;

    /// Adds an informer, whose own epoch is `epoch`. Informers that were `started` before the
    /// second one was added keep their objects.
    pub(super) fn add(&mut self, informer: InformerId, started: bool, epoch: u32) {
        self.members.push(MemberInformer {
            informer,
            preceding: started,
            passed: Version::default(),
            counted: epoch,
            epoch: self.epoch,
            must_pass: None,
            relisting: false,
            relist_again: false,
            withheld: HashMap::new(),
        });
    }

    /// Removes an informer. Objects that only it had are forgotten without an event. `lookup` reads
    /// its store.
    ///
    /// Returns the objects that must be resynced, each with an informer that has it: the events of
    /// the removed informer covered them, and not all of these may have arrived.
    pub(super) fn remove(
        &mut self,
        informer: InformerId,
        lookup: Lookup<'_>,
    ) -> Vec<(InformerId, ObjectKey)> {
        self.members.retain(|member| member.informer != informer);
        let members = &self.members;
        let mut show_again = Vec::new();
        self.objects.retain(|uid, seen| {
            let count = seen.holders.len();
            seen.holders.retain(|holder| *holder != informer);
            let was_holder = seen.holders.len() < count;
            if was_holder
                && seen.emitted.is_none()
                && !is_preceded(members, seen)
                && let Some(held_back) = &mut seen.held_back
                && let Some(holder) = seen.holders.first()
            {
                let key = held_back.key();
                if let Some(removed) = lookup(informer, &key, uid.as_str())
                    && Version::of(held_back, seen.epoch)
                        .is_before(Version::of(&removed, seen.epoch))
                {
                    *held_back = removed;
                }
                show_again.push((*holder, key));
            }
            !seen.holders.is_empty()
        });
        show_again
    }

    /// Whether events pass unchanged.
    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty()
    }

    /// Merges an event. Returns the event for the handlers, if there is one.
    pub(super) fn apply(
        &mut self,
        shown: InformerEvent,
        lookup: Lookup<'_>,
    ) -> Option<MergedEvent> {
        let InformerEvent {
            informer,
            event,
            epoch,
            live,
            restored,
        } = shown;
        let object = Arc::clone(event.object()?);
        // The last events of a removed informer may still arrive.
        self.member(informer)?;
        let Some(uid) = ObjectIdentity::uid(&*object).map(Uid::from) else {
            // Objects without a uid cannot be compared.
            return Some(MergedEvent { event, restored });
        };
        let epoch = self.epoch_of(informer, epoch);
        let version = Version::of(&object, epoch);
        let mut passes = false;
        // A resync shows a state of any age.
        let live = live && !matches!(event, Event::Resynced(_));
        if live && let Some(member) = self.member(informer) {
            member.passed = version;
            passes = member.must_pass.is_some_and(|it| !version.is_before(it));
        }
        let merged = if let Event::Deleted { missed, .. } = event {
            let deleted = self.delete(informer, uid, object, version, missed);
            let restored = false;
            deleted.map(|event| MergedEvent { event, restored })
        } else {
            self.show(informer, &uid, event, epoch, restored, lookup)
        };
        if passes {
            self.catch_up(informer, lookup);
        }
        merged
    }

    /// Notes that a list of `informer` is complete up to this version. `None` if the version is not
    /// known.
    pub(super) fn synced(
        &mut self,
        informer: InformerId,
        epoch: u32,
        up_to: Option<u64>,
        lookup: Lookup<'_>,
    ) {
        let mut epoch = self.epoch_of(informer, epoch);
        let newest = self.epoch;
        let Some(member) = self.member(informer) else {
            return;
        };
        if std::mem::take(&mut member.relist_again) {
            self.lagging.push(informer);
            return;
        }
        let relisted = std::mem::take(&mut member.relisting);
        // A list without a known version was requested after the tombstones were dropped.
        let number = up_to.or(member.must_pass.and_then(|it| it.number));
        let of_epoch = |epoch| Version { epoch, number };
        let is_past = |version: Version| member.must_pass.is_some_and(|it| version.is_before(it));
        // An informer that listed after the history went back does not detect it.
        let joins = relisted && epoch < newest && !is_past(of_epoch(newest));
        if joins {
            epoch = newest;
        }
        let version = of_epoch(epoch);
        let catches_up = !is_past(version);
        member.epoch = epoch;
        if number.is_some() {
            member.passed = version;
        }
        if catches_up {
            self.catch_up(informer, lookup);
        }
        if joins {
            self.show_again(informer, lookup);
        }
    }

    /// Takes the informers that must relist.
    pub(super) fn take_lagging(&mut self) -> Vec<InformerId> {
        std::mem::take(&mut self.lagging)
    }

    /// Takes the events of withheld objects that exist, and of objects that were shown before their
    /// epoch.
    pub(super) fn take_released(&mut self) -> Vec<MergedEvent> {
        std::mem::take(&mut self.released)
    }

    /// Releases the withheld objects of `informer`, which has passed all dropped tombstones.
    fn catch_up(&mut self, informer: InformerId, lookup: Lookup<'_>) {
        let Some(member) = self.member(informer) else {
            return;
        };
        member.must_pass = None;
        let epoch = member.epoch;
        for (uid, WithheldObject { key, restored }) in std::mem::take(&mut member.withheld) {
            // If the store does not have it, its delete event will arrive.
            let Some(object) = lookup(informer, &key, uid.as_str()) else {
                continue;
            };
            let event = Event::Added(object);
            let released = self.show(informer, &uid, event, epoch, restored, lookup);
            self.released.extend(released);
        }
    }

    /// Shows the objects of `informer` again, in the newest epoch.
    fn show_again(&mut self, informer: InformerId, lookup: Lookup<'_>) {
        let held = self.objects.iter();
        let held = held.filter(|(_, seen)| seen.holders.contains(&informer));
        let held: Vec<_> = held
            .filter_map(|(uid, seen)| Some((uid.clone(), seen.emitted.as_ref()?.key())))
            .collect();
        for (uid, key) in held {
            // If the store does not have it, its delete event will arrive.
            let Some(object) = lookup(informer, &key, uid.as_str()) else {
                continue;
            };
            let event = Event::Added(object);
            let shown = self.show(informer, &uid, event, self.epoch, false, lookup);
            self.released.extend(shown);
        }
    }

    /// Whether an object that only `informer` shows, in this version, may be deleted: a tombstone
    /// of a later version was dropped before the informer passed it.
    fn may_be_deleted(
        &mut self,
        informer: InformerId,
        uid: &Uid,
        event: &AnyEvent,
        version: Version,
    ) -> bool {
        let Some(member) = self.member(informer) else {
            return false;
        };
        let is_before = member.must_pass.is_some_and(|it| version.is_before(it));
        // An object that a preceding informer has shown already is not new.
        let is_new = !member.preceding
            || matches!(event, Event::Added(_))
            || member.withheld.contains_key(uid);
        is_before && is_new
    }

    /// Withholds an object of `informer`.
    fn withhold(&mut self, informer: InformerId, uid: Uid, object: &Object) {
        if let Some(member) = self.member(informer) {
            let (key, restored) = (object.key(), false);
            member
                .withheld
                .entry(uid)
                .or_insert(WithheldObject { key, restored });
        }
    }

    /// Handles an object that `informer` shows. Returns the event for the handlers, if there is
    /// one.
    fn show(
        &mut self,
        informer: InformerId,
        uid: &Uid,
        event: AnyEvent,
        epoch: u32,
        mut restored: bool,
        lookup: Lookup<'_>,
    ) -> Option<MergedEvent> {
        let object = Arc::clone(event.object()?);
        let mut version = Version::of(&object, epoch);
        let doubtful = version.epoch < self.epoch && !self.is_shown_elsewhere(informer, uid);
        if doubtful {
            version.epoch = self.epoch;
        }
        let before = match self.objects.get_mut(uid) {
            Some(seen) if restored && seen.doubtful => {
                // The earlier state was of the old history.
                seen.epoch = 0;
                Some(0)
            }
            Some(seen) => Some(seen.epoch),
            None => {
                let mut withheld = (self.members.iter()).filter_map(|it| it.withheld.get(uid));
                restored |= withheld.any(|it| it.restored);
                self.tombstones.get(uid).map(|it| it.epoch)
            }
        };
        restored = before.map_or(restored, |before| before < version.epoch);
        let shown = self.observe(informer, uid.clone(), event, object, version, lookup);
        if let Some(withheld) = self
            .member(informer)
            .and_then(|it| it.withheld.get_mut(uid))
        {
            withheld.restored |= restored;
        }
        let event = shown?;
        if let Some(seen) = self.objects.get_mut(uid) {
            seen.doubtful = doubtful;
        }
        Some(MergedEvent { event, restored })
    }

    /// Returns the epoch of an informer whose own epoch is `counted`. An informer that detects that
    /// the history went back opens a new epoch, in which all others relist, or enters the one that
    /// another informer has opened.
    fn epoch_of(&mut self, informer: InformerId, counted: u32) -> u32 {
        let newest = self.epoch;
        let Some(member) = self.member(informer) else {
            return newest;
        };
        if counted <= member.counted {
            return member.epoch;
        }
        member.counted = counted;
        if member.epoch < newest {
            member.epoch = newest;
            return newest;
        }
        self.epoch = newest.saturating_add(1);
        for member in &mut self.members {
            if member.informer == informer {
                member.epoch = self.epoch;
            } else if std::mem::replace(&mut member.relisting, true) {
                member.relist_again = true;
            } else {
                self.lagging.push(member.informer);
            }
        }
        self.epoch
    }

    /// Whether another informer of the newest epoch has `uid`. If not, what `informer` shows has to
    /// be accepted although it may not have detected that the history went back: an informer that
    /// listed after that never does.
    fn is_shown_elsewhere(&self, informer: InformerId, uid: &Uid) -> bool {
        let holders = self.objects.get(uid).map(|seen| &seen.holders);
        self.members.iter().any(|member| {
            member.informer != informer
                && member.epoch == self.epoch
                && holders.is_some_and(|holders| holders.contains(&member.informer))
        })
    }

    fn observe(
        &mut self,
        informer: InformerId,
        uid: Uid,
        event: AnyEvent,
        object: Object,
        version: Version,
        lookup: Lookup<'_>,
    ) -> Option<AnyEvent> {
        let preceding = self.member(informer).is_some_and(|it| it.preceding);
        let Some(seen) = self.objects.get_mut(&uid) else {
            if let Some(tombstone_order) = self.tombstones.get(&uid) {
                if version.is_before(*tombstone_order) {
                    self.withhold(informer, uid, &object);
                    return None;
                }
                self.tombstones.remove(&uid);
                self.tombstone_order.retain(|it| *it != uid);
            } else if self.may_be_deleted(informer, &uid, &event, version) {
                self.withhold(informer, uid, &object);
                return None;
            }
            let key = object.key();
            let mut holders: Vec<_> = (self.members.iter())
                .filter(|it| it.preceding && it.informer != informer)
                .map(|it| it.informer)
                .filter(|it| lookup(*it, &key, uid.as_str()).is_some())
                .collect();
            let owned = holders.is_empty() || preceding;
            // Withheld objects of other informers are the same object.
            for other in &mut self.members {
                let has_it = other.withheld.remove(&uid).is_some();
                if has_it && other.informer != informer && !holders.contains(&other.informer) {
                    holders.push(other.informer);
                }
            }
            holders.push(informer);
            let (emitted, held_back) = if owned {
                (Some(object.clone()), None)
            } else {
                (None, Some(object.clone()))
            };
            let seen = TrackedObject {
                holders,
                emitted,
                held_back,
                epoch: version.epoch,
                doubtful: false,
                left: Version::default(),
            };
            self.objects.insert(uid, seen);
            return match (owned, preceding) {
                (false, _) => None,
                (true, true) => Some(event),
                (true, false) => Some(Event::Added(object)),
            };
        };
        if !seen.holders.contains(&informer) {
            seen.holders.push(informer);
            if !self.reported && version.number.is_none() {
                self.reported = true;
                tracing::error!(
                    component = "InformerController",
                    object = %object.key(),
                    "two informers of one kind show the same object, and its resourceVersion is \
                     not a number: select disjoint objects with them"
                );
            }
        }
        let Some(emitted) = &mut seen.emitted else {
            if preceding {
                seen.epoch = version.epoch;
                seen.emitted = Some(object);
                return Some(event);
            }
            let newest = match seen.held_back.take() {
                Some(known) if version.is_before(Version::of(&known, seen.epoch)) => known,
                _ => {
                    seen.epoch = version.epoch;
                    object
                }
            };
            if is_preceded(&self.members, seen) {
                seen.held_back = Some(newest);
                return None;
            }
            // The first informer that had it was removed.
            seen.emitted = Some(Arc::clone(&newest));
            return Some(Event::Added(newest));
        };
        let known = Version::of(emitted, seen.epoch);
        let is_same = emitted.resource_version() == object.resource_version();
        if (is_same && known.epoch == version.epoch) || version.is_before(known) {
            let again = matches!(event, Event::Resynced(_));
            return again.then(|| Event::Resynced(Arc::clone(emitted)));
        }
        seen.epoch = version.epoch;
        let old = std::mem::replace(emitted, Arc::clone(&object));
        Some(Event::Updated {
            old: LazyObject::from_erased(old),
            new: object,
        })
    }

    fn delete(
        &mut self,
        informer: InformerId,
        uid: Uid,
        last: Object,
        version: Version,
        missed: bool,
    ) -> Option<AnyEvent> {
        let preceding = self.member(informer).is_some_and(|it| it.preceding);
        let withheld = (self.member(informer)).and_then(|it| it.withheld.remove(&uid));
        let Some(seen) = self.objects.get_mut(&uid) else {
            if !preceding || withheld.is_some() || self.tombstones.contains_key(&uid) {
                return None;
            }
            self.add_tombstone(uid, version);
            return Some(Event::Deleted { last, missed });
        };
        seen.holders.retain(|holder| *holder != informer);
        if !missed && !version.is_before(seen.left) {
            seen.left = version;
        }
        if !seen.holders.is_empty() {
            if seen.emitted.is_some() || is_preceded(&self.members, seen) {
                return None;
            }
            // The first informer that had it reports its delete, and another one still has it.
            let new = seen.held_back.take()?;
            seen.emitted = Some(Arc::clone(&new));
            return Some(Event::Updated {
                old: LazyObject::from_erased(last),
                new,
            });
        }
        let seen = self.objects.remove(&uid)?;
        let known = seen.emitted.or(seen.held_back);
        let (mut last, mut version) = (last, version);
        if let Some(known) = known {
            let its = Version::of(&known, seen.epoch);
            // A missed delete has no state.
            if missed || version.is_before(its) {
                (last, version) = (known, its);
            }
        }
        let left = seen.left;
        self.add_tombstone(
            uid,
            if version.is_before(left) {
                left
            } else {
                version
            },
        );
        Some(Event::Deleted { last, missed })
    }

    /// Adds a tombstone for `uid`, and drops the oldest ones that all informers have passed, or
    /// that exceed the bound.
    fn add_tombstone(&mut self, uid: Uid, version: Version) {
        self.tombstones.insert(uid.clone(), version);
        self.tombstone_order.push_back(uid);
        while let Some(oldest) = self.tombstone_order.front() {
            let oldest = self.tombstones.get(oldest).copied();
            let is_passed =
                |it: &MemberInformer| oldest.is_none_or(|version| version.is_before(it.passed));
            let is_over = self.tombstone_order.len() > Self::TOMBSTONES;
            if !is_over && !self.members.iter().all(is_passed) {
                break;
            }
            let late = self.members.iter_mut().filter(|it| !is_passed(it));
            for (member, version) in late.zip(std::iter::repeat(oldest)) {
                let further = |known: Version| version.is_none_or(|it| it.is_before(known));
                if !member.must_pass.is_some_and(further) {
                    member.must_pass = version;
                }
                if !std::mem::replace(&mut member.relisting, true) {
                    self.lagging.push(member.informer);
                }
            }
            if let Some(oldest) = self.tombstone_order.pop_front() {
                self.tombstones.remove(&oldest);
            }
        }
    }

    fn member(&mut self, informer: InformerId) -> Option<&mut MemberInformer> {
        let mut members = self.members.iter_mut();
        members.find(|member| member.informer == informer)
    }
}

/// Whether a preceding informer has the object.
fn is_preceded(members: &[MemberInformer], seen: &TrackedObject) -> bool {
    let mut members = members.iter();
    members.any(|it| it.preceding && seen.holders.contains(&it.informer))
}

// === impl Version ===

impl Version {
    fn of(object: &Object, epoch: u32) -> Self {
        let number = object.resource_version();
        Self {
            epoch,
            number: number.and_then(|number| number.parse().ok()),
        }
    }

    /// Whether it is certainly older than `other`.
    fn is_before(self, other: Self) -> bool {
        let numbers = self.number.zip(other.number);
        self.epoch < other.epoch
            || (self.epoch == other.epoch && numbers.is_some_and(|(own, its)| own < its))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn each_version_is_emitted_once_whoever_shows_it() {
        check("a+1 b+1 a~2 b~2", "+1 ~1>2");
        check("a+1 a~2 b+1 b~2 b~3 a~3", "+1 ~1>2 ~2>3");
    }

    #[test]
    fn versions_never_go_back() {
        check("a+1 a~5 b+3 b~4 b~6", "+1 ~1>5 ~5>6");
    }

    /// Rows: GA-90
    #[test]
    fn an_object_is_deleted_when_no_informer_holds_it() {
        check("a+1 b+1 a-2 b-2", "+1 -2");
        check("a+1 b+1 a-3 b~2 b-3", "+1 ~1>2 -3");
        check("a+1 b+4 a-5", "+1 ~1>4");
    }

    #[test]
    fn an_object_that_moves_between_informers_is_updated_or_deleted_and_added() {
        check("a+1 b+2 a-2", "+1 ~1>2");
        check("a+1 a-2 b+2", "+1 -2 +2");
    }

    #[test]
    fn an_informer_that_lags_brings_no_deleted_object_back() {
        check("a+1 a-5 b+1 b~2 b-5", "+1 -5");
        check("a+1 a-5 b+1 b-5 a+6", "+1 -5 +6");
        // It left b, was back, and was deleted: b shows all that late.
        check("b+1 a+3 a-4 b-2 b+3 b-4", "+1 ~1>3 -3");
    }

    #[test]
    fn a_resync_has_the_newest_state() {
        check("a+1 b+4 a=1", "+1 ~1>4 =4");
    }

    #[test]
    fn what_one_informer_alone_held_is_added_again_when_it_comes_back() {
        check("a+1 b+1 !a a+1", "+1");
        check("a+1 !a a+1", "+1 +1");
    }

    #[test]
    fn an_informer_that_was_there_before_goes_on_with_what_it_holds() {
        // The store of the first one holds version 3, and its events up to 2 were passed on.
        check("@3 b+3 a~3", "~2>3");
        check("@3 b+4 a~3 a~4", "~2>3 ~3>4");
        check("@3 b+4 a-3", "~3>4");
        check("@- b+4 a-3 b~5", "+4 ~4>5");
        check("@3 a-4 b+3", "-4");
    }

    #[test]
    fn an_informer_goes_on_with_what_a_removed_one_held_first() {
        check("@3 b+3 ?a b=3 b~4", "+3 ~3>4");
        check("@3 b+3 ?a b~4", "+4");
        check("@3 b+3 ?a b-4", "-4");
        // The store of the removed one was ahead.
        check("@5 b+3 ?a b=3 b~4 b~6", "+5 ~5>6");
    }

    #[test]
    fn late_events_of_a_removed_informer_are_dropped() {
        check("a+1 b+1 ?a a~2 a+9 b-3", "+1 -3");
        check("a+1 ?a a~2 b+3", "+1 +3");
    }

    #[test]
    fn a_resync_does_not_show_how_far_an_informer_is() {
        let mut merge = merge(false);
        let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
        merge.apply(sighting(0, event("+", "9"), 0), &nothing);
        merge.apply(sighting(0, event("=", "3"), 0), &nothing);
        let passed = merge.member(id(0)).map(|it| it.passed.number);
        assert_eq!(passed, Some(Some(9)));
    }

    #[test]
    fn versions_that_are_no_numbers_count_in_the_order_of_arrival() {
        check("a+x b+y a~x", "+x ~x>y ~y>x");
    }

    #[test]
    fn a_history_that_went_back_begins_anew() {
        let mut merge = merge(false);
        let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
        let mut apply = |event, epoch| merge.apply(sighting(0, event, epoch), &nothing);
        assert!(apply(Event::Added(object("9")), 0).is_some());
        let deleted = Event::Deleted {
            last: object("9"),
            missed: true,
        };
        assert!(apply(deleted, 0).is_some());
        assert!(apply(Event::Added(object("4")), 0).is_none(), "it is older");
        assert!(apply(Event::Added(object("4")), 1).is_some());
    }

    #[test]
    fn an_informer_that_is_added_after_the_history_went_back_is_of_the_same_epoch() {
        let mut merge = merge(false);
        let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
        let apply = |merge: &mut Merge, shown| merge.apply(shown, &nothing).map(|it| it.restored);
        let restored = Event::Added(object("4"));
        assert!(apply(&mut merge, sighting(0, restored, 1)).is_some());
        merge.remove(id(1), &nothing);
        // It has counted no epoch, because it was not there.
        merge.add(id(1), false, 0);
        let newer = Event::Added(object("6"));
        assert_eq!(apply(&mut merge, sighting(1, newer, 0)), Some(false));
        let older = Event::Added(object("5"));
        assert_eq!(apply(&mut merge, sighting(0, older, 1)), None);
    }

    #[test]
    fn when_one_informer_notices_a_restored_server_the_others_list_again_and_follow() {
        let mut merge = merge(false);
        // What the second informer has in its store.
        let lookup =
            |informer: InformerId, _: &ObjectKey, _: &str| (informer == id(1)).then(|| object("3"));
        let apply = |merge: &mut Merge, shown| {
            let merged: Option<MergedEvent> = merge.apply(shown, &lookup);
            merged.map(|it| (show(&it.event), it.restored))
        };
        let added = sighting(0, event("+", "9"), 0);
        assert_eq!(apply(&mut merge, added), Some(("+9".to_owned(), false)));
        // It lists for the first time after the restore, which it cannot know.
        let listed = sighting(1, event("+", "3"), 0);
        assert_eq!(apply(&mut merge, listed), None, "it may be from the past");
        let gone = sighting(0, event("-", "9"), 1);
        assert_eq!(apply(&mut merge, gone), None, "the other one has it");
        assert_eq!(merge.take_lagging(), [id(1)]);
        merge.synced(id(1), 0, Some(5), &lookup);
        let released = merge.take_released();
        let released = released.iter().map(|it| (show(&it.event), it.restored));
        assert!(released.eq([("~9>3".to_owned(), true)]));
        // Another list of it is of the same epoch.
        merge.synced(id(1), 0, Some(6), &lookup);
        assert!(merge.take_released().is_empty() && merge.take_lagging().is_empty());
    }

    #[test]
    fn a_list_that_may_have_begun_before_the_restore_is_taken_again() {
        let mut merge = merge(false);
        let nothing = |_: InformerId, _: &ObjectKey, _: &str| None;
        for uid in 0..=Merge::TOMBSTONES {
            merge.add_tombstone(Uid::from(&*uid.to_string()), Version::default());
        }
        let late = merge.take_lagging();
        assert!(late.contains(&id(1)), "it lists for the tombstones");
        merge.apply(sighting(0, event("+", "4"), 1), &nothing);
        assert!(merge.take_lagging().is_empty());
        merge.synced(id(1), 0, Some(50), &nothing);
        assert_eq!(merge.take_lagging(), [id(1)]);
        merge.synced(id(1), 0, Some(50), &nothing);
        assert!(merge.take_lagging().is_empty());
    }

    #[test]
    fn tombstones_have_a_bound() {
        let mut merge = merge(false);
        for uid in 0..Merge::TOMBSTONES + 10 {
            merge.add_tombstone(Uid::from(&*uid.to_string()), Version::default());
        }
        assert_eq!(merge.tombstones.len(), Merge::TOMBSTONES);
        assert_eq!(merge.tombstone_order.len(), Merge::TOMBSTONES);
    }

    #[test]
    fn what_an_informer_that_lags_shows_is_withheld_until_it_has_passed_the_deletes() {
        // Which version it has shown everything up to, what is in its store, what was emitted.
        for (up_to, stored, emitted) in [
            (Some(20), Some("5"), "+5"),
            (Some(20), Some("25"), "+25"),
            (None, Some("5"), "+5"),
            (Some(20), None, ""),
            (Some(9), Some("5"), ""),
        ] {
            let mut merge = merge(false);
            let lookup = |_: InformerId, _: &ObjectKey, _: &str| stored.map(object);
            merge.synced(id(0), 0, Some(50), &lookup);
            let version = |number| Version {
                epoch: 0,
                number: Some(number),
            };
            for uid in 0..Merge::TOMBSTONES {
                merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version(10));
            }
            assert!(merge.take_lagging().is_empty());
            merge.add_tombstone(Uid::from("one-more"), version(11));
            assert_eq!(merge.take_lagging(), [id(1)]);
            merge.add_tombstone(Uid::from("yet-one"), version(12));
            assert!(merge.take_lagging().is_empty(), "it lists already");

            let mut listed = sighting(1, event("+", "5"), 0);
            listed.live = false;
            assert!(merge.apply(listed, &lookup).is_none());
            merge.synced(id(1), 0, up_to, &lookup);
            let released = merge.take_released();
            let released: Vec<_> = released.iter().map(|it| show(&it.event)).collect();
            assert_eq!(released.join(" "), emitted, "{up_to:?} {stored:?}");
            let gone = merge.apply(sighting(1, event("-", "30"), 0), &lookup);
            assert_eq!(gone.is_some(), !emitted.is_empty());
        }
    }

    #[test]
    fn an_informer_that_lags_and_did_not_notice_a_restored_server_catches_up_with_its_list() {
        for counted in [0, 1] {
            let mut merge = merge(false);
            let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
            merge.synced(id(0), 1, Some(50), &lookup);
            let version = |number| Version {
                epoch: 1,
                number: Some(number),
            };
            for uid in 0..=Merge::TOMBSTONES {
                merge.add_tombstone(Uid::from(&*format!("other-{uid}")), version(10));
            }
            assert_eq!(merge.take_lagging(), [id(1)]);
            // In the epoch of the dropped tombstones, whether the informer has noticed it or not.
            let mut listed = sighting(1, event("+", "5"), counted);
            (listed.live, listed.restored) = (false, true);
            assert!(merge.apply(listed, &lookup).is_none());
            let again = sighting(1, event("~", "6"), counted);
            assert!(merge.apply(again, &lookup).is_none());
            merge.synced(id(1), counted, Some(20), &lookup);
            let released = merge.take_released();
            let released: Vec<_> = released
                .iter()
                .map(|it| (show(&it.event), it.restored))
                .collect();
            assert_eq!(released, [("+5".to_owned(), true)]);
            merge.add_tombstone(Uid::from("one-more"), version(12));
            assert!(merge.take_lagging().is_empty(), "it has passed that");
        }
    }

    #[test]
    fn an_informer_that_was_withheld_holds_what_another_one_shows() {
        let mut merge = merge(false);
        let lookup = |_: InformerId, _: &ObjectKey, _: &str| Some(object("5"));
        let mut apply = |informer: usize, what: &str, version: &str| {
            let shown = sighting(informer, event(what, version), 0);
            let merged = merge.apply(shown, &lookup);
            merged.map_or_else(String::new, |merged| show(&merged.event))
        };
        assert_eq!(apply(0, "+", "1"), "+1");
        assert_eq!(apply(0, "-", "10"), "-10");
        assert_eq!(apply(1, "+", "5"), "", "from before the delete");
        assert_eq!(apply(0, "+", "12"), "+12");
        assert_eq!(apply(0, "-", "14"), "", "the other one has it");
        assert_eq!(apply(1, "-", "14"), "-14");
    }

    /// Applies the events of the informers a and b to one object: `a+1` added, `a~2` updated,
    /// `a-3` deleted, `a=4` resynced, `?a` removes a, `!a` also adds it again. A script that begins with `@3` has an
    /// informer a that was there before, whose store holds version 3 (`@-`: nothing).
    #[track_caller]
    fn check(script: &str, emitted: &str) {
        let mut steps: Vec<_> = script.split(' ').collect();
        let stored = steps[0].strip_prefix('@').map(str::to_owned);
        if stored.is_some() {
            steps.remove(0);
        }
        let mut merge = merge(stored.is_some());
        let lookup = |informer: InformerId, _: &ObjectKey, _: &str| {
            let stored = stored.as_deref().filter(|it| *it != "-")?;
            (informer == id(0)).then(|| object(stored))
        };
        let mut all = Vec::new();
        for step in steps {
            if let Some(name) = step.strip_prefix(['!', '?']) {
                let informer = id(usize::from(name == "b"));
                merge.remove(informer, &lookup);
                if step.starts_with('!') {
                    merge.add(informer, false, 0);
                }
                continue;
            }
            let informer = usize::from(step.starts_with('b'));
            let event = event(&step[1..2], &step[2..]);
            all.extend(merge.apply(sighting(informer, event, 0), &lookup));
        }
        let all: Vec<_> = all.iter().map(|it| show(&it.event)).collect();
        assert_eq!(all.join(" "), emitted, "{script}");
    }

    fn sighting(informer: usize, event: AnyEvent, epoch: u32) -> InformerEvent {
        InformerEvent {
            informer: id(informer),
            event,
            epoch,
            live: true,
            restored: epoch > 0,
        }
    }

    fn merge(preceding: bool) -> Merge {
        let mut merge = Merge::default();
        merge.add(id(0), preceding, 0);
        merge.add(id(1), false, 0);
        merge
    }

    fn id(index: usize) -> InformerId {
        use std::sync::OnceLock;
        static IDS: OnceLock<[InformerId; 2]> = OnceLock::new();
        let new = || {
            let (_, source) = windlass_informer::Scripted::<ConfigMap>::new();
            windlass_informer::Informer::new(source).id()
        };
        IDS.get_or_init(|| [new(), new()])[index]
    }

    fn event(what: &str, version: &str) -> AnyEvent {
        let new = object(version);
        match what {
            "+" => Event::Added(new),
            "~" => {
                let before = version.parse::<u64>().map(|it| it - 1);
                let old = before.map_or_else(|_| "x".to_owned(), |it| it.to_string());
                let old = LazyObject::from_erased(object(&old));
                Event::Updated { old, new }
            }
            "-" => Event::Deleted {
                last: new,
                missed: false,
            },
            _ => Event::Resynced(new),
        }
    }

    fn object(version: &str) -> Object {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("web".to_owned());
        object.metadata.uid = Some("u".to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        Arc::new(object)
    }

    fn show(event: &AnyEvent) -> String {
        let version =
            |object: &dyn ObjectIdentity| object.resource_version().unwrap_or("?").to_owned();
        match event {
            Event::Added(object) => format!("+{}", version(&**object)),
            Event::Updated { old, new } => format!("~{}>{}", version(old), version(&**new)),
            Event::Deleted { last, .. } => format!("-{}", version(&**last)),
            Event::Resynced(object) => format!("={}", version(&**object)),
            _ => "?".to_owned(),
        }
    }
}

//! Merges the events of several informers of one kind into one history per object. *(pure)*
//!
//! The feed of each informer (`controller/feed.rs`) passes each event through the merge of its kind
//! before it queues the event. An informer *shows* an object while its list and watch report that
//! the object exists.
//!
//! Informers of one kind may overlap, lag behind each other, or select parts of one kind between
//! which objects move. Handlers get one history of each object: each version once, versions that
//! never decrease, and `Deleted` when no informer has the uid any more. If a kind has one informer,
//! its events pass unchanged, and no state is kept.
//!
//! - An event that is not newer than the last dispatched one is dropped.
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
//! When the history of the server goes back, the run of the controller ends, so that versions stay
//! comparable.
//!
//! An informer whose events passed before the second one was added keeps its own history: its
//! objects belong to it until its next event of that object, or until it is removed.

mod member;
mod tombstones;
mod tracked;
mod version;

use std::{collections::HashMap, sync::Arc};

use windlass_informer::{Event, InformerId, LazyObject, ObjectIdentity, ObjectKey, Uid, log};

use self::{
    member::MemberInformer, tombstones::Tombstones, tracked::TrackedObject, version::Version,
};
use crate::{ErasedObject, event::AnyEvent};

type Object = Arc<dyn ErasedObject>;

/// Merges the events of the informers of one kind.
#[derive(Default)]
pub(crate) struct Merge {
    members: Vec<MemberInformer>,
    objects: HashMap<Uid, TrackedObject>,
    tombstones: Tombstones,
    /// Whether informers that cannot be compared were reported.
    reported: bool,
    /// The informers that must relist.
    lagging: Vec<InformerId>,
    /// Events of withheld objects that turned out to exist.
    released: Vec<AnyEvent>,
}

/// An event of one informer.
pub(crate) struct InformerEvent {
    pub(crate) informer: InformerId,
    pub(crate) event: AnyEvent,
    /// Whether it comes from the watch, and not from a list.
    pub(crate) live: bool,
}

/// Looks up the object with this key and uid in an informer's store.
pub(crate) type Lookup<'a> = &'a dyn Fn(InformerId, &ObjectKey, &str) -> Option<Object>;

// === impl Merge ===

impl Merge {
    /// Adds an informer. Informers that were `started` before the second one was added keep their
    /// objects.
    pub(crate) fn add(&mut self, informer: InformerId, started: bool) {
        self.members.push(MemberInformer::new(informer, started));
    }

    /// Removes an informer. Objects that only it had are forgotten without an event. `lookup` reads
    /// its store.
    ///
    /// Returns the objects that must be resynced, each with an informer that has it: the events of
    /// the removed informer covered them, and not all of these may have arrived.
    pub(crate) fn remove(
        &mut self,
        informer: InformerId,
        lookup: Lookup<'_>,
    ) -> Vec<(InformerId, ObjectKey)> {
        self.members.retain(|member| member.informer != informer);
        let members = &self.members;
        let mut resync = Vec::new();
        self.objects.retain(|uid, tracked| {
            tracked.informers.retain(|it| *it != informer);
            if tracked.dispatched.is_none()
                && !tracked.is_preceded(members)
                && let Some(undispatched) = &mut tracked.undispatched
                && let Some(owner) = tracked.informers.first()
            {
                let key = undispatched.key();
                if let Some(removed) = lookup(informer, &key, uid.as_str())
                    && Version::of(undispatched).is_before(Version::of(&removed))
                {
                    *undispatched = removed;
                }
                resync.push((*owner, key));
            }
            !tracked.informers.is_empty()
        });
        resync
    }

    /// Whether events pass unchanged.
    pub(crate) fn is_idle(&self) -> bool {
        self.members.is_empty()
    }

    /// Merges an event. Returns the event for the handlers, if there is one.
    pub(crate) fn apply(
        &mut self,
        incoming: InformerEvent,
        lookup: Lookup<'_>,
    ) -> Option<AnyEvent> {
        let InformerEvent {
            informer,
            event,
            live,
        } = incoming;
        let object = Arc::clone(event.object()?);
        // The last events of a removed informer may still arrive.
        self.member(informer)?;
        let Some(uid) = ObjectIdentity::uid(&*object).map(Uid::from) else {
            // Objects without a uid cannot be compared.
            return Some(event);
        };
        let version = Version::of(&object);
        let mut passes = false;
        // A resync shows a state of any age.
        let live = live && !matches!(event, Event::Resynced(_));
        if live && let Some(member) = self.member(informer) {
            member.last_version = version;
            passes = member.catch_up_to.is_some_and(|it| !version.is_before(it));
        }
        let merged = if let Event::Deleted { missed, .. } = event {
            self.delete(informer, uid, object, version, missed)
        } else {
            self.upsert(informer, uid, event, lookup)
        };
        if passes {
            self.catch_up(informer, lookup);
        }
        merged
    }

    /// Notes that a list of `informer` is complete up to this version. `None` if the version is not
    /// known.
    pub(crate) fn synced(&mut self, informer: InformerId, up_to: Option<u64>, lookup: Lookup<'_>) {
        let Some(member) = self.member(informer) else {
            return;
        };
        member.relisting = false;
        // A list without a known version was requested after the tombstones were dropped.
        let version = Version(up_to.or(member.catch_up_to.and_then(|it| it.0)));
        let catches_up = !member.must_still_pass(version);
        if version.0.is_some() {
            member.last_version = version;
        }
        if catches_up {
            self.catch_up(informer, lookup);
        }
    }

    /// Takes the informers that must relist.
    pub(crate) fn take_lagging(&mut self) -> Vec<InformerId> {
        std::mem::take(&mut self.lagging)
    }

    /// Takes the events of withheld objects that exist.
    pub(crate) fn take_released(&mut self) -> Vec<AnyEvent> {
        std::mem::take(&mut self.released)
    }

    /// Releases the withheld objects of `informer`, which has passed all dropped tombstones.
    fn catch_up(&mut self, informer: InformerId, lookup: Lookup<'_>) {
        let Some(member) = self.member(informer) else {
            return;
        };
        member.catch_up_to = None;
        for (uid, key) in std::mem::take(&mut member.withheld) {
            // If the store does not have it, its delete event will arrive.
            let Some(object) = lookup(informer, &key, uid.as_str()) else {
                continue;
            };
            let released = self.upsert(informer, uid, Event::Added(object), lookup);
            self.released.extend(released);
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
        let is_before = member.must_still_pass(version);
        // An object that a preceding informer has shown already is not new.
        let is_new = !member.preceding
            || matches!(event, Event::Added(_))
            || member.withheld.contains_key(uid);
        is_before && is_new
    }

    /// Withholds an object of `informer`.
    fn withhold(&mut self, informer: InformerId, uid: Uid, object: &Object) {
        if let Some(member) = self.member(informer) {
            member.withheld.entry(uid).or_insert_with(|| object.key());
        }
    }

    /// Handles an object that `informer` shows. Returns the event for the handlers, if there is
    /// one.
    fn upsert(
        &mut self,
        informer: InformerId,
        uid: Uid,
        event: AnyEvent,
        lookup: Lookup<'_>,
    ) -> Option<AnyEvent> {
        let object = Arc::clone(event.object()?);
        let version = Version::of(&object);
        let preceding = self.member(informer).is_some_and(|it| it.preceding);
        let Some(tracked) = self.objects.get_mut(&uid) else {
            return self.track(informer, uid, event, object, lookup);
        };
        if !tracked.informers.contains(&informer) {
            tracked.informers.push(informer);
            if !self.reported && version.0.is_none() {
                self.reported = true;
                log::error!(
                    component = "InformerController",
                    object = %object.key(),
                    "two informers of one kind show the same object, and its resourceVersion is \
                     not a number: select disjoint objects with them"
                );
            }
        }
        let merged = tracked.upsert(event, object, version, preceding, &self.members);
        // Another informer showed a newer state before the preceding one showed this.
        self.released.extend(tracked.dispatch_newer());
        merged
    }

    /// Handles an object that no informer has shown, or only withheld.
    fn track(
        &mut self,
        informer: InformerId,
        uid: Uid,
        event: AnyEvent,
        object: Object,
        lookup: Lookup<'_>,
    ) -> Option<AnyEvent> {
        let version = Version::of(&object);
        let preceding = self.member(informer).is_some_and(|it| it.preceding);
        let tombstone = self.tombstones.get(&uid);
        let may_be_deleted = match tombstone {
            Some(deleted) => version.is_before(deleted),
            None => self.may_be_deleted(informer, &uid, &event, version),
        };
        if may_be_deleted {
            self.withhold(informer, uid, &object);
            return None;
        }
        self.tombstones.remove(&uid);
        let key = object.key();
        let mut informers: Vec<_> = (self.members.iter())
            .filter(|it| it.preceding && it.informer != informer)
            .map(|it| it.informer)
            .filter(|it| lookup(*it, &key, uid.as_str()).is_some())
            .collect();
        let owned = informers.is_empty() || preceding;
        // Withheld objects of other informers are the same object.
        for other in &mut self.members {
            let has_it = other.withheld.remove(&uid).is_some();
            if has_it && other.informer != informer && !informers.contains(&other.informer) {
                informers.push(other.informer);
            }
        }
        informers.push(informer);
        let tracked = TrackedObject {
            informers,
            dispatched: owned.then(|| Arc::clone(&object)),
            undispatched: (!owned).then(|| Arc::clone(&object)),
            deleted_at: Version::default(),
        };
        self.objects.insert(uid, tracked);
        match (owned, preceding) {
            (false, _) => None,
            (true, true) if tombstone.is_none() => Some(event),
            (true, _) => Some(Event::Added(object)),
        }
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
        let Some(tracked) = self.objects.get_mut(&uid) else {
            if !preceding || withheld.is_some() || self.tombstones.get(&uid).is_some() {
                return None;
            }
            self.add_tombstone(uid, version);
            return Some(Event::Deleted { last, missed });
        };
        tracked.informers.retain(|it| *it != informer);
        if !missed && !version.is_before(tracked.deleted_at) {
            tracked.deleted_at = version;
        }
        if !tracked.informers.is_empty() {
            if tracked.dispatched.is_some() || tracked.is_preceded(&self.members) {
                return None;
            }
            // The first informer that had it reports its delete, and another one still has it.
            let new = tracked.undispatched.take()?;
            tracked.dispatched = Some(Arc::clone(&new));
            return Some(Event::Updated {
                old: LazyObject::from_erased(last),
                new,
            });
        }
        let tracked = self.objects.remove(&uid)?;
        let known = tracked.dispatched.or(tracked.undispatched);
        let (mut last, mut version) = (last, version);
        if let Some(known) = known {
            let known_version = Version::of(&known);
            // A missed delete has no state.
            if missed || version.is_before(known_version) {
                (last, version) = (known, known_version);
            }
        }
        self.add_tombstone(uid, version.max(tracked.deleted_at));
        Some(Event::Deleted { last, missed })
    }

    /// Adds a tombstone for `uid`, and drops the oldest ones that all informers have passed, or
    /// that exceed the bound.
    fn add_tombstone(&mut self, uid: Uid, version: Version) {
        self.tombstones.insert(uid, version);
        while let Some(oldest) = self.tombstones.oldest() {
            let is_passed = |it: &MemberInformer| oldest.is_before(it.last_version);
            if !self.tombstones.is_over() && !self.members.iter().all(is_passed) {
                break;
            }
            for member in self.members.iter_mut().filter(|it| !is_passed(it)) {
                if !member.must_still_pass(oldest) {
                    member.catch_up_to = Some(oldest);
                }
                if !std::mem::replace(&mut member.relisting, true) {
                    self.lagging.push(member.informer);
                }
            }
            self.tombstones.remove_oldest();
        }
    }

    fn member(&mut self, informer: InformerId) -> Option<&mut MemberInformer> {
        let mut members = self.members.iter_mut();
        members.find(|member| member.informer == informer)
    }
}

#[cfg(test)]
mod tests;

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
//! - When one informer detects that the history of the server went back, a new epoch begins and all
//!   others relist. With that list an informer enters the epoch, whether it has detected the change
//!   or listed for the first time after it.
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
    member::{MemberInformer, WithheldObject},
    tombstones::Tombstones,
    tracked::TrackedObject,
    version::Version,
};
use crate::{ErasedObject, event::AnyEvent};

type Object = Arc<dyn ErasedObject>;

/// Merges the events of the informers of one kind.
#[derive(Default)]
pub(crate) struct Merge {
    members: Vec<MemberInformer>,
    objects: HashMap<Uid, TrackedObject>,
    tombstones: Tombstones,
    /// The newest epoch of the kind.
    epoch: u32,
    /// Whether informers that cannot be compared were reported.
    reported: bool,
    /// The informers that must relist.
    lagging: Vec<InformerId>,
    /// Events of withheld objects that turned out to exist.
    released: Vec<MergedEvent>,
}

/// An event of one informer.
pub(crate) struct InformerEvent {
    pub(crate) informer: InformerId,
    pub(crate) event: AnyEvent,
    /// The epoch as the informer counts.
    pub(crate) epoch: u32,
    /// Whether it comes from the watch, and not from a list.
    pub(crate) live: bool,
    /// Whether it is the first state of its object since the history of this informer went back.
    pub(crate) restored: bool,
}

/// An event for the handlers.
pub(crate) struct MergedEvent {
    pub(crate) event: AnyEvent,
    /// Whether it is the first state of its object since the history went back, for all informers.
    pub(crate) restored: bool,
}

/// Looks up the object with this key and uid in an informer's store.
pub(crate) type Lookup<'a> = &'a dyn Fn(InformerId, &ObjectKey, &str) -> Option<Object>;

// === impl Merge ===

impl Merge {
    /// Adds an informer, whose own epoch is `epoch`. Informers that were `started` before the
    /// second one was added keep their objects.
    pub(crate) fn add(&mut self, informer: InformerId, started: bool, epoch: u32) {
        self.members
            .push(MemberInformer::new(informer, started, epoch, self.epoch));
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
                    && Version::of(undispatched, tracked.epoch)
                        .is_before(Version::of(&removed, tracked.epoch))
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
    ) -> Option<MergedEvent> {
        let InformerEvent {
            informer,
            event,
            epoch,
            live,
            restored,
        } = incoming;
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
            member.last_version = version;
            passes = member.catch_up_to.is_some_and(|it| !version.is_before(it));
        }
        let merged = if let Event::Deleted { missed, .. } = event {
            let deleted = self.delete(informer, uid, object, version, missed);
            let restored = false;
            deleted.map(|event| MergedEvent { event, restored })
        } else {
            self.upsert(informer, &uid, event, epoch, restored, lookup)
        };
        if passes {
            self.catch_up(informer, lookup);
        }
        merged
    }

    /// Notes that a list of `informer` is complete up to this version. `None` if the version is not
    /// known.
    pub(crate) fn synced(
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
        // A list without a known version was requested after the tombstones were dropped.
        let number = up_to.or(member.catch_up_to.and_then(|it| it.number));
        let of_epoch = |epoch| Version { epoch, number };
        // An informer that listed after the history went back does not detect it.
        let joins = member.relisting && epoch < newest;
        // A list from before a dropped tombstone. The watch never passes the newest epoch.
        let is_early = joins && member.is_behind(of_epoch(newest));
        if std::mem::take(&mut member.relist_again) || is_early {
            self.lagging.push(informer);
            return;
        }
        member.relisting = false;
        if joins {
            epoch = newest;
        }
        let version = of_epoch(epoch);
        let catches_up = !member.is_behind(version);
        member.epoch = epoch;
        if number.is_some() {
            member.last_version = version;
        }
        if catches_up {
            self.catch_up(informer, lookup);
        }
        if joins {
            self.resync(informer, lookup);
        }
    }

    /// Takes the informers that must relist.
    pub(crate) fn take_lagging(&mut self) -> Vec<InformerId> {
        std::mem::take(&mut self.lagging)
    }

    /// Takes the events of withheld objects that exist, and of objects that were shown before their
    /// epoch.
    pub(crate) fn take_released(&mut self) -> Vec<MergedEvent> {
        std::mem::take(&mut self.released)
    }

    /// Releases the withheld objects of `informer`, which has passed all dropped tombstones.
    fn catch_up(&mut self, informer: InformerId, lookup: Lookup<'_>) {
        let Some(member) = self.member(informer) else {
            return;
        };
        member.catch_up_to = None;
        let epoch = member.epoch;
        for (uid, WithheldObject { key, restored }) in std::mem::take(&mut member.withheld) {
            // If the store does not have it, its delete event will arrive.
            let Some(object) = lookup(informer, &key, uid.as_str()) else {
                continue;
            };
            let event = Event::Added(object);
            let released = self.upsert(informer, &uid, event, epoch, restored, lookup);
            self.released.extend(released);
        }
    }

    /// Shows the objects of `informer` again, in the newest epoch.
    fn resync(&mut self, informer: InformerId, lookup: Lookup<'_>) {
        let shown = self.objects.iter();
        let shown = shown.filter(|(_, tracked)| tracked.informers.contains(&informer));
        let shown: Vec<_> = shown
            .filter_map(|(uid, tracked)| Some((uid.clone(), tracked.dispatched.as_ref()?.key())))
            .collect();
        for (uid, key) in shown {
            // If the store does not have it, its delete event will arrive.
            let Some(object) = lookup(informer, &key, uid.as_str()) else {
                continue;
            };
            let event = Event::Added(object);
            let merged = self.upsert(informer, &uid, event, self.epoch, false, lookup);
            self.released.extend(merged);
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
        let is_before = member.is_behind(version);
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
    fn upsert(
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
        let epoch_uncertain = version.epoch < self.epoch && !self.is_shown_elsewhere(informer, uid);
        if epoch_uncertain {
            version.epoch = self.epoch;
        }
        let before = match self.objects.get_mut(uid) {
            Some(tracked) if restored && tracked.epoch_uncertain => {
                // The earlier state was of the old history.
                tracked.epoch = 0;
                Some(0)
            }
            Some(tracked) => Some(tracked.epoch),
            None => {
                let mut withheld = (self.members.iter()).filter_map(|it| it.withheld.get(uid));
                restored |= withheld.any(|it| it.restored);
                self.tombstones.get(uid).map(|it| it.epoch)
            }
        };
        restored = before.map_or(restored, |before| before < version.epoch);
        let merged = self.observe(informer, uid.clone(), event, object, version, lookup);
        if let Some(withheld) = self
            .member(informer)
            .and_then(|it| it.withheld.get_mut(uid))
        {
            withheld.restored |= restored;
        }
        let event = merged?;
        if let Some(tracked) = self.objects.get_mut(uid) {
            tracked.epoch_uncertain = epoch_uncertain;
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
        if counted <= member.own_epoch {
            return member.epoch;
        }
        member.own_epoch = counted;
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
        let informers = self.objects.get(uid).map(|tracked| &tracked.informers);
        self.members.iter().any(|member| {
            member.informer != informer
                && member.epoch == self.epoch
                && informers.is_some_and(|informers| informers.contains(&member.informer))
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
        let Some(tracked) = self.objects.get_mut(&uid) else {
            let tombstone = self.tombstones.get(&uid);
            if let Some(deleted) = tombstone {
                if version.is_before(deleted) {
                    self.withhold(informer, uid, &object);
                    return None;
                }
                self.tombstones.remove(&uid);
            } else if self.may_be_deleted(informer, &uid, &event, version) {
                self.withhold(informer, uid, &object);
                return None;
            }
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
            let (dispatched, undispatched) = if owned {
                (Some(object.clone()), None)
            } else {
                (None, Some(object.clone()))
            };
            let tracked = TrackedObject {
                informers,
                dispatched,
                undispatched,
                epoch: version.epoch,
                epoch_uncertain: false,
                deleted_at: Version::default(),
            };
            self.objects.insert(uid, tracked);
            return match (owned, preceding) {
                (false, _) => None,
                (true, true) if tombstone.is_none() => Some(event),
                (true, _) => Some(Event::Added(object)),
            };
        };
        if !tracked.informers.contains(&informer) {
            tracked.informers.push(informer);
            if !self.reported && version.number.is_none() {
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
        if let Some(event) = tracked.catch_up() {
            let restored = false;
            self.released.push(MergedEvent { event, restored });
        }
        merged
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
            let known_version = Version::of(&known, tracked.epoch);
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
                if !member.is_behind(oldest) {
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

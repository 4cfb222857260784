//! Merges the events of several informers of one kind into one history per object. *(pure)*
//!
//! Informers of one kind may overlap, lag behind each other, or be parts of one kind between
//! which objects move. A handler gets one history: each version once, versions never go back,
//! and `Deleted` when no informer holds the uid any more. A kind with one informer is passed
//! through, and nothing is kept for it.
//!
//! - A sighting that is not newer than what was emitted is dropped.
//! - `Deleted` from one informer is held back while another one holds the uid.
//! - After `Deleted`, a sighting of the same uid is an `Added` if its version is at least that
//!   of the delete (the object is in another informer now); an older one comes from an
//!   informer that lags, and is dropped.
//! - Versions that are not numbers cannot be compared: then the order of arrival counts, and
//!   informers that overlap are reported.
//!
//! An informer whose events were passed through before the second one was added keeps its own
//! history: what it holds belongs to it until its next event about that object comes by.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use windlass_informer::{Event, InformerId, Kept, Named, ObjectKey, Uid};

use crate::{AnyObject, event::AnyEvent};

type Object = Arc<dyn AnyObject>;

/// What the informers of one kind show.
#[derive(Default)]
pub(crate) struct Merge {
    members: Vec<Member>,
    objects: HashMap<Uid, Seen>,
    tombstones: HashMap<Uid, Version>,
    /// The same uids, oldest first.
    buried: VecDeque<Uid>,
    /// The newest epoch of all informers.
    epoch: u32,
    /// Informers that cannot be compared were reported.
    reported: bool,
}

/// One informer of the kind.
struct Member {
    informer: InformerId,

    /// Its events were passed through before there was another informer.
    preceding: bool,

    /// The newest version that it has shown live.
    passed: Version,

    /// How often its history went back, as the informer counts.
    counted: u32,

    /// The epoch of the kind in which it is.
    epoch: u32,
}

/// An event of one informer.
pub(super) struct Sighting {
    pub(super) informer: InformerId,
    pub(super) event: AnyEvent,
    /// The epoch as the informer counts.
    pub(super) epoch: u32,
    /// Whether it comes from the watch and not from a list.
    pub(super) live: bool,
    /// Whether it is the first state of its object since the history went back.
    pub(super) restored: bool,
}

/// What a sighting means for handlers.
pub(super) struct Merged {
    pub(super) event: AnyEvent,
    /// Whether it is the first state of its object since the history went back, as of all
    /// informers.
    pub(super) restored: bool,
}

/// What is known of one uid.
struct Seen {
    /// Which informers hold it.
    holders: Vec<InformerId>,

    /// The state that was emitted last; none where a preceding informer has it and was not
    /// heard of since.
    emitted: Option<Object>,

    /// The newest state that another informer has shown meanwhile.
    held_back: Option<Object>,

    /// The epoch of both.
    epoch: u32,

    /// An informer showed it that has not noticed that the history went back, or did not have to
    /// because it listed later.
    doubtful: bool,

    /// The newest version at which an informer showed that it was deleted, or left.
    left: Version,
}

/// How far a state is in the history of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// How often the history went back (a cluster was restored).
    epoch: u32,
    /// None if it is not a number.
    number: Option<u64>,
}

/// Looks up what an informer's store holds: the object of this key, if it has this uid.
pub(super) type Lookup<'a> = &'a dyn Fn(InformerId, &ObjectKey, &str) -> Option<Object>;

// === impl Merge ===

impl Merge {
    /// How many deleted uids are remembered. One that is forgotten and then shown by an
    /// informer that lags is added and deleted again.
    const TOMBSTONES: usize = 10_000;

    /// Adds an informer, which has counted `epoch` epochs. Those that were `started` before the
    /// second one came go on with what they hold.
    pub(super) fn add(&mut self, informer: InformerId, started: bool, epoch: u32) {
        self.members.push(Member {
            informer,
            preceding: started,
            passed: Version::default(),
            counted: epoch,
            epoch: self.epoch,
        });
    }

    /// Removes an informer. What it alone held is forgotten, without an event.
    pub(super) fn remove(&mut self, informer: InformerId) {
        self.members.retain(|member| member.informer != informer);
        self.objects.retain(|_, seen| {
            seen.holders.retain(|holder| *holder != informer);
            !seen.holders.is_empty()
        });
    }

    /// Whether events are passed through as they are.
    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty()
    }

    /// What a sighting means for handlers, if it means something.
    pub(super) fn apply(&mut self, shown: Sighting, lookup: Lookup<'_>) -> Option<Merged> {
        let Sighting {
            informer,
            event,
            epoch,
            live,
            mut restored,
        } = shown;
        let object = Arc::clone(event.object()?);
        let Some(uid) = Named::uid(&*object).map(Uid::from) else {
            // Without a uid nothing can be compared.
            return Some(Merged { event, restored });
        };
        let epoch = self.epoch_of(informer, epoch);
        let mut version = Version::of(&object, epoch);
        if live && let Some(member) = self.member(informer) {
            member.passed = version;
        }
        if let Event::Deleted { missed, .. } = event {
            let event = self.delete(informer, uid, object, version, missed)?;
            let restored = false;
            return Some(Merged { event, restored });
        }
        let doubtful = epoch < self.epoch && !self.is_shown_elsewhere(informer, &uid);
        if doubtful {
            version.epoch = self.epoch;
        }
        let before = match self.objects.get_mut(&uid) {
            Some(seen) if restored && seen.doubtful => {
                // What the informer showed before was of the old history.
                seen.epoch = 0;
                Some(0)
            }
            Some(seen) => Some(seen.epoch),
            None => self.tombstones.get(&uid).map(|it| it.epoch),
        };
        restored = before.map_or(restored, |before| before < version.epoch);
        let event = self.sight(informer, uid.clone(), event, object, version, lookup)?;
        if let Some(seen) = self.objects.get_mut(&uid) {
            seen.doubtful = doubtful;
        }
        Some(Merged { event, restored })
    }

    /// The epoch of the kind in which an informer is that counts `counted` epochs. An informer
    /// that notices that the history went back opens an epoch, or joins the one that another
    /// informer has opened.
    fn epoch_of(&mut self, informer: InformerId, counted: u32) -> u32 {
        let mut members = self.members.iter_mut();
        let Some(member) = members.find(|member| member.informer == informer) else {
            return self.epoch;
        };
        if counted > member.counted {
            member.counted = counted;
            if member.epoch == self.epoch {
                self.epoch = self.epoch.saturating_add(1);
            }
            member.epoch = self.epoch;
        }
        member.epoch
    }

    /// Whether an informer of the newest epoch holds `uid`, beside `informer`. If none does, what
    /// `informer` shows has to be believed, though it may not have noticed that the history went
    /// back: one that listed after that never does.
    fn is_shown_elsewhere(&self, informer: InformerId, uid: &Uid) -> bool {
        let holders = self.objects.get(uid).map(|seen| &seen.holders);
        self.members.iter().any(|member| {
            member.informer != informer
                && member.epoch == self.epoch
                && holders.is_some_and(|holders| holders.contains(&member.informer))
        })
    }

    fn sight(
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
            if let Some(buried) = self.tombstones.get(&uid) {
                if version.is_before(*buried) {
                    return None;
                }
                self.tombstones.remove(&uid);
                self.buried.retain(|it| *it != uid);
            }
            let key = object.key();
            let mut holders: Vec<_> = (self.members.iter())
                .filter(|it| it.preceding && it.informer != informer)
                .map(|it| it.informer)
                .filter(|it| lookup(*it, &key, uid.as_str()).is_some())
                .collect();
            let owned = holders.is_empty() || preceding;
            holders.push(informer);
            let (emitted, held_back) = if owned {
                (Some(object.clone()), None)
            } else {
                (None, Some(object.clone()))
            };
            let seen = Seen {
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
            seen.epoch = version.epoch;
            if preceding {
                seen.emitted = Some(object);
                return Some(event);
            }
            seen.held_back = Some(object);
            return None;
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
            old: Kept::any(old),
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
        let Some(seen) = self.objects.get_mut(&uid) else {
            if !preceding || self.tombstones.contains_key(&uid) {
                return None;
            }
            self.bury(uid, version);
            return Some(Event::Deleted { last, missed });
        };
        seen.holders.retain(|holder| *holder != informer);
        if !missed && !version.is_before(seen.left) {
            seen.left = version;
        }
        if !seen.holders.is_empty() {
            let held_elsewhere =
                (self.members.iter()).any(|it| it.preceding && seen.holders.contains(&it.informer));
            if seen.emitted.is_some() || held_elsewhere {
                return None;
            }
            // The informer that had it first lets it go, and another one goes on with it.
            let new = seen.held_back.take()?;
            seen.emitted = Some(Arc::clone(&new));
            return Some(Event::Updated {
                old: Kept::any(last),
                new,
            });
        }
        let seen = self.objects.remove(&uid)?;
        let known = seen.emitted.or(seen.held_back);
        let (mut last, mut version) = (last, version);
        if let Some(known) = known {
            let its = Version::of(&known, seen.epoch);
            // A delete that was missed has no state of its own.
            if missed || version.is_before(its) {
                (last, version) = (known, its);
            }
        }
        let left = seen.left;
        self.bury(
            uid,
            if version.is_before(left) {
                left
            } else {
                version
            },
        );
        Some(Event::Deleted { last, missed })
    }

    /// Remembers that `uid` was deleted, until all informers have passed that version.
    fn bury(&mut self, uid: Uid, version: Version) {
        let (members, tombstones) = (&self.members, &mut self.tombstones);
        tombstones.insert(uid.clone(), version);
        self.buried.push_back(uid);
        let is_passed = |buried: Version| members.iter().all(|it| buried.is_before(it.passed));
        while let Some(oldest) = self.buried.front() {
            let passed = tombstones.get(oldest).is_none_or(|it| is_passed(*it));
            if !passed && self.buried.len() <= Self::TOMBSTONES {
                break;
            }
            if let Some(oldest) = self.buried.pop_front() {
                tombstones.remove(&oldest);
            }
        }
    }

    fn member(&mut self, informer: InformerId) -> Option<&mut Member> {
        let mut members = self.members.iter_mut();
        members.find(|member| member.informer == informer)
    }
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

    /// Whether it is older than `other`, for certain.
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
        merge.remove(id(1));
        // It has counted no epoch, because it was not there.
        merge.add(id(1), false, 0);
        let newer = Event::Added(object("6"));
        assert_eq!(apply(&mut merge, sighting(1, newer, 0)), Some(false));
        let older = Event::Added(object("5"));
        assert_eq!(apply(&mut merge, sighting(0, older, 1)), None);
    }

    #[test]
    fn tombstones_have_a_bound() {
        let mut merge = merge(false);
        for uid in 0..Merge::TOMBSTONES + 10 {
            merge.bury(Uid::from(&*uid.to_string()), Version::default());
        }
        assert_eq!(merge.tombstones.len(), Merge::TOMBSTONES);
        assert_eq!(merge.buried.len(), Merge::TOMBSTONES);
    }

    /// Applies the events of the informers a and b to one object: `a+1` added, `a~2` updated,
    /// `a-3` deleted, `a=4` resynced, `!a` removes a. A script that begins with `@3` has an
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
            if let Some(name) = step.strip_prefix('!') {
                let informer = id(usize::from(name == "b"));
                merge.remove(informer);
                merge.add(informer, false, 0);
                continue;
            }
            let informer = usize::from(step.starts_with('b'));
            let event = event(&step[1..2], &step[2..]);
            all.extend(merge.apply(sighting(informer, event, 0), &lookup));
        }
        let all: Vec<_> = all.iter().map(|it| show(&it.event)).collect();
        assert_eq!(all.join(" "), emitted, "{script}");
    }

    fn sighting(informer: usize, event: AnyEvent, epoch: u32) -> Sighting {
        Sighting {
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
                let old = Kept::any(object(&old));
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
        let version = |object: &dyn Named| object.resource_version().unwrap_or("?").to_owned();
        match event {
            Event::Added(object) => format!("+{}", version(&**object)),
            Event::Updated { old, new } => format!("~{}>{}", version(old), version(&**new)),
            Event::Deleted { last, .. } => format!("-{}", version(&**last)),
            Event::Resynced(object) => format!("={}", version(&**object)),
            _ => "?".to_owned(),
        }
    }
}

//! A server with one kind, and the informers' sources, which lag behind it.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_informer::{Change, Changes, Identity, ObjectKey, Source, Stopped, Uid, WatchError};

/// A state of an object: its version, and a number that no other state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) number: u64,
    unique: u64,
}

/// All states of the server, oldest first. The version of a state is its position plus 1.
pub(super) struct Server {
    states: Vec<BTreeMap<u8, Object>>,
    /// The newest version at which each uid was deleted or left a part.
    left: BTreeMap<String, u64>,
    unique: u64,
}

#[derive(Clone, Copy)]
struct Object {
    name: u8,
    part: u8,
    uid: u64,
    version: Version,
}

/// The source of an informer, as the test controls it.
pub(super) struct Replica {
    server: Arc<Mutex<Server>>,
    parts: &'static [u8],
    pub(super) follower: Mutex<Follower>,
    changed: Notify,
}

/// The progress of a source.
#[derive(Default)]
pub(super) struct Follower {
    /// The state that it has sent.
    pub(super) position: usize,
    /// The state up to which its watch may read.
    pub(super) target: usize,
    /// Whether its list may end.
    pub(super) may_end: bool,
    /// Whether its watch has expired.
    pub(super) expired: bool,
    pub(super) is_watching: bool,
}

/// A [`Replica`] as a [`Source`].
pub(super) struct ReplicaSource(Arc<Replica>);

/// The next action of a source.
enum Next {
    List,
    Send(Vec<Change<ConfigMap>>),
}

// === impl Version ===

impl Version {
    /// Whether both are the same state. The last state of a deleted object has the version of the
    /// delete.
    pub(super) fn has_content_of(self, other: Self) -> bool {
        self.unique == other.unique
    }
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        Self {
            states: vec![BTreeMap::new()],
            left: BTreeMap::new(),
            unique: 0,
        }
    }
}

impl Server {
    pub(super) fn head(&self) -> usize {
        self.states.len() - 1
    }

    /// Creates the object called `name` in `part`, or moves it there.
    pub(super) fn write(&mut self, name: u8, part: u8) {
        self.unique += 1;
        let mut state = self.states[self.head()].clone();
        let version = self.next_version();
        let uid = state.get(&name).map_or(self.unique, |it| it.uid);
        let object = Object {
            name,
            part,
            uid,
            version,
        };
        if state.insert(name, object).is_some_and(|it| it.part != part) {
            self.left.insert(object.uid(), version.number);
        }
        self.states.push(state);
    }

    /// Deletes the object called `name`, if it exists.
    pub(super) fn delete(&mut self, name: u8) {
        self.unique += 1;
        let mut state = self.states[self.head()].clone();
        if let Some(deleted) = state.remove(&name) {
            self.left.insert(deleted.uid(), self.next_version().number);
            self.states.push(state);
        }
    }

    /// The newest version at which this object was deleted, or left a part.
    pub(super) fn newest_delete(&self, uid: &str) -> Option<u64> {
        self.left.get(uid).copied()
    }

    /// The objects of these parts.
    pub(super) fn list(&self, parts: &[u8]) -> Vec<ConfigMap> {
        let state = self.states[self.head()].values();
        let selected = state.filter(|it| parts.contains(&it.part));
        selected.map(|it| it.config(it.version)).collect()
    }

    fn next_version(&self) -> Version {
        Version {
            number: self.states.len() as u64 + 1,
            unique: self.unique,
        }
    }

    /// The changes that a watch of these parts sends for the write after state `position`.
    fn watch(&self, position: usize, parts: &[u8]) -> Vec<Change<ConfigMap>> {
        let (before, after) = (&self.states[position], &self.states[position + 1]);
        let number = position as u64 + 2;
        let selects = |it: &&Object| parts.contains(&it.part);
        let mut changes = Vec::new();
        for name in 0..=u8::MAX {
            let old = before.get(&name).filter(selects);
            let new = after.get(&name).filter(selects);
            match (old, new) {
                (_, Some(new)) if old.is_none_or(|old| old.version != new.version) => {
                    changes.push(Change::Applied(new.config(new.version).into()));
                }
                (Some(old), None) => changes.push(old.deleted(number)),
                _ => {}
            }
        }
        changes
    }
}

// === impl Object ===

impl Object {
    fn uid(&self) -> String {
        format!("uid-{}", self.uid)
    }

    fn config(&self, version: Version) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("name-{}", self.name));
        object.metadata.namespace = Some("shop".to_owned());
        object.metadata.uid = Some(self.uid());
        object.metadata.resource_version = Some(version.number.to_string());
        object.data = Some([("unique".to_owned(), version.unique.to_string())].into());
        object
    }

    /// The event of a watch when the object was deleted, or is not selected any more. Its object
    /// has the version of that.
    fn deleted(&self, number: u64) -> Change<ConfigMap> {
        let last = self.config(Version {
            number,
            ..self.version
        });
        let identity = Identity {
            key: ObjectKey::of(&last),
            uid: Uid::of(&last),
            resource_version: last.metadata.resource_version.clone(),
        };
        let last = Some(last.into());
        Change::Deleted { identity, last }
    }
}

/// The uid and the version of an object.
pub(super) fn identify(object: &ConfigMap) -> (String, Version) {
    let metadata = &object.metadata;
    let uid = metadata.uid.clone().expect("a uid");
    let number = metadata.resource_version.as_deref().expect("a version");
    let unique = &object.data.as_ref().expect("data")["unique"];
    let [number, unique] = [number, unique].map(|it| it.parse().expect("a number"));
    (uid, Version { number, unique })
}

// === impl Replica ===

impl Replica {
    pub(super) fn new(
        server: &Arc<Mutex<Server>>,
        parts: &'static [u8],
    ) -> (Arc<Self>, ReplicaSource) {
        let replica = Arc::new(Self {
            server: Arc::clone(server),
            parts,
            follower: Mutex::default(),
            changed: Notify::new(),
        });
        (Arc::clone(&replica), ReplicaSource(replica))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Follower)) {
        change(&mut self.follower.lock());
        self.changed.notify_one();
    }

    async fn follow(&self, changes: &Changes<ConfigMap>) -> Result<(), Stopped> {
        loop {
            self.list(changes).await?;
            loop {
                match self.next().await {
                    Next::List => break,
                    Next::Send(all) => {
                        for change in all {
                            changes.send(change).await?;
                        }
                    }
                }
            }
        }
    }

    async fn list(&self, changes: &Changes<ConfigMap>) -> Result<(), Stopped> {
        let (head, objects) = {
            let server = self.server.lock();
            let mut follower = self.follower.lock();
            *follower = Follower {
                position: server.head(),
                target: server.head(),
                ..Follower::default()
            };
            (server.head(), server.list(self.parts))
        };
        changes.send(Change::ListStarted).await?;
        for object in objects {
            changes.send(Change::Applied(object.into())).await?;
        }
        while !self.follower.lock().may_end {
            self.changed.notified().await;
        }
        self.follower.lock().is_watching = true;
        let resource_version = Some((head + 1).to_string());
        changes.send(Change::ListEnded { resource_version }).await
    }

    async fn next(&self) -> Next {
        loop {
            {
                let server = self.server.lock();
                let mut follower = self.follower.lock();
                if follower.expired {
                    return Next::List;
                }
                if follower.position < follower.target {
                    follower.position += 1;
                    return Next::Send(server.watch(follower.position - 1, self.parts));
                }
            }
            self.changed.notified().await;
        }
    }
}

// === impl ReplicaSource ===

impl Source<ConfigMap> for ReplicaSource {
    fn resource(&self) -> String {
        "configmaps".to_owned()
    }

    async fn run(&mut self, changes: Changes<ConfigMap>) -> Result<(), WatchError> {
        _ = self.0.follow(&changes).await;
        pending().await
    }
}

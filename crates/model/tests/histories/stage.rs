//! The shared state of a history: a simulated API server, the log, and the planned faults.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use json_patch::PatchOperation;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::core::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use windlass_controller::{FinalizerPatch, PatchClient};
use windlass_informer::ObjectKey;
use windlass_model::{CallId, Entry, HandlerId, Record, Snapshot, Version, Writer};

use crate::{
    engine::finalizers,
    script::{Behaviour, Options, PatchFault},
    server::Embedded,
};

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "default";

/// The finalizer of another client.
const OTHER: &str = "other.example.io/hold";

/// The shared state of a history: a simulated API server, the log, and the planned behaviour of
/// handlers and faults of patches. Clones share the state.
#[derive(Clone)]
pub(crate) struct Stage {
    state: Arc<Mutex<State>>,
    /// Notified of each write to the server.
    pub(crate) written: Arc<Notify>,
    began: Instant,
    /// The embedded API server, if the history uses it. The simulated server then only repeats its
    /// committed writes.
    pub(crate) embedded: Option<Embedded>,
}

pub(crate) struct State {
    pub(crate) server: Server,
    pub(crate) log: Vec<Record>,
    pub(crate) behaviours: BTreeMap<u32, VecDeque<Behaviour>>,
    /// The faults of the next requests of wrappers.
    pub(crate) faults: VecDeque<PatchFault>,
    /// The faults of the next patches that release an object.
    pub(crate) release_faults: VecDeque<PatchFault>,
    /// Whether the server was restored since the controller started, and whether a source of it has
    /// detected that.
    pub(crate) restored: Option<Detected>,
    calls: u64,
    states: u64,
}

/// Whether a source has detected that the server was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detected(pub(crate) bool);

/// A map of objects, and the history of its changes.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) version: u64,
    uids: u64,
    pub(crate) restores: u64,
    no_generation: bool,
    pub(crate) objects: BTreeMap<String, Lease>,
    pub(crate) history: Vec<Change>,
}

/// One write: the object before and after it.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) before: Option<Lease>,
    pub(crate) after: Option<Lease>,
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new(options: &Options) -> Self {
        let server = Server {
            no_generation: options.no_generation,
            ..Server::default()
        };
        Self {
            embedded: options.server_object.then(Embedded::new),
            state: Arc::new(Mutex::new(State {
                server,
                log: Vec::new(),
                behaviours: BTreeMap::new(),
                faults: VecDeque::new(),
                release_faults: VecDeque::new(),
                restored: None,
                calls: 0,
                states: 0,
            })),
            written: Arc::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn log(&self, entry: Entry) {
        let at = self.began.elapsed();
        self.state.lock().log.push(Record { at, entry });
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock())
    }

    pub(crate) fn next_call(&self) -> CallId {
        self.with(|state| {
            state.calls += 1;
            CallId(state.calls)
        })
    }

    pub(crate) fn next_state(&self) -> u64 {
        self.with(|state| {
            state.states += 1;
            state.states
        })
    }

    pub(crate) fn next_behaviour(&self, handler: u32) -> Behaviour {
        let next = |state: &mut State| state.behaviours.get_mut(&handler)?.pop_front();
        self.with(next).unwrap_or(Behaviour::Succeed)
    }

    /// Stores `lease`, or removes it if it is marked for deletion and has no finalizers.
    pub(crate) fn write(&self, by: Writer, lease: Lease) -> Lease {
        let (entry, lease) = self.with(|state| state.server.write(by, lease));
        self.log(entry);
        self.written.notify_one();
        lease
    }

    /// The embedded server has committed `lease`, or has removed it if it is marked for deletion and
    /// has no finalizers.
    pub(crate) fn committed(&self, by: Writer, lease: Lease) {
        let Some(entry) = self.with(|state| state.server.mirror(by, lease)) else {
            return;
        };
        self.log(entry);
        self.written.notify_one();
    }

    /// The embedded server has removed the object of this name.
    pub(crate) fn removed(&self, by: Writer, name: &str) {
        if let Some(last) = self.with(|state| state.server.objects.remove(name)) {
            let object = snapshot(&last);
            self.log(Entry::Removed { by, object });
            self.written.notify_one();
        }
    }

    /// Applies `change` to an object, if it exists.
    async fn change(&self, name: char, change: impl FnOnce(&mut Lease)) {
        let lease = self.with(|state| state.server.objects.get(&name.to_string()).cloned());
        if let Some(mut lease) = lease {
            let before = lease.clone();
            change(&mut lease);
            if lease
                .metadata
                .finalizers
                .as_ref()
                .is_some_and(Vec::is_empty)
            {
                lease.metadata.finalizers = None;
            }
            if lease == before {
                return;
            }
            match &self.embedded {
                Some(embedded) => embedded.replace(self, lease).await,
                None => _ = self.write(Writer::Other, lease),
            }
        }
    }

    pub(crate) async fn create(&self, name: char, label: char) {
        let name = name.to_string();
        let lease = self.with(|state| state.server.new_object(&name, label));
        match (lease, &self.embedded) {
            (Some(lease), Some(embedded)) => embedded.create(self, lease).await,
            (Some(lease), None) => _ = self.write(Writer::Other, lease),
            (None, _) => {}
        }
    }

    pub(crate) async fn update(&self, name: char) {
        self.change(name, |lease| {
            bump(lease);
            let spec = lease.spec.get_or_insert_default();
            let value = spec.lease_duration_seconds.unwrap_or_default();
            spec.lease_duration_seconds = Some(value + 1);
        })
        .await;
    }

    /// Changes a field that does not change the generation.
    pub(crate) async fn touch(&self, name: char) {
        self.change(name, add_note).await;
    }

    pub(crate) async fn label(&self, name: char, label: char) {
        self.change(name, |lease| {
            let labels = lease.metadata.labels.get_or_insert_default();
            labels.insert("label".to_owned(), label.to_string());
        })
        .await;
    }

    pub(crate) async fn delete(&self, name: char) {
        if let Some(embedded) = &self.embedded {
            return embedded.delete(self, name).await;
        }
        self.change(name, |lease| {
            if lease.metadata.deletion_timestamp.is_none() {
                lease.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                bump(lease);
            }
        })
        .await;
    }

    /// Another client removes all finalizers of wrappers.
    pub(crate) async fn strip(&self, name: char) {
        self.change(name, |lease| {
            let finalizers = lease.metadata.finalizers.get_or_insert_default();
            finalizers.retain(|it| it == OTHER);
        })
        .await;
    }

    pub(crate) async fn hold(&self, name: char) {
        self.change(name, |lease| {
            let finalizers = lease.metadata.finalizers.get_or_insert_default();
            let terminating = lease.metadata.deletion_timestamp.is_some();
            if !terminating && !finalizers.iter().any(|it| it == OTHER) {
                finalizers.push(OTHER.to_owned());
            }
        })
        .await;
    }

    /// Another client adds its finalizer, or removes it.
    async fn contend(&self, name: char) {
        let held = self.with(|state| {
            let lease = state.server.objects.get(&name.to_string());
            let finalizers = lease.and_then(|it| it.metadata.finalizers.as_ref());
            finalizers.is_some_and(|it| it.iter().any(|it| it == OTHER))
        });
        if held {
            self.free(name).await;
        } else {
            self.hold(name).await;
        }
    }

    /// Restores the server from a backup: reverts half of its changes.
    pub(crate) fn restore(&self) {
        self.log(Entry::Restored);
        let restored = self.with(|state| {
            state.restored.get_or_insert(Detected(false));
            state.server.restore()
        });
        for object in restored {
            let by = Writer::Other;
            let object = snapshot(&object);
            self.log(Entry::Committed { by, object });
        }
        self.written.notify_one();
    }

    pub(crate) async fn free(&self, name: char) {
        self.change(name, |lease| {
            let finalizers = lease.metadata.finalizers.get_or_insert_default();
            finalizers.retain(|it| it != OTHER);
        })
        .await;
    }
}

// === impl Server ===

impl Server {
    fn new_object(&mut self, name: &str, label: char) -> Option<Lease> {
        if self.objects.contains_key(name) {
            return None;
        }
        self.uids += 1;
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        lease.metadata.namespace = Some(NAMESPACE.to_owned());
        lease.metadata.uid = Some(format!("{name}{}", self.uids));
        lease.metadata.generation = (!self.no_generation).then_some(1);
        lease.metadata.labels = Some([("label".to_owned(), label.to_string())].into());
        lease.spec = Some(LeaseSpec {
            lease_duration_seconds: Some(1),
            ..LeaseSpec::default()
        });
        Some(lease)
    }

    /// Notes what the embedded server has committed; none if that is known.
    fn mirror(&mut self, by: Writer, lease: Lease) -> Option<Entry> {
        let name = name_of(&lease);
        let terminating = lease.metadata.deletion_timestamp.is_some();
        let held = lease
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|it| !it.is_empty());
        if terminating && !held {
            let last = self.objects.remove(&name)?;
            let object = snapshot(&last);
            return Some(Entry::Removed { by, object });
        }
        let known = self.objects.get(&name);
        if known.is_some_and(|it| it.metadata.resource_version == lease.metadata.resource_version) {
            return None;
        }
        let object = snapshot(&lease);
        self.objects.insert(name, lease);
        Some(Entry::Committed { by, object })
    }

    fn restore(&mut self) -> Vec<Lease> {
        self.restores += 1;
        let kept = self.history.len() / 2;
        self.history.truncate(kept);
        let last = self.history.last().map(|it| it.version);
        self.version = last.unwrap_or_default();
        self.objects.clear();
        for change in std::mem::take(&mut self.history) {
            match (change.before, change.after) {
                (_, Some(after)) => self.objects.insert(name_of(&after), after),
                (Some(before), None) => self.objects.remove(&name_of(&before)),
                (None, None) => None,
            };
        }
        for object in self.objects.values() {
            self.history.push(Change {
                version: self.version,
                before: None,
                after: Some(object.clone()),
            });
        }
        self.objects.values().cloned().collect()
    }

    fn write(&mut self, by: Writer, mut lease: Lease) -> (Entry, Lease) {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        if lease
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(Vec::is_empty)
        {
            lease.metadata.finalizers = None;
        }
        let name = lease.metadata.name.clone().unwrap_or_default();
        let dead = lease.metadata.deletion_timestamp.is_some();
        let dead = dead && lease.metadata.finalizers.is_none();
        let before = if dead {
            self.objects.remove(&name)
        } else {
            self.objects.insert(name, lease.clone())
        };
        let entry = match &before {
            Some(last) if dead => Entry::Removed {
                by,
                object: snapshot(last),
            },
            _ => Entry::Committed {
                by,
                object: snapshot(&lease),
            },
        };
        self.history.push(Change {
            version: self.version,
            before,
            after: (!dead).then(|| lease.clone()),
        });
        (entry, lease)
    }
}

/// Changes an annotation.
pub(crate) fn add_note(lease: &mut Lease) {
    let notes = lease.metadata.annotations.get_or_insert_default();
    let note = notes.entry("note".to_owned()).or_default();
    note.push('.');
}

fn bump(lease: &mut Lease) {
    lease.metadata.generation = lease.metadata.generation.map(|it| it + 1);
}

/// The label that informers select by.
pub(crate) fn label_of(lease: &Lease) -> Option<&str> {
    let labels = lease.metadata.labels.as_ref()?;
    labels.get("label").map(String::as_str)
}

pub(crate) fn name_of(lease: &Lease) -> String {
    lease.metadata.name.clone().unwrap_or_default()
}

/// What `update` changes.
pub(crate) fn value(lease: &Lease) -> i32 {
    let value = lease.spec.as_ref().and_then(|it| it.lease_duration_seconds);
    value.unwrap_or_default()
}

/// The state of an object as the model compares it.
pub(crate) fn snapshot(lease: &Lease) -> Arc<Snapshot> {
    let meta = &lease.metadata;
    let note = meta.annotations.as_ref().and_then(|it| it.get("note"));
    let content = format!(
        "{} {} {}",
        value(lease),
        label_of(lease).unwrap_or_default(),
        note.map(String::as_str).unwrap_or_default()
    );
    let uid = meta.uid.as_deref().unwrap_or_default();
    let number = meta
        .resource_version
        .as_deref()
        .and_then(|it| it.parse().ok());
    Arc::new(Snapshot {
        key: Arc::from(meta.name.as_deref().unwrap_or_default()),
        // The uids of the embedded server are long, and a history has few objects.
        uid: Arc::from(uid.get(..4).unwrap_or(uid)),
        version: Version(number.unwrap_or_default()),
        generation: meta.generation,
        terminating: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        content: Arc::from(content),
    })
}

/// The client of one wrapper.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) handler: u32,
    pub(crate) stage: Stage,
}

// === impl Client ===

impl PatchClient<Lease> for Client {
    async fn patch(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<Lease, kube::Error> {
        let stage = &self.stage;
        let handler = HandlerId(self.handler);
        let fault = self.fault(key, patch);
        let name = key.name().chars().next().unwrap_or_default();
        let refusal = match fault {
            Some(PatchFault::Fails) => Some(api(500, "InternalError")),
            Some(PatchFault::Refused) => Some(api(403, "Forbidden")),
            Some(PatchFault::Conflicts) => Some(api(409, "Conflict")),
            _ => None,
        };
        if let Some(refusal) = refusal {
            stage.log(Entry::PatchFailed(handler));
            return Err(refusal);
        }
        match fault {
            Some(PatchFault::Raced) => stage.update(name).await,
            Some(PatchFault::Contended) => stage.contend(name).await,
            Some(PatchFault::Stripped) => stage.strip(name).await,
            _ => {}
        }
        let written = match &stage.embedded {
            Some(embedded) => {
                let by = Writer::Wrapper(handler);
                PatchClient::patch(&embedded.client(stage, by), key, patch).await
            }
            None => self.write(key, patch),
        };
        match fault {
            Some(PatchFault::LosesAnswer) => {
                stage.log(Entry::PatchFailed(handler));
                return Err(api(500, "InternalError"));
            }
            Some(PatchFault::Slow) => {
                let _waits = Waits::new(stage, handler);
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            }
            _ => {}
        }
        written
    }
}

impl Client {
    /// What is to become of this patch.
    fn fault(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Option<PatchFault> {
        let ours = finalizers(self.handler);
        self.stage.with(|state| {
            let stored = state.server.objects.get(key.name());
            let releases = stored.is_some_and(|stored| {
                let before = stored.metadata.finalizers.iter().flatten();
                let held = before.into_iter().any(|it| ours.contains(it));
                let after = patched(stored, patch);
                held && after.is_ok_and(|it| !it.iter().any(|it| ours.contains(it)))
            });
            let fault = releases.then(|| state.release_faults.pop_front());
            fault.flatten().or_else(|| state.faults.pop_front())
        })
    }

    fn write(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<Lease, kube::Error> {
        let found = self
            .stage
            .with(|state| state.server.objects.get(key.name()).cloned());
        let stored = found.ok_or_else(|| api(404, "NotFound"))?;
        if patch.operations().is_empty() {
            return Ok(stored);
        }
        let finalizers = patched(&stored, patch)?;
        let before = stored.metadata.finalizers.clone().unwrap_or_default();
        let mut lease = stored.clone();
        let terminating = stored.metadata.deletion_timestamp.is_some();
        if terminating && finalizers.iter().any(|it| !before.contains(it)) {
            return Err(api(422, "Invalid"));
        }
        if finalizers == before {
            return Ok(stored);
        }
        lease.metadata.finalizers = Some(finalizers);
        Ok(self
            .stage
            .write(Writer::Wrapper(HandlerId(self.handler)), lease))
    }
}

/// A patch without an answer, that can be dropped.
struct Waits<'a>(&'a Stage, HandlerId);

// === impl Waits ===

impl<'a> Waits<'a> {
    fn new(stage: &'a Stage, handler: HandlerId) -> Self {
        stage.log(Entry::PatchBegan(handler));
        Self(stage, handler)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.log(Entry::PatchEnded(self.1));
    }
}

/// The finalizers as `patch` makes them. An absent member is null, as for Kubernetes.
fn patched(stored: &Lease, patch: &FinalizerPatch) -> Result<Vec<String>, kube::Error> {
    let meta = &stored.metadata;
    let mut value = json!({ "metadata": { "uid": meta.uid } });
    if let Some(finalizers) = &meta.finalizers {
        value["metadata"]["finalizers"] = json!(finalizers);
    }
    if let Some(marked) = &meta.deletion_timestamp {
        value["metadata"]["deletionTimestamp"] = json!(marked);
    }
    let operations: Vec<PatchOperation> =
        serde_json::from_value(Value::Array(patch.operations().to_vec())).expect("a JSON patch");
    for operation in operations {
        if let PatchOperation::Test(test) = &operation {
            let found = value.pointer(test.path.as_str()).unwrap_or(&Value::Null);
            if *found != test.value {
                return Err(api(422, "Invalid"));
            }
        } else {
            json_patch::patch(&mut value, &[operation]).expect("a patch that fits");
        }
    }
    let finalizers = value
        .pointer("/metadata/finalizers")
        .cloned()
        .unwrap_or_default();
    Ok(serde_json::from_value(finalizers).unwrap_or_default())
}

fn api(code: u16, reason: &str) -> kube::Error {
    let status = Status::failure("as planned", reason).with_code(code);
    kube::Error::Api(Box::new(status))
}

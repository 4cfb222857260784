//! A simulated server with leases: only the behaviour of an API server for finalizers, in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use json_patch::PatchOperation;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::core::Status;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use windlass_controller::{FinalizerPatch, PatchClient};
use windlass_informer::{ObjectKey, Script};

use crate::support::Log;

/// The finalizer of most tests.
pub(crate) const OWN: &str = "test.windlass.dev/own";

/// A world, and a way to write its finalizers. Clones are the same.
#[derive(Clone)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
    /// Notified when the operator has to crash.
    pub(crate) crash: Arc<Notify>,
    log: Log,
}

struct State {
    objects: BTreeMap<String, Lease>,
    version: u64,
    /// Whether versions are not numeric.
    version_names: bool,
    writes: u32,
    /// The destination of events. `None` while the operator is down.
    script: Option<Script<Lease>>,
    plan: Vec<Fault>,
    /// The objects that no informer sees.
    hidden: BTreeSet<String>,
}

/// The fault of a patch. The first patch has number 1.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The patch is not applied: 500.
    Fails(u32),
    /// The patch is applied, and the reply is lost: 500.
    LosesReply(u32),
    /// The patch is applied, and the operator crashes before it receives the reply.
    CrashAfter(u32),
    /// Before the patch, another writer adds its finalizer.
    Races(u32, &'static str),
    /// Before the patch, the object is deleted and recreated.
    Reborn(u32),
    /// Like `Reborn`, and the new object has the same finalizers.
    RebornAlike(u32),
    /// Before each patch up to this one, another writer adds its finalizer.
    RacesUntil(u32),
    /// The patch is accepted, and a mutating webhook undoes it: 200.
    Undone(u32),
    /// The patch is rejected permanently: 422.
    Refused(u32),
    /// The patch is rejected because of a race, although nothing has changed: 409.
    Conflicts(u32),
    /// Before the patch, another writer removes all finalizers and deletes the object: 404.
    Vanishes(u32),
    /// The patch is not applied: a proxy answers 404, without a `Status` of the API server.
    MisroutedByProxy(u32),
    /// Before it, the server is restored from a backup, in which the object is not being deleted.
    Restored(u32),
    /// The patch is not applied, and the client times out after 30 s.
    TimesOut(u32),
}

// === impl World ===

impl World {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                objects: BTreeMap::new(),
                version: 0,
                version_names: false,
                writes: 0,
                script: None,
                plan: Vec::new(),
                hidden: BTreeSet::new(),
            })),
            crash: Arc::default(),
            log,
        }
    }

    pub(crate) async fn plan(&self, fault: Fault) {
        self.state.lock().await.plan.push(fault);
    }

    /// Tells `script` from now on, beginning with all there is.
    pub(crate) async fn tell(&self, script: Script<Lease>) {
        let mut state = self.state.lock().await;
        let all: Vec<_> = state.objects.values().cloned().collect();
        script.list(all).await.expect("it runs");
        state.script = Some(script);
    }

    /// Shows the informer nothing, until it is shown everything again by [`tell`](Self::tell).
    pub(crate) async fn pause(&self) -> Script<Lease> {
        let mut state = self.state.lock().await;
        state
            .script
            .take()
            .expect("the informer is shown everything")
    }

    /// Gives objects versions that are no numbers.
    pub(crate) async fn version_names(&self) {
        self.state.lock().await.version_names = true;
    }

    pub(crate) async fn hush(&self) {
        self.state.lock().await.script = None;
    }

    pub(crate) async fn create(&self, name: &str, value: i32) {
        let mut state = self.state.lock().await;
        let uid = format!("uid-{name}-{}", state.version);
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        lease.metadata.namespace = Some("shop".to_owned());
        lease.metadata.uid = Some(uid);
        lease.metadata.generation = Some(1);
        lease.spec = Some(spec(value));
        state.write(lease).await;
    }

    /// Changes the spec.
    pub(crate) async fn update(&self, name: &str, value: i32) {
        let mut state = self.state.lock().await;
        let Some(mut lease) = state.objects.get(name).cloned() else {
            return;
        };
        lease.metadata.generation = lease.metadata.generation.map(|generation| generation + 1);
        lease.spec = Some(spec(value));
        state.write(lease).await;
    }

    /// Changes a label.
    pub(crate) async fn label(&self, name: &str, value: &str) {
        let mut state = self.state.lock().await;
        let Some(mut lease) = state.objects.get(name).cloned() else {
            return;
        };
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert("label".to_owned(), value.to_owned());
        state.write(lease).await;
    }

    /// Changes a label so that the informer sees the object no more.
    pub(crate) async fn hide(&self, name: &str) {
        let mut state = self.state.lock().await;
        state.hidden.insert(name.to_owned());
        let lease = state.objects[name].clone();
        if let Some(script) = &state.script {
            script.delete(lease).await.expect("it runs");
        }
    }

    /// Changes a label so that the informer sees the object again.
    pub(crate) async fn show(&self, name: &str) {
        let mut state = self.state.lock().await;
        state.hidden.remove(name);
        let lease = state.objects[name].clone();
        if let Some(script) = &state.script {
            script.apply(lease).await.expect("it runs");
        }
    }

    /// Writes finalizers as another writer that is allowed to.
    pub(crate) async fn set_finalizers(&self, name: &str, finalizers: &[&str]) {
        let mut state = self.state.lock().await;
        let Some(mut lease) = state.objects.get(name).cloned() else {
            return;
        };
        let finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
        lease.metadata.finalizers = Some(finalizers);
        state.write(lease).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let mut state = self.state.lock().await;
        let Some(mut lease) = state.objects.get(name).cloned() else {
            return;
        };
        if lease.metadata.deletion_timestamp.is_none() {
            lease.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            lease.metadata.generation = lease.metadata.generation.map(|generation| generation + 1);
        }
        state.write(lease).await;
    }

    /// The finalizers of an object in short, or `gone`.
    pub(crate) async fn finalizers(&self, name: &str) -> String {
        match self.state.lock().await.objects.get(name) {
            Some(lease) => short(lease),
            None => "gone".to_owned(),
        }
    }

    /// The value of an object, if it exists.
    pub(crate) async fn value(&self, name: &str) -> Option<i32> {
        let state = self.state.lock().await;
        let spec = state.objects.get(name)?.spec.as_ref();
        spec.and_then(|spec| spec.lease_duration_seconds)
    }

    /// An object as it is now.
    pub(crate) async fn object(&self, name: &str) -> Arc<Lease> {
        Arc::new(self.state.lock().await.objects[name].clone())
    }

    /// Restores the server from a backup, in which the object is not being deleted.
    pub(crate) async fn restore(&self, name: &str) {
        self.state.lock().await.restored(name).await;
    }

    /// Removes an object with all its finalizers.
    pub(crate) async fn remove(&self, name: &str) {
        self.state.lock().await.vanish(name).await;
    }

    /// The number of patches so far.
    pub(crate) async fn writes(&self) -> u32 {
        self.state.lock().await.writes
    }
}

impl PatchClient<Lease> for World {
    async fn patch(&self, key: &ObjectKey, patch: &FinalizerPatch) -> Result<Lease, kube::Error> {
        let mut state = self.state.lock().await;
        let name = key.name();
        if patch.operations().is_empty() {
            return (state.objects.get(name).cloned()).ok_or_else(|| api(404, "NotFound"));
        }
        state.writes += 1;
        let number = state.writes;
        let mut fate = Ok(());
        for fault in state.plan.clone() {
            match fault {
                Fault::Fails(n) if n == number => return Err(api(500, "InternalError")),
                Fault::Refused(n) if n == number => return Err(api(422, "Invalid")),
                Fault::MisroutedByProxy(n) if n == number => return Err(api(404, "")),
                Fault::Conflicts(n) if n == number => return Err(api(409, "Conflict")),
                Fault::TimesOut(n) if n == number => {
                    drop(state);
                    // In virtual time: the limit of the client of finalizers.
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    return Err(kube::Error::Service("timed out after 30s".into()));
                }
                Fault::Undone(n) if n == number => {
                    return state
                        .objects
                        .get(name)
                        .cloned()
                        .ok_or_else(|| api(404, "NotFound"));
                }
                Fault::Vanishes(n) if n == number => state.vanish(name).await,
                Fault::LosesReply(n) if n == number => fate = Err(false),
                Fault::CrashAfter(n) if n == number => fate = Err(true),
                Fault::Restored(n) if n == number => state.restored(name).await,
                Fault::Races(n, theirs) if n == number => state.race(name, theirs).await,
                Fault::RacesUntil(n) if number <= n => {
                    let theirs = format!("test.windlass.dev/x{number}");
                    state.race(name, &theirs).await;
                }
                Fault::Reborn(n) if n == number => state.reborn(name, false).await,
                Fault::RebornAlike(n) if n == number => state.reborn(name, true).await,
                _ => {}
            }
        }
        let Some(stored) = state.objects.get(name) else {
            return Err(api(404, "NotFound"));
        };
        let lease = apply(stored, patch)?;
        let added = |it| !finalizers(stored).contains(it);
        if stored.metadata.deletion_timestamp.is_some() && finalizers(&lease).iter().any(added) {
            return Err(api(422, "Invalid"));
        }
        self.log.say(format_args!("{name} [{}]", short(&lease)));
        let lease = state.write(lease).await;
        match fate {
            Ok(()) => Ok(lease),
            Err(false) => Err(api(500, "InternalError")),
            Err(true) => {
                drop(state);
                self.crash.notify_one();
                std::future::pending().await
            }
        }
    }
}

// === impl State ===

impl State {
    /// Stores `lease`, and sends its event. Removes a terminating lease without finalizers.
    async fn write(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        let prefix = if self.version_names { "v" } else { "" };
        lease.metadata.resource_version = Some(format!("{prefix}{}", self.version));
        if lease
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(Vec::is_empty)
        {
            lease.metadata.finalizers = None;
        }
        let name = lease.metadata.name.clone().expect("a name");
        let script = (self.script.as_ref()).filter(|_| !self.hidden.contains(&name));
        if lease.metadata.deletion_timestamp.is_some() && lease.metadata.finalizers.is_none() {
            // Sent as it was last stored.
            let last = self.objects.remove(&name);
            if let (Some(script), Some(last)) = (script, last) {
                script.delete(last).await.expect("it runs");
            }
        } else {
            self.objects.insert(name, lease.clone());
            if let Some(script) = script {
                script.apply(lease.clone()).await.expect("it runs");
            }
        }
        lease
    }

    async fn reborn(&mut self, name: &str, alike: bool) {
        let mut lease = self.objects[name].clone();
        lease.metadata.uid = Some(format!("uid-reborn-{}", self.version));
        lease.metadata.deletion_timestamp = None;
        if !alike {
            lease.metadata.finalizers = None;
        }
        self.write(lease).await;
    }

    async fn vanish(&mut self, name: &str) {
        let mut lease = self.objects[name].clone();
        lease.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        lease.metadata.finalizers = None;
        self.write(lease).await;
    }

    async fn restored(&mut self, name: &str) {
        let mut lease = self.objects[name].clone();
        lease.metadata.deletion_timestamp = None;
        self.write(lease).await;
    }

    async fn race(&mut self, name: &str, theirs: &str) {
        let mut lease = self.objects[name].clone();
        let finalizers = lease.metadata.finalizers.get_or_insert_default();
        finalizers.push(theirs.to_owned());
        self.write(lease).await;
    }
}

/// The object as `patch` makes it. An absent member is null, as for Kubernetes.
fn apply(stored: &Lease, patch: &FinalizerPatch) -> Result<Lease, kube::Error> {
    let mut value = serde_json::to_value(stored).expect("plain JSON");
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
    Ok(serde_json::from_value(value).expect("a lease"))
}

fn spec(value: i32) -> LeaseSpec {
    LeaseSpec {
        lease_duration_seconds: Some(value),
        ..LeaseSpec::default()
    }
}

fn finalizers(lease: &Lease) -> &[String] {
    lease.metadata.finalizers.as_deref().unwrap_or_default()
}

/// The finalizers in short: `own`, `wip`, and what is behind the slash of others.
pub(crate) fn short(lease: &Lease) -> String {
    let short = |it: &String| match it.strip_prefix(OWN) {
        Some("") => "own".to_owned(),
        Some(".in-progress") => "wip".to_owned(),
        _ => it.rsplit('/').next().unwrap_or(it).to_owned(),
    };
    let short: Vec<_> = finalizers(lease).iter().map(short).collect();
    short.join(" ")
}

fn api(code: u16, reason: &str) -> kube::Error {
    let status = Status::failure("as planned", reason).with_code(code);
    kube::Error::Api(Box::new(status))
}

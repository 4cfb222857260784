//! The state of the server, and the verbs that read and write it. *(pure)*
//!
//! No function here waits, locks or reads a clock: the time is an argument, and random numbers
//! come from a generator that the builder can seed. One request is one call. Its effects, such as
//! the removal of a namespace that is empty now, happen within the same call, as further writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use serde_json::Value;

use crate::metadata;
use crate::registry::{Registry, Resource};
use crate::schema::PatternMemory;
use crate::selector::{FieldSelector, LabelSelector, Selector, SelectorError};
use crate::status::Status;
use crate::store::{HistoryLimits, Key, Store, Stored, Table};
use crate::wire::ListOptions;

mod admission;
mod apply;
mod contents;
mod create;
mod decode;
mod defaults;
mod definitions;
mod delete;
mod expiry;
mod garbage;
mod initial;
mod list;
mod names;
mod namespaces;
mod ownership;
mod pods;
mod review;
mod roles;
mod scale;
mod size;
mod strategy;
mod tokens;
mod update;

#[cfg(test)]
mod tests;

pub(crate) use create::decode_new;
pub(crate) use delete::Deleted;
use expiry::Expiry;
pub(crate) use expiry::expires;
pub(crate) use list::Page;
pub(crate) use scale::ScaleChange;
pub(crate) use tokens::AUDIENCE;
pub(crate) use update::{Part, Upsert};

/// The table of namespaces in the store.
const NAMESPACES: &str = "namespaces";

/// The table of custom resource definitions in the store.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The state of the server.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The kinds that are served.
    pub(crate) registry: Registry,
    /// The objects, and their history.
    pub(crate) store: Store,
    /// The cache of the compiled patterns of all definitions.
    pattern_memory: PatternMemory,
    random: StdRng,
    /// Signs the tokens of service accounts. `None` until the first token is requested.
    token_key: Option<[u8; 32]>,
    /// The token of the administrator. `None` until a kubeconfig needs it.
    admin_token: Option<String>,
    /// The number of schemas so far. Each stored object has the number of its schema.
    schemas: u64,
    /// Namespaces whose contents are being deleted.
    dying_namespaces: BTreeSet<Key>,
    /// Of these namespaces, those whose pods are not deleted yet. Their other contents wait.
    namespaces_with_pods: BTreeSet<Key>,
    /// Definitions whose objects are being deleted.
    dying_definitions: BTreeSet<Key>,
    /// Removed definitions, whose names other definitions of the group can get.
    released_names: BTreeSet<Key>,
    /// The revision at which the initial contents of namespaces were last checked. `None` if
    /// namespaces have no initial contents.
    contents_seen: Option<u64>,
    /// The revision at which the status of quotas was last written. `None` if clients write it.
    quotas_seen: Option<u64>,
    /// The expiry times of events.
    expiry: Expiry,
    /// Resources that are not served any more, since the last call of `take_retired`.
    retired: Vec<Table>,
}

/// The settings of a cluster.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option"
)]
pub(crate) struct ClusterOptions {
    /// The limits of its history.
    pub(crate) history: HistoryLimits,
    /// The time to live of an event after its last write. Zero if events do not expire.
    pub(crate) event_ttl: Duration,
    /// Whether garbage collection deletes objects whose owners were deleted.
    pub(crate) collects_garbage: bool,
    /// Whether roles authorize requests, and the initial roles exist.
    pub(crate) evaluates_roles: bool,
    /// Whether each namespace gets the objects that controllers create in a cluster.
    pub(crate) fills_namespaces: bool,
    /// Whether the status of resource quotas is filled in.
    pub(crate) counts_quotas: bool,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// The object after the write.
    pub(crate) object: Arc<Stored>,
    /// The warnings for the client.
    pub(crate) warnings: Vec<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Creates a cluster with the built-in kinds and the initial namespaces.
    pub(crate) fn new(seed: Option<u64>, options: ClusterOptions, now: &str) -> Self {
        let mut cluster = Self {
            registry: Registry::new(),
            store: Store::new(options.history),
            pattern_memory: PatternMemory::default(),
            random: seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64),
            token_key: None,
            admin_token: None,
            schemas: 0,
            dying_namespaces: BTreeSet::new(),
            namespaces_with_pods: BTreeSet::new(),
            dying_definitions: BTreeSet::new(),
            released_names: BTreeSet::new(),
            contents_seen: options.fills_namespaces.then_some(0),
            quotas_seen: options.counts_quotas.then_some(0),
            expiry: Expiry::new(options.event_ttl),
            retired: Vec::new(),
        };
        if options.collects_garbage {
            cluster.store.track_owners();
        }
        for (group, plural, namespace, object) in initial::objects() {
            cluster.create_initial(group, plural, namespace, object, now);
        }
        if options.evaluates_roles {
            cluster.create_roles(now);
        }
        cluster.fill_namespaces(now);
        cluster
    }

    /// A random factor of at least 1 and less than 2.
    pub(crate) fn spread(&mut self) -> f64 {
        self.random.random_range(1.0..2.0)
    }

    /// Returns the resources that are not served any more since the last call.
    pub(crate) fn take_retired(&mut self) -> Vec<Table> {
        std::mem::take(&mut self.retired)
    }

    /// The object at `key`.
    ///
    /// # Errors
    ///
    /// 404 if the object does not exist.
    pub(crate) fn get(&self, resource: &Resource, key: &Key) -> Result<&Arc<Stored>, Status> {
        self.store
            .get(&resource.table, key)
            .ok_or_else(|| Status::not_found(&resource.about(&key.name)))
    }

    /// The resource in its current version: its definition can have changed since a request looked
    /// it up.
    ///
    /// # Errors
    ///
    /// 404 if the resource is not served any more.
    pub(crate) fn served(&self, resource: &Arc<Resource>) -> Result<Arc<Resource>, Status> {
        let info = &resource.info;
        if !info.custom {
            return Ok(resource.clone());
        }
        let found = self.registry.find(&info.group, &info.version, &info.plural);
        found.cloned().ok_or_else(Status::no_such_resource)
    }

    /// The object at `key`, converted to the current schema: the starting point of a write.
    ///
    /// # Errors
    ///
    /// 404 if the object does not exist.
    fn current(&self, resource: &Resource, key: &Key) -> Result<Arc<Stored>, Status> {
        let stored = self.get(resource, key)?;
        let Some(mut object) = resource.migrated(stored) else {
            return Ok(stored.clone());
        };
        if let Some(members) = object.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
        Ok(Arc::new(stored.rewritten(object)))
    }

    /// Executes the effects of earlier writes, until no effect remains.
    pub(crate) fn settle(&mut self, now: &str) {
        loop {
            // This is the last effect, because the removal of a namespace or a definition leaves
            // garbage.
            self.settle_definitions(now);
            self.settle_names(now);
            self.settle_namespaces(now);
            if !self.fill_namespaces(now) && !self.collect_garbage(now) {
                // This follows the other controllers, whose writes change the counts.
                self.count_quotas(now);
                return;
            }
        }
    }
}

/// Parses the selectors in `options`, for `resource`.
///
/// # Errors
///
/// 400 if one cannot be parsed, or names a field that the resource does not know.
pub(crate) fn selector(resource: &Resource, options: &ListOptions) -> Result<Selector, Status> {
    let labels = LabelSelector::parse(&options.label_selector);
    let fields = FieldSelector::parse(&options.field_selector, &resource.rules.fields);
    let fields = fields.map_err(|error| match error {
        // Custom resources have another message than built-in ones without fields of their own.
        SelectorError::Unknown(label) if resource.info.custom => {
            SelectorError::Unsupported(label).to_string()
        }
        SelectorError::Unsupported(label) if &*resource.table == "jobs.batch" => {
            format!("field label {label:?} not supported for Job")
        }
        SelectorError::Unsupported(label)
            if &*resource.table == "resourceslices.resource.k8s.io" =>
        {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        }
        error => error.to_string(),
    });
    match (labels, fields) {
        (Ok(labels), Ok(fields)) => Ok(Selector { labels, fields }),
        (Err(error), _) => Err(Status::bad_request(error.to_string())),
        (_, Err(message)) => Err(Status::bad_request(message)),
    }
}

/// The key of an object of `resource`.
fn key_of(resource: &Resource, object: &Value) -> Key {
    let namespace = if resource.info.namespaced {
        metadata::text(object, "namespace")
    } else {
        ""
    };
    Key::new(namespace, metadata::text(object, "name"))
}

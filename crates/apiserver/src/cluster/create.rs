//! The verb create: creates an object.

use std::sync::Arc;

use rand::RngCore as _;
use serde_json::Value;

use super::decode::{self, Decoded};
use super::{
    Cluster, DEFINITIONS, NAMESPACES, Part, Written, defaults, expiry, key_of, ownership, size,
};
use crate::metadata::{self, unqualified_finalizers, validate};
use crate::registry::{Definition, Generation, Resource};
use crate::status::{FieldError, Status};
use crate::store::{Key, Stored};
use crate::typed;
use crate::wire::WriteOptions;

/// The number of names that are tried for one `generateName`.
pub(super) const NAME_ATTEMPTS: usize = 8;

/// Decodes the body of a create. What it does depends on the resource only, so that requests for
/// a built-in kind do it before they wait for the cluster.
///
/// # Errors
///
/// 400 if it isn't an object of this kind, in this version, for this URL.
pub(crate) fn decode_new(
    resource: &Resource,
    namespace: Option<&str>,
    body: Value,
    options: &WriteOptions,
    now: &str,
) -> Result<Decoded, Status> {
    let mut decoded = decode::decode(resource, namespace, body, options)?;
    own_new(resource, &mut decoded, options, now);
    Ok(decoded)
}

/// Makes the manager of the request the owner of the fields of a new object.
pub(super) fn own_new(
    resource: &Resource,
    decoded: &mut Decoded,
    options: &WriteOptions,
    now: &str,
) {
    let Decoded { object, warnings } = decoded;
    // A client cannot create an object that is being deleted, nor own these fields.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata::of(object).remove(field);
    }
    warnings.extend(metadata::drop_duplicate_owners(object, false));
    ownership::track(resource, Part::Main, &Value::Null, object, options, now);
}

// === impl Cluster ===

impl Cluster {
    /// Creates the object in `body`.
    ///
    /// # Errors
    ///
    /// 400, 403, 404, 409 or 422, and 500 for an object that has a resourceVersion.
    pub(crate) fn create(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        body: Value,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let decoded = decode_new(resource, namespace, body, options, now)?;
        self.add(resource, namespace, decoded, options, now)
    }

    /// Stores a new object, which has been decoded, and whose creator owns its fields.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub(crate) fn add(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        decoded: Decoded,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let warnings = decoded.warnings.clone();
        let added = self.add_decoded(resource, namespace, decoded, options, now);
        added.map_err(|status| status.with_warnings(warnings))
    }

    fn add_decoded(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        decoded: Decoded,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let Decoded {
            mut object,
            mut warnings,
        } = decoded;
        let sent_name = metadata::text(&object, "name").to_owned();
        self.admit(resource, namespace, &sent_name)?;
        let sent_version = metadata::text(&object, "resourceVersion").parse::<u64>();
        let base = metadata::text(&object, "generateName").to_owned();
        if sent_name.is_empty() && !base.is_empty() {
            self.generate_name(resource, &mut object, &base)?;
        }
        let uid = self.uid();
        metadata::stamp(&mut object, &uid, now);
        // A kubelet registers its node with a status.
        if resource.has_subresource("status")
            && &*resource.table != "nodes"
            && let Some(members) = object.as_object_mut()
        {
            members.remove("status");
        }
        if resource.rules.generation != Generation::None {
            metadata::of(&mut object).insert("generation".to_owned(), 1.into());
        }
        self.prepare_create(resource, &mut object, options, now)?;
        defaults::created(resource, &mut object);
        let errors = self.check_new(resource, &mut object);
        let key = key_of(resource, &object);
        if &*resource.table == DEFINITIONS {
            object["status"] = serde_json::json!({
                "acceptedNames": { "kind": "", "plural": "" },
                "conditions": null,
                "storedVersions": [Definition::of(&object).storage_version()],
            });
        }
        if !errors.is_empty() {
            return Err(Status::invalid(
                &resource.about_contents(&key.name),
                &errors,
            ));
        }
        if let Some(kind) = resource.stored_type() {
            warnings.extend(typed::warnings(kind.name, &object, None));
        }
        self.check_limits(resource, Part::Main, true, &object)?;
        // As in Kubernetes, a text that is not a number is ignored.
        if !options.dry_run && sent_version.is_ok_and(|version| version != 0) {
            return Err(Status::untyped(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if let Some(existing) = self.store.get(&resource.table, &key) {
            let about = resource.about(&key.name);
            return Err(if base.is_empty() {
                Status::already_exists(&about, existing.is_terminating())
            } else {
                Status::no_unique_name(&about)
            });
        }
        let errors = self.allocate(resource, &mut object, None);
        if !errors.is_empty() {
            return Err(Status::invalid(
                &resource.about_contents(&key.name),
                &errors,
            ));
        }
        size::limit(resource, &key, &mut object, options)?;
        let states = [None, Some(&object)];
        self.charge_quotas(resource, Part::Main, states, options.dry_run, now)?;
        if resource.info.custom {
            warnings.extend(unqualified_finalizers(&object));
        }
        if options.dry_run {
            return Ok(Written {
                object: Arc::new(Stored::unsaved(object)),
                warnings,
            });
        }
        let object = self.put(resource, &key, object);
        if &*resource.table == DEFINITIONS {
            self.accept_names(&key, now);
        }
        Ok(Written { object, warnings })
    }

    /// Validates a new object.
    fn check_new(&self, resource: &Resource, object: &mut Value) -> Vec<FieldError> {
        let mut errors = validate(object, resource.rules.names, resource.rules.finalizers);
        errors.extend(decode::check_schema(resource, Part::Main, None, object));
        if let Some(kind) = resource.stored_type() {
            errors.extend(typed::validate_new(kind.name, object));
        }
        if &*resource.table == NAMESPACES {
            errors.extend(metadata::validate_namespace_finalizers(object, true));
        }
        if &*resource.table == DEFINITIONS {
            errors.extend(Definition::validate(object, &self.pattern_memory));
        }
        errors
    }

    /// Writes an object in the form of the request's version.
    pub(super) fn put(&mut self, resource: &Resource, key: &Key, object: Value) -> Arc<Stored> {
        // An object of another version conforms to another schema. An apply can store a `null`
        // that the schema does not allow, and a create stores no status: a read removes the
        // `null` and adds the default of the status. So does the next write, which is a change of
        // the stored object even if it changes nothing else.
        let schema = resource.schema.as_ref();
        let is_changed_by_reads = schema.is_some_and(|schema| {
            schema.drops_nulls(&object)
                || object.get("status").is_none() && schema.has_default("status")
        });
        let schema = if resource.info.storage && !is_changed_by_reads {
            resource.stored_schema_number
        } else {
            0
        };
        if expiry::expires(resource) {
            self.expiry.renew(key, self.store.now());
        }
        self.store.put(&resource.table, key, object, schema)
    }

    /// Checks that objects of `resource` can be created in `namespace`.
    fn admit(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), Status> {
        if resource.is_closing {
            let detail = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&resource.about(name), detail));
        }
        let Some(namespace) = namespace.filter(|_| resource.info.namespaced) else {
            return Ok(());
        };
        match self.store.get(NAMESPACES, &Key::new("", namespace)) {
            None => Err(Status::not_found(&crate::status::About {
                group: "",
                resource: "namespaces",
                kind: "Namespace",
                name: namespace,
            })),
            Some(object) if object.is_terminating() => Err(Status::namespace_terminating(
                &resource.about(name),
                namespace,
            )),
            Some(_) => Ok(()),
        }
    }

    fn generate_name(
        &mut self,
        resource: &Resource,
        object: &mut Value,
        base: &str,
    ) -> Result<(), Status> {
        for _ in 0..NAME_ATTEMPTS {
            let name = metadata::generated_name(base, &mut self.random);
            metadata::of(object).insert("name".to_owned(), name.into());
            if self
                .store
                .get(&resource.table, &key_of(resource, object))
                .is_none()
            {
                return Ok(());
            }
        }
        let name = metadata::text(object, "name");
        Err(Status::no_unique_name(&resource.about(name)))
    }

    pub(super) fn uid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    }
}

//! The verb apply: applies a configuration to an object, which is created if it does not exist.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::decode;
use super::update::{check_name, sent_version};
use super::{Cluster, Part, Upsert, ownership};
use crate::managed;
use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::Key;
use crate::typed;
use crate::wire::{UnknownFields, WriteOptions, yaml};

// === impl Cluster ===

impl Cluster {
    /// Applies `config` to the object at `key`.
    ///
    /// # Errors
    ///
    /// 400, 404, 409, 422, and 500 for a configuration that is not of its type, as in
    /// Kubernetes.
    pub(crate) fn apply(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        config: Value,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Upsert, Status> {
        let live = self.current(resource, key).ok();
        if live.is_none() && part != Part::Main {
            return Err(Status::not_found(&resource.about(&key.name)));
        }
        let api_version = resource.api_version();
        let config = configuration(resource, api_version, config)?;
        let words = managed::object_words(&config, api_version, &resource.info.kind);
        let before = live.as_ref().map_or_else(
            || Value::Object(Map::new()),
            |live| resource.members(live.value()),
        );
        let write = ownership::write(resource, part, options, now);
        let merged = managed::apply(&before, &config, resource, &write, options.force)
            .map_err(|error| error.status(&words))?;
        let mut body = merged;
        let entries = metadata::of(&mut body).remove("managedFields");
        body["apiVersion"] = api_version.into();
        body["kind"] = resource.info.kind.as_str().into();
        let namespace = resource.info.namespaced.then_some(&*key.namespace);
        let unconvertible = |why: &str| {
            let why = type_fault(why);
            let (_, gvk) = words.split_once("; ").unwrap_or_default();
            Status::untyped(format!(
                "failed to convert new object ({words}) to proper version: unable to convert \
                 unstructured object to {gvk}: {why}"
            ))
        };
        if let Some(kind) = resource.typed() {
            typed::convert(kind, &mut body).map_err(|why| unconvertible(&why))?;
        }
        options.check_duplicates()?;
        let checked = WriteOptions {
            unknown_fields: UnknownFields::Applied,
            ..options.clone()
        };
        let mut decoded =
            decode::decode(resource, namespace, body, &checked).map_err(|status| {
                match decode::type_error(resource, &status) {
                    Some(why) => unconvertible(why),
                    None => status,
                }
            })?;
        if options.unknown_fields == UnknownFields::Warn {
            let duplicates = options.duplicates.iter().cloned();
            let duplicates = duplicates.flat_map(yaml::duplicate_warnings);
            decoded.warnings.extend(duplicates);
        }
        check_name(key, &decoded.object)?;
        ownership::set_entries(&mut decoded.object, entries);
        let version = sent_version(&decoded.object)?;
        let Some(old) = live else {
            let uid = metadata::text(&decoded.object, "uid");
            if !uid.is_empty() {
                let detail = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object \
                     was found"
                );
                return Err(Status::conflict(&resource.about(&key.name), &detail));
            }
            // The version is no precondition for the creation of a missing object.
            metadata::of(&mut decoded.object).remove("resourceVersion");
            let added = self.add(resource, namespace, decoded, options, now)?;
            return Ok(Upsert::Created(added));
        };
        let about = resource.about(&key.name);
        match version {
            // Only a configuration with the value `null` has no version.
            None | Some(0) if !resource.rules.unconditional_update => {
                return Err(Status::version_missing(&about));
            }
            Some(version) if version != 0 && version != old.revision() => {
                return Err(Status::modified(&about));
            }
            _ => {}
        }
        let written = self.replace(resource, key, part, &old, decoded, options, now)?;
        Ok(Upsert::Updated(written))
    }
}

/// The real server's error for a field that does not fit its type. The real server decodes such
/// fields one by one.
fn type_fault(why: &str) -> Cow<'_, str> {
    if why.starts_with("illegal base64") {
        return format!("error decoding from json: {why}").into();
    }
    let parts = why.split_once(" into Go struct field ");
    match parts.and_then(|(what, rest)| Some((what, rest.split_once(" of type ")?.1))) {
        Some((what, wanted)) => format!("{what} into Go value of type {wanted}").into(),
        None => why.into(),
    }
}

/// A configuration without `apiVersion` and `kind`, which must match the URL.
pub(super) fn configuration(
    resource: &Resource,
    api_version: &str,
    mut config: Value,
) -> Result<Value, Status> {
    let text = |field: &str| {
        config
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (sent, kind) = (text("apiVersion"), text("kind"));
    if sent != api_version || kind != resource.info.kind {
        let (group, version) = sent.split_once('/').unwrap_or(("", sent));
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    if let Some(members) = config.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    Ok(config)
}

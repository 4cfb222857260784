//! The subresource `scale`: reads and writes the number of replicas of a workload.

use serde_json::{Map, Value, json};

use super::apply::configuration;
use super::decode::{self, Decoded};
use super::update::{check_name, sent_version};
use super::{Cluster, Part, Written, ownership};
use crate::managed::{self, Write};
use crate::patch::Patch;
use crate::registry::{self, Resource, ScalePaths};
use crate::schema::DefaultsTooLarge;
use crate::status::{FieldError, Status};
use crate::store::{Key, Stored};
use crate::wire::WriteOptions;

/// A change of a scale.
#[derive(Debug)]
pub(crate) enum ScaleChange {
    /// Replaces the scale.
    Update(Value),
    /// Patches the scale.
    Patch(Patch),
    /// Applies a configuration to the scale.
    Apply(Value),
}

// === impl Cluster ===

impl Cluster {
    /// The scale of the object at `key`.
    ///
    /// # Errors
    ///
    /// 404 if there is no such object.
    pub(crate) fn scale(&self, resource: &Resource, key: &Key) -> Result<Stored, Status> {
        let object = self.current(resource, key)?;
        let paths = paths(resource, key)?;
        if resource.info.custom && object.value().pointer(&paths.wanted).is_none() {
            let path = paths.wanted.replace('/', ".");
            let message = format!("the spec replicas field {path:?} does not exist");
            return Err(Status::internal(&message));
        }
        Ok(Stored::unsaved(scale_of(object.value(), paths)))
    }

    /// Changes the number of replicas of the object at `key`.
    ///
    /// # Errors
    ///
    /// 400, 404, 409 or 422.
    pub(crate) fn change_scale(
        &mut self,
        resource: &Resource,
        key: &Key,
        change: ScaleChange,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let scale = registry::scale();
        if let ScaleChange::Update(body) = &change {
            decode::check_type(scale, body)?;
            check_name(key, body)?;
        }
        let old = self.current(resource, key)?;
        let paths = paths(resource, key)?;
        let mut applied = None;
        let mut patched = None;
        let body = match change {
            ScaleChange::Update(body) => body,
            ScaleChange::Patch(patch) => {
                let mut body = scale.present(&scale_of(old.value(), paths));
                patch.apply(&mut body, scale.typed())?;
                patched = Some((patch, body.clone()));
                body
            }
            ScaleChange::Apply(config) => {
                let merged = applied_scale(resource, old.value(), paths, config, options, now)?;
                let body = scale.present(&merged);
                applied = Some(merged);
                body
            }
        };
        let decoded = decode::decode(scale, Some(&key.namespace), body, options);
        let decoded = decoded.map_err(|status| {
            let why = decode::unhandled(scale, &status).filter(|_| !resource.info.custom);
            match (why, &patched) {
                (Some(why), Some((patch, object))) => {
                    Status::patch_invalid(&patch.shown(object), &patch.type_fault(why))
                }
                _ => status,
            }
        })?;
        check_name(key, &decoded.object)?;
        let about = resource.about(&key.name);
        let version = sent_version(&decoded.object)?;
        if version.is_some_and(|version| version != 0 && version != old.revision()) {
            return Err(Status::modified(&about));
        }
        let replicas = decoded.object["spec"]["replicas"]
            .as_i64()
            .unwrap_or_default();
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &replicas.into(), why);
            return Err(Status::invalid(&scale.about(&key.name), &[error]));
        }
        let mut object = old.value().clone();
        set(&mut object, &paths.wanted, replicas);
        if let Some(schema) = &resource.schema {
            // The number can be the first field of an object whose other fields have defaults.
            schema.default(&mut object).map_err(|DefaultsTooLarge| {
                Status::internal("the defaults of the object take more than 16 MiB")
            })?;
        }
        let version = scale.api_version();
        let changed = applied.unwrap_or_else(|| {
            let entries = managed::entries_of_scale(old.value(), &paths.wanted, version);
            let [mut live, mut changed] = [old.value(), &object].map(|it| scale_of(it, paths));
            ownership::set_entries(&mut live, entries.clone());
            ownership::set_entries(&mut changed, entries);
            ownership::track(scale, Part::Scale, &live, &mut changed, options, now);
            changed
        });
        let entries =
            managed::entries_of_object(&object, &paths.wanted, resource.api_version(), &changed);
        ownership::set_entries(&mut object, entries);
        let decoded = Decoded {
            object,
            warnings: decoded.warnings,
        };
        let written = self.replace(resource, key, Part::Main, &old, decoded, options, now)?;
        Ok(Written {
            object: Stored::unsaved(scale_of(written.object.value(), paths)).into(),
            warnings: written.warnings,
        })
    }
}

/// The scale of an object after `config` was applied to it, with the entries of its managers.
fn applied_scale(
    resource: &Resource,
    object: &Value,
    paths: &ScalePaths,
    config: Value,
    options: &WriteOptions,
    now: &str,
) -> Result<Value, Status> {
    let scale = registry::scale();
    let version = scale.api_version();
    let config = configuration(scale, version, config)?;
    let words = managed::object_words(&config, version, &scale.info.kind);
    let mut live = scale_of(object, paths);
    let entries = managed::entries_of_scale(object, &paths.wanted, version);
    ownership::set_entries(&mut live, entries);
    let write = Write {
        manager: &options.manager,
        api_version: version,
        kind: &scale.info.kind,
        subresource: "scale",
        now,
        ignored: &[],
    };
    let merged = managed::apply(&live, &config, scale, &write, options.force)
        .map_err(|error| error.status(&words))?;
    if resource.info.custom && merged["spec"] != live["spec"] {
        // The real server (v1.36.3) cannot apply a changed scale of a custom resource.
        return Err(Status::untyped(format!(
            "failed to convert new object ({words}) to proper version: request to convert CR to \
             an invalid group/version: {version}"
        )));
    }
    Ok(merged)
}

/// The JSON pointers to the replica counts of a scale.
fn paths<'a>(resource: &'a Resource, key: &Key) -> Result<&'a ScalePaths, Status> {
    let paths = resource.rules.scale.as_ref();
    paths.ok_or_else(|| Status::not_found(&resource.about(&key.name)))
}

/// Sets the number at a JSON pointer. Creates the objects on the path to it.
fn set(object: &mut Value, pointer: &str, number: i64) {
    let mut at = object;
    for part in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[part];
    }
    *at = number.into();
}

/// The scale of an object.
fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = Map::new();
    for field in [
        "creationTimestamp",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    if let Some(wanted) = number(&paths.wanted).filter(|wanted| *wanted != 0) {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    let mut status = json!({ "replicas": number(&paths.present).unwrap_or_default() });
    let selector = paths.selector.as_ref();
    let selector = match selector.and_then(|pointer| object.pointer(pointer)) {
        Some(Value::String(text)) => text.clone(),
        Some(selector) => selector_text(selector),
        None => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({ "metadata": metadata, "spec": spec, "status": status })
}

/// A selector in the form of a query parameter.
pub(super) fn selector_text(selector: &Value) -> String {
    let mut parts = Vec::new();
    // Replication controllers have a map of labels instead of a label selector.
    let labels = selector.get("matchLabels").unwrap_or(selector);
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            parts.push((key.clone(), format!("{key}={value}")));
        }
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<_> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    let texts = parts.into_iter().map(|(_, text)| text);
    texts.collect::<Vec<_>>().join(",")
}

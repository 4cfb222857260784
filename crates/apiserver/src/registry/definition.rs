//! Decodes custom resource definitions, and creates the resources that they define.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin::metadata_fields;
use super::resource::Derived;
use super::{
    DefaultPropagation, Generation, Resource, ResourceInfo, Rules, ScalePaths, Subresource, View,
};
use crate::managed::Types;
use crate::metadata::{Finalizers, NameRule};
use crate::schema::{Limits, PatternMemory, Schema};
use crate::selector::SelectableField;
use crate::table::Columns;

mod parts;
mod priority;
mod rules;

use priority::Priority;

/// The finalizer that delays the deletion of a definition until the objects of its kind are removed.
pub(crate) const CRD_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The default port of the service of a conversion webhook: that of HTTPS.
const WEBHOOK_PORT: u16 = 443;

/// The verbs of custom resources, in the order of kube-apiserver.
const VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// A valid custom resource definition.
#[derive(Debug)]
pub(crate) struct Definition<'a> {
    object: &'a Value,
}

// === impl Definition ===

impl<'a> Definition<'a> {
    /// Decodes a stored definition.
    pub(crate) fn of(object: &'a Value) -> Self {
        Self { object }
    }

    /// Adds the defaults of a definition.
    pub(crate) fn default(object: &mut Value) {
        let kind = object
            .pointer("/spec/names/kind")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let stored = object.pointer("/status/storedVersions");
        let stored = stored.and_then(Value::as_array);
        if stored.is_none_or(Vec::is_empty) {
            Self::add_storage_version(object);
        }
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        spec.entry("conversion")
            .or_insert_with(|| json!({ "strategy": "None" }));
        let service = spec
            .get_mut("conversion")
            .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| WEBHOOK_PORT.into());
        }
        let names = spec.get_mut("names").and_then(Value::as_object_mut);
        if let (Some(names), Some(kind)) = (names, kind) {
            names
                .entry("singular")
                .or_insert_with(|| kind.to_lowercase().into());
            names
                .entry("listKind")
                .or_insert_with(|| format!("{kind}List").into());
        }
    }

    /// Adds the storage version to `status.storedVersions`.
    pub(crate) fn add_storage_version(object: &mut Value) {
        let version = Definition::of(object).storage_version().to_owned();
        if version.is_empty() {
            return;
        }
        let stored = object.pointer_mut("/status/storedVersions");
        match stored.and_then(Value::as_array_mut) {
            Some(stored) if stored.iter().any(|stored| *stored == version) => {}
            Some(stored) => stored.push(version.into()),
            None => object["status"]["storedVersions"] = json!([version]),
        }
    }

    /// Returns the group of the defined resource.
    pub(crate) fn group(&self) -> &'a str {
        self.text("group")
    }

    /// Returns the plural name of the defined resource.
    pub(crate) fn plural(&self) -> &'a str {
        self.text("names/plural")
    }

    /// Returns the storage version.
    pub(crate) fn storage_version(&self) -> &'a str {
        self.versions()
            .iter()
            .find(|version| version["storage"] == true)
            .and_then(|version| version["name"].as_str())
            .unwrap_or_default()
    }

    /// Returns whether the definition is established.
    pub(crate) fn is_established(&self) -> bool {
        self.has_condition("Established")
    }

    fn has_condition(&self, name: &str) -> bool {
        let conditions = self
            .object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == name && condition["status"] == "True")
    }

    /// Returns a resource for each served version, the preferred version first.
    ///
    /// `number` is the number of the schema of the stored version. Schemas that equal those in
    /// `before` are not compiled again. `memory` caches compiled patterns.
    pub(crate) fn resources(
        &self,
        number: u64,
        before: &[Arc<Resource>],
        memory: &PatternMemory,
    ) -> Vec<Arc<Resource>> {
        let mut limits = Limits::new(memory.clone());
        let mut compile = |version: &Value| {
            let schema = version.pointer("/schema/openAPIV3Schema")?;
            let known = before
                .iter()
                .find(|resource| resource.info.open_api_schema.as_ref() == Some(schema))
                .and_then(|resource| resource.schema.clone());
            known.or_else(|| {
                Schema::compile_within(schema, &mut limits)
                    .ok()
                    .map(Arc::new)
            })
        };
        let stored_schema = self
            .versions()
            .iter()
            .find(|version| version["storage"] == true)
            .and_then(&mut compile);
        let mut versions: Vec<_> = self
            .versions()
            .iter()
            .filter(|version| version["served"] == true)
            .collect();
        versions.sort_by_key(|version| Priority::of(version["name"].as_str().unwrap_or_default()));
        let schemas = versions.iter().filter_map(|version| {
            let name = version["name"].as_str()?;
            let schema = version.pointer("/schema/openAPIV3Schema")?;
            Some((format!("{}/{name}", self.group()), schema))
        });
        let field_types = Arc::new(Types::structural(self.text("names/kind"), schemas));
        versions
            .into_iter()
            .map(|version| {
                let storage = version["storage"] == true;
                Arc::new(Resource {
                    info: self.info(version),
                    table: format!("{}.{}", self.plural(), self.group()).into(),
                    rules: self.rules(version),
                    view: View::Same,
                    schema: if storage {
                        stored_schema.clone()
                    } else {
                        compile(version)
                    },
                    stored_schema: stored_schema.clone(),
                    stored_schema_number: number,
                    field_types: Some(field_types.clone()),
                    columns: Columns::from_crd(version.get("additionalPrinterColumns")),
                    is_closing: self.has_condition("Terminating"),
                    derived: Derived::default(),
                })
            })
            .collect()
    }

    fn info(&self, version: &Value) -> ResourceInfo {
        let name = version["name"].as_str().unwrap_or_default();
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let subresource = |name: &str, (group, version, kind): (&str, &str, &str)| Subresource {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            verbs: owned(&["get", "patch", "update"]),
        };
        let kind = self.accepted("kind");
        let mut subresources = Vec::new();
        if version.pointer("/subresources/status").is_some() {
            subresources.push(subresource("status", (self.group(), name, kind)));
        }
        if scale_paths(version).is_some() {
            subresources.push(subresource("scale", ("autoscaling", "v1", "Scale")));
        }
        ResourceInfo {
            group: self.group().to_owned(),
            version: name.to_owned(),
            kind: kind.to_owned(),
            list_kind: self.accepted("listKind").to_owned(),
            plural: self.plural().to_owned(),
            singular: self.accepted("singular").to_owned(),
            short_names: self.accepted_list("shortNames"),
            categories: self.accepted_list("categories"),
            namespaced: self.text("scope") == "Namespaced",
            verbs: owned(VERBS),
            subresources,
            storage: version["storage"] == true,
            custom: true,
            deprecation: (version["deprecated"] == true).then(|| {
                let warning = version["deprecationWarning"].as_str();
                warning.map_or_else(|| self.default_warning(name), str::to_owned)
            }),
            open_api_schema: version.pointer("/schema/openAPIV3Schema").cloned(),
        }
    }

    /// Returns the warning about a deprecated version that does not define one. It names the most
    /// preferred version that is newer, served and not deprecated.
    fn default_warning(&self, name: &str) -> String {
        let (group, kind) = (self.group(), self.text("names/kind"));
        let own = Priority::of(name);
        let current = self.versions().iter().filter(|version| {
            version["served"] == true && version.get("deprecated") != Some(&Value::Bool(true))
        });
        let current = current.filter_map(|version| version["name"].as_str());
        let newer = current.map(|name| (Priority::of(name), name));
        let newest = newer.filter(|(priority, _)| *priority < own).min();
        let warning = format!("{group}/{name} {kind} is deprecated");
        match newest {
            Some((_, newest)) => format!("{warning}; use {group}/{newest} {kind}"),
            None => warning,
        }
    }

    fn rules(&self, version: &Value) -> Rules {
        let mut fields = metadata_fields(self.text("scope") == "Namespaced");
        let selectable = version.get("selectableFields").and_then(Value::as_array);
        fields.extend(selectable.into_iter().flatten().filter_map(|field| {
            let path = field["jsonPath"].as_str()?.trim_start_matches('.');
            Some(SelectableField::at_its_path(path, ""))
        }));
        Rules {
            names: NameRule::Subdomain,
            finalizers: Finalizers::Any,
            generation: Generation::Content,
            counted_metadata: None,
            unconditional_update: false,
            creates_on_update: false,
            status_alone: true,
            returns_deleted: false,
            default_propagation: DefaultPropagation::Background,
            deletion_warning: None,
            scale: scale_paths(version),
            fields,
        }
    }

    fn versions(&self) -> &'a [Value] {
        self.object
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .map_or(&[], |versions| versions.as_slice())
    }

    fn text(&self, path: &str) -> &'a str {
        self.object
            .pointer(&format!("/spec/{path}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The name of the definition, which is unique.
    fn accepted(&self, field: &str) -> &'a str {
        let name = self.accepted_names().and_then(|names| names.get(field));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    fn accepted_list(&self, field: &str) -> Vec<String> {
        texts(self.accepted_names().and_then(|names| names.get(field)))
    }

    fn accepted_names(&self) -> Option<&'a Value> {
        self.object.pointer("/status/acceptedNames")
    }

    fn texts(&self, path: &str) -> Vec<String> {
        texts(self.object.pointer(&format!("/spec/{path}")))
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Returns the paths of the scale of a version.
fn scale_paths(version: &Value) -> Option<ScalePaths> {
    let scale = version.pointer("/subresources/scale")?;
    let pointer = |field: &str| Some(scale.get(field)?.as_str()?.replace('.', "/"));
    Some(ScalePaths {
        wanted: pointer("specReplicasPath")?,
        present: pointer("statusReplicasPath")?,
        selector: pointer("labelSelectorPath").filter(|path| !path.is_empty()),
    })
}

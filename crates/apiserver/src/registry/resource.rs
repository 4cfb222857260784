//! A resource in one version, with the data that requests require.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{ResourceInfo, Rules, View};
use crate::managed::{self, Shape, Versions};
use crate::schema::Schema;
use crate::selector::Selector;
use crate::status::About;
use crate::store::{Stored, Table};
use crate::table::Columns;
use crate::typed;

/// A resource in one version, with the data that requests require.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The names and verbs in discovery documents.
    pub(crate) info: ResourceInfo,
    /// The name of the resource in the store.
    pub(crate) table: Table,
    /// The rules in which kinds differ.
    pub(crate) rules: Rules,
    /// The difference between an object in this version and the stored object.
    pub(crate) view: View,
    /// The schema of this version; `None` for built-in kinds, which have a type.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The schema of the stored version.
    pub(crate) stored_schema: Option<Arc<Schema>>,
    /// The number of the schema of the stored version; 0 if it has none.
    pub(crate) stored_schema_number: u64,
    /// The types of all versions, for the ownership of fields; the types of built-in kinds are in a
    /// table.
    pub(crate) field_types: Option<Arc<managed::Types>>,
    /// The columns that kubectl prints.
    pub(crate) columns: Columns,
    /// Whether creates are rejected, because the definition is being deleted.
    pub(crate) is_closing: bool,
    /// The lazily computed data.
    pub(super) derived: Derived,
}

/// Data that is computed from the fields of a [`Resource`] at its first use, because most resources of
/// a server are never used.
#[derive(Debug, Default)]
pub(super) struct Derived {
    api_version: OnceLock<String>,
    type_members: OnceLock<String>,
    typed: OnceLock<Option<&'static typed::Struct>>,
    shape: OnceLock<Shape<'static>>,
}

// === impl Resource ===

impl Resource {
    /// Returns `apps/v1`, or `v1` in the core group.
    pub(crate) fn api_version(&self) -> &str {
        self.derived.api_version.get_or_init(|| {
            let group_version = [&*self.info.group, &self.info.version].join("/");
            group_version.trim_start_matches('/').to_owned()
        })
    }

    /// Returns the type of a built-in kind.
    pub(crate) fn typed(&self) -> Option<&'static typed::Struct> {
        *self.derived.typed.get_or_init(|| {
            let kind = || typed::kind(self.api_version(), &self.info.kind);
            (!self.info.custom).then(kind).flatten()
        })
    }

    /// Returns the type of the stored objects of a built-in kind, if it is another type.
    pub(crate) fn stored_type(&self) -> Option<&'static typed::Struct> {
        match self.view {
            View::Autoscaler => typed::kind("autoscaling/v2", &self.info.kind),
            View::Same | View::Events => self.typed(),
        }
    }

    /// Returns the names for messages about an object of this kind.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About {
            group: &self.info.group,
            resource: &self.info.plural,
            kind: &self.info.kind,
            name,
        }
    }

    /// Returns the names for messages about an invalid object. As in Kubernetes, events always have
    /// the core group.
    pub(crate) fn about_contents<'a>(&'a self, name: &'a str) -> About<'a> {
        let group = match &*self.table {
            "events" => "",
            _ => &self.info.group,
        };
        About {
            group,
            ..self.about(name)
        }
    }

    /// Returns whether `name` is a served subresource.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.info
            .subresources
            .iter()
            .any(|subresource| subresource.name == name)
    }

    /// Returns the serialized members `apiVersion` and `kind`. In Go, the type of a built-in kind
    /// begins with the kind, and a custom resource is a map, whose members are sorted.
    pub(crate) fn type_members(&self) -> &str {
        self.derived.type_members.get_or_init(|| {
            let (api_version, kind) = (json!(self.api_version()), json!(self.info.kind));
            if self.info.custom {
                format!("\"apiVersion\":{api_version},\"kind\":{kind}")
            } else {
                format!("\"kind\":{kind},\"apiVersion\":{api_version}")
            }
        })
    }

    /// Returns the members of a stored object in this version, without `apiVersion` and `kind`.
    pub(crate) fn members(&self, stored: &Value) -> Value {
        self.view.present(stored)
    }

    /// Returns a stored object in this version of the API, with parsed `managedFields`.
    pub(crate) fn present(&self, stored: &Value) -> Value {
        let mut object = self.with_type(stored);
        managed::expand(&mut object);
        object
    }

    /// Returns a stored object in this version, with `apiVersion` and `kind`.
    fn with_type(&self, stored: &Value) -> Value {
        let mut object = self.members(stored);
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.info.kind.as_str().into();
        object
    }

    /// Returns whether a stored object conforms to the current schema.
    pub(crate) fn is_up_to_date(&self, stored: &Stored) -> bool {
        self.stored_schema.is_none() || self.stored_schema_number == stored.schema()
    }

    /// Converts a stored object that was written under another schema: it drops fields that the
    /// current schema does not define, and adds defaults. Returns `None` if the object conforms to
    /// the current schema.
    pub(crate) fn migrated(&self, stored: &Stored) -> Option<Value> {
        let schema = self.stored_schema.as_ref()?;
        if self.is_up_to_date(stored) {
            return None;
        }
        let mut object = self.with_type(stored.value());
        schema.prune(&mut object);
        // The write of a definition is not rejected because of stored objects. If the new defaults
        // are too large, only a part of them is added.
        _ = schema.default(&mut object);
        Some(object)
    }

    /// Returns whether `selector` selects a stored object. A field selector reads the object as a
    /// response shows it, in the current schema.
    pub(crate) fn selects(&self, selector: &Selector, stored: &Stored) -> bool {
        let reads_contents = selector.fields.reads_contents();
        let migrated = reads_contents.then(|| self.migrated(stored)).flatten();
        selector.matches(migrated.as_ref().unwrap_or_else(|| stored.value()))
    }
}

impl Versions for Resource {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        if let Some(types) = &self.field_types {
            return types.kind(api_version, &self.info.kind);
        }
        // Versions of a built-in kind with other fields are not served.
        (api_version == self.api_version()).then(|| {
            let shape = || managed::builtin(api_version, &self.info.kind);
            *self.derived.shape.get_or_init(shape)
        })
    }
}

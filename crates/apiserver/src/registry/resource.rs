//! One resource in one version, with all data that requests need.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{ResourceInfo, Rules, View};
use crate::managed::{self, Shape, Versions};
use crate::schema::Schema;
use crate::status::About;
use crate::store::{Stored, Table};
use crate::table::Columns;
use crate::typed;

/// One resource in one version, with all data that requests need.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Its names in discovery and requests.
    pub(crate) info: ResourceInfo,
    /// The table of its objects in the store.
    pub(crate) table: Table,
    /// The rules that differ between kinds.
    pub(crate) rules: Rules,
    /// How an object in this version differs from the stored one.
    pub(crate) view: View,
    /// The schema of this version; built-in kinds have a type instead.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The schema of the stored version.
    pub(crate) stored_schema: Option<Arc<Schema>>,
    /// The number of the schema of the stored version; 0 if there is none.
    pub(crate) stored_schema_number: u64,
    /// The types of its versions, as far as ownership of fields depends on them; built-in
    /// kinds have theirs in a table.
    pub(crate) field_types: Option<Arc<managed::Types>>,
    /// The columns that kubectl prints.
    pub(crate) columns: Columns,
    /// Whether new objects are refused, because the definition is being deleted.
    pub(crate) is_closing: bool,
    /// What follows from the other fields.
    pub(super) derived: Derived,
}

/// What follows from the fields of a [`Resource`], computed when it is first needed: most
/// resources of a server are never used.
#[derive(Debug, Default)]
pub(super) struct Derived {
    api_version: OnceLock<String>,
    type_members: OnceLock<String>,
    typed: OnceLock<Option<&'static typed::Struct>>,
    shape: OnceLock<Shape<'static>>,
}

// === impl Resource ===

impl Resource {
    /// `apps/v1`, or `v1` in the core group.
    pub(crate) fn api_version(&self) -> &str {
        self.derived.api_version.get_or_init(|| {
            let group_version = [&*self.info.group, &self.info.version].join("/");
            group_version.trim_start_matches('/').to_owned()
        })
    }

    /// The type of a built-in kind.
    pub(crate) fn typed(&self) -> Option<&'static typed::Struct> {
        *self.derived.typed.get_or_init(|| {
            let kind = || typed::kind(self.api_version(), &self.info.kind);
            (!self.info.custom).then(kind).flatten()
        })
    }

    /// The type of the stored objects of a built-in kind, where it is another.
    pub(crate) fn stored_type(&self) -> Option<&'static typed::Struct> {
        match self.view {
            View::Autoscaler => typed::kind("autoscaling/v2", &self.info.kind),
            View::Same | View::Events => self.typed(),
        }
    }

    /// How messages name an object of this kind.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About {
            group: &self.info.group,
            resource: &self.info.plural,
            kind: &self.info.kind,
            name,
        }
    }

    /// What a refusal of an object for its contents calls it: events are those of the core group,
    /// whichever group was asked.
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

    /// Whether `name` is a subresource that is served.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.info
            .subresources
            .iter()
            .any(|subresource| subresource.name == name)
    }

    /// The members `apiVersion` and `kind`, as they stand before the others.
    pub(crate) fn type_members(&self) -> &str {
        self.derived.type_members.get_or_init(|| {
            let (api_version, kind) = (json!(self.api_version()), json!(self.info.kind));
            format!("\"apiVersion\":{api_version},\"kind\":{kind}")
        })
    }

    /// The members of a stored object in this version, without `apiVersion` and `kind`.
    pub(crate) fn members(&self, stored: &Value) -> Value {
        self.view.present(stored)
    }

    /// A stored object as the API has it in this version.
    pub(crate) fn present(&self, stored: &Value) -> Value {
        let mut object = self.with_type(stored);
        managed::expand(&mut object);
        object
    }

    /// A stored object in this version, with `apiVersion` and `kind`.
    fn with_type(&self, stored: &Value) -> Value {
        let mut object = self.members(stored);
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.info.kind.as_str().into();
        object
    }

    /// Whether a stored object conforms to the current schema.
    pub(crate) fn is_up_to_date(&self, stored: &Stored) -> bool {
        self.stored_schema.is_none() || self.stored_schema_number == stored.schema()
    }

    /// Converts a stored object that was written under another schema: drops fields that the
    /// current schema does not have, and fills in its defaults. `None` if the object conforms to the
    /// current schema.
    pub(crate) fn migrated(&self, stored: &Stored) -> Option<Value> {
        let schema = self.stored_schema.as_ref()?;
        if self.is_up_to_date(stored) {
            return None;
        }
        let mut object = self.with_type(stored.value());
        schema.prune(&mut object);
        // The write of the definition is not refused for objects that are stored already. If their
        // new defaults are too large, a part of them is shown.
        _ = schema.default(&mut object);
        Some(object)
    }
}

impl Versions for Resource {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        if let Some(types) = &self.field_types {
            return types.kind(api_version, &self.info.kind);
        }
        // The other versions of a built-in kind have other fields, and are not served.
        (api_version == self.api_version()).then(|| {
            let shape = || managed::builtin(api_version, &self.info.kind);
            *self.derived.shape.get_or_init(shape)
        })
    }
}

//! Converts objects to the rows of a `Table`, which kubectl prints.
//!
//! The server, not kubectl, defines the columns of a kind: `additionalPrinterColumns` of a CRD, or
//! the columns of a built-in kind. Each resource has one [`Columns`].
//!
//! Source: the names and contents of the columns are those of Kubernetes 1.36,
//! `pkg/printers/internalversion` and apiextensions-apiserver
//! `pkg/registry/customresource/tableconvertor`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

mod age;
pub(crate) mod builtin;
mod cells;
mod path;

use path::Path;

/// The number below which Go writes floats without an exponent.
const MAX_WHOLE: f64 = 1e15;

/// The columns of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
}

/// The part of an object that a row has in addition to its cells (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,

    /// Its metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,

    /// The complete object.
    Object,
}

/// The version of `meta.k8s.io` in which tables and metadata are sent: both versions have the same
/// fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

/// A column: its definition and the source of its cells.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: Cow<'static, str>,
    kind: Cow<'static, str>,
    format: Cow<'static, str>,
    description: Cow<'static, str>,
    priority: i64,
    cell: Cell,
}

/// The source of the cells of a column.
#[derive(Clone, Debug)]
enum Cell {
    /// A field, converted to the type of the column; `None` if the path is not supported.
    Field(Option<Path>),

    /// The text at a JSON pointer; the second text if it is absent or empty.
    Text(&'static str, &'static str),

    /// As [`Text`](Self::Text), for a text or a number.
    TextOrNumber(&'static str, &'static str),

    /// The number at a JSON pointer, or 0.
    Count(&'static str),

    /// The boolean at a JSON pointer, or false.
    Flag(&'static str),

    /// A function of the object and the current time.
    Read(fn(&Value, Timestamp) -> Value),
}

// === impl MetaVersion ===

impl MetaVersion {
    /// Returns the version that `text` names; `None` if the server does not have it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Returns the `apiVersion` of objects in this version.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

// === impl Columns ===

impl Columns {
    /// Returns the columns of a version of a CRD: the name and `additionalPrinterColumns`.
    ///
    /// Without `additionalPrinterColumns`, the second column is the age. A column whose path is not
    /// supported has empty cells.
    pub(crate) fn from_crd(additional_printer_columns: Option<&Value>) -> Self {
        let additional = additional_printer_columns
            .and_then(Value::as_array)
            .filter(|columns| !columns.is_empty());
        let Some(additional) = additional else {
            let mut age = Column::builtin("Age", "date", 0, Cell::Read(cells::age));
            age.description = Cow::Borrowed("When the object was created.");
            return Self {
                columns: vec![Column::name(0), age],
            };
        };
        let columns = additional.iter().map(Column::from_crd);
        Self {
            columns: std::iter::once(Column::name(0)).chain(columns).collect(),
        }
    }

    /// Returns the columns of a built-in resource.
    pub(crate) fn builtin(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
        }
    }

    /// Returns a `Table` in this version of `meta.k8s.io` with a row for each object.
    ///
    /// `list_meta` is the `metadata` of the list or the object. The table has the same
    /// `resourceVersion`, `continue` and `remainingItemCount`. Ages are relative to `now`.
    pub(crate) fn table(
        &self,
        objects: &[&Value],
        list_meta: &Value,
        include: IncludeObject,
        version: MetaVersion,
        now: Timestamp,
    ) -> Value {
        let rows = objects
            .iter()
            .map(|object| self.row(object, include, version, now));
        let rows: Vec<_> = rows.collect();
        // A cell of a column without a name has no definition.
        let named = self.columns.iter().filter(|column| !column.name.is_empty());
        let definitions: Vec<_> = named.map(Column::definition).collect();
        let mut metadata = Map::new();
        for field in ["resourceVersion", "continue", "remainingItemCount"] {
            let value = list_meta.get(field);
            if let Some(value) = value.filter(|value| !value.is_null() && *value != "") {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        json!({
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    fn row(
        &self,
        object: &Value,
        include: IncludeObject,
        version: MetaVersion,
        now: Timestamp,
    ) -> Value {
        let cells: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.cell(object, now))
            .collect();
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": version.api_version(),
                "metadata": object.get("metadata").cloned().unwrap_or_default(),
            }),
            IncludeObject::Object => object.clone(),
        };
        json!({ "cells": cells, "object": object })
    }
}

// === impl Column ===

impl Column {
    const fn builtin(name: &'static str, kind: &'static str, priority: i64, cell: Cell) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(""),
            description: Cow::Borrowed(""),
            priority,
            cell,
        }
    }

    /// The name of the object.
    const fn name(priority: i64) -> Self {
        Self {
            name: Cow::Borrowed("Name"),
            kind: Cow::Borrowed("string"),
            format: Cow::Borrowed("name"),
            description: Cow::Borrowed("What the object is called; unique in its namespace."),
            priority,
            cell: Cell::Text("/metadata/name", ""),
        }
    }

    fn from_crd(column: &Value) -> Self {
        let text = |field| {
            column
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        Self {
            name: text("name").to_owned().into(),
            kind: text("type").to_owned().into(),
            format: text("format").to_owned().into(),
            description: description.into(),
            priority: column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            cell: Cell::Field(Path::parse(path)),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Text(pointer, absent) => cells::text(object, pointer, absent),
            Cell::TextOrNumber(pointer, absent) => cells::text_or_number(object, pointer, absent),
            Cell::Count(pointer) => cells::count(object, pointer),
            Cell::Flag(pointer) => cells::flag(object, pointer),
            Cell::Read(read) => read(object, now),
            Cell::Field(path) => {
                let found = path.as_ref().and_then(|path| path.find(object));
                found.map_or(Value::Null, |value| self.convert(value, now))
            }
        }
    }

    /// Converts `value` to the type of the column; `null` if it has another type.
    fn convert(&self, value: &Value, now: Timestamp) -> Value {
        match (&*self.kind, value) {
            // Go's templates print it so.
            ("string", Value::Null) => "<no value>".into(),
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            // Every other value is formatted as a string.
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(number)) => {
                #[expect(clippy::cast_possible_truncation, reason = "an integer was asked for")]
                let whole = number.as_f64().map(|float| float as i64);
                number.as_i64().or(whole).into()
            }
            // Go writes whole numbers without a fraction.
            ("number", Value::Number(number)) if number.is_f64() => match number.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                Some(float) if float.fract() == 0.0 && float.abs() < MAX_WHOLE => {
                    (float as i64).into()
                }
                float => float.into(),
            },
            ("number", Value::Number(_)) => value.clone(),
            ("date", Value::String(text)) if text.is_empty() => age::since(None, now).into(),
            ("date", Value::String(_)) => age::since(Some(value), now).into(),
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests;

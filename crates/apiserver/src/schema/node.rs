//! The nodes of a compiled schema.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;
use serde_json::Value;

use super::{PatternBytes, format::StringFormat};

/// A compiled schema of one value.
///
/// The clauses of `allOf`, `anyOf`, `oneOf` and `not` are nodes too. They contain only rules about
/// values, which the compiler checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) types: Types,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,

    /// Whether unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub(super) open: bool,

    /// Whether the value is a complete Kubernetes object (`x-kubernetes-embedded-resource`).
    pub(super) embedded: bool,

    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: List,
    pub(super) rules: Rules,
}

/// The allowed JSON types of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Types {
    #[default]
    Any,
    One(Type),
    IntOrString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// The rule for fields that `properties` does not contain.
#[derive(Clone, Debug, Default)]
pub(super) enum Additional {
    /// `additionalProperties` is absent: the fields are pruned, and valid.
    #[default]
    Unsaid,

    /// `additionalProperties: false`.
    Refused,

    /// `additionalProperties: true`.
    Anything,

    /// The schema of each of these fields.
    Each(Box<Node>),
}

/// The identity of the elements of a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Elements have no identity.
    #[default]
    Atomic,

    /// The value of the element.
    Set,

    /// The values of these fields.
    Map(Vec<String>),
}

/// The rules for a value of an allowed type.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) required: Vec<String>,
    pub(super) one_of_values: Vec<Value>,
    pub(super) format: Option<StringFormat>,
    pub(super) pattern: Option<Arc<Pattern>>,
    pub(super) length: Range,
    pub(super) items: Range,
    pub(super) unique: bool,
    pub(super) properties: Range,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// The limits of a length or count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// The limits of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// A compiled regular expression, with its text.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) regex: Regex,
    pub(super) bytes: PatternBytes,
}

// === impl Node ===

impl Node {
    /// Returns the node of the field `name`, from `properties` or `additionalProperties`.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(node) => Some(node),
            Additional::Unsaid | Additional::Refused | Additional::Anything => None,
        })
    }
}

// === impl Type ===

impl Type {
    /// All types, in the order of Kubernetes.
    pub(super) const ALL: [Self; 6] = [
        Self::Array,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::Object,
        Self::String,
    ];

    /// Returns the name of the type in a schema.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    /// Returns the type with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the type of `value`; `None` for `null`.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            // Go decodes an integer of more than 64 bits as a float.
            Value::Number(number) if number.is_i64() => Some(Self::Integer),
            Value::Number(_) => Some(Self::Number),
            Value::String(_) => Some(Self::String),
            Value::Array(_) => Some(Self::Array),
            Value::Object(_) => Some(Self::Object),
        }
    }
}

// === impl Types ===

impl Types {
    /// Returns the names, joined as in Kubernetes.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(kind) => kind.name(),
            Self::IntOrString => "integer,string",
        }
    }

    /// Returns whether `kind` is allowed.
    pub(super) fn contains(self, kind: Type) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == kind,
            Self::IntOrString => matches!(kind, Type::Integer | Type::String),
        }
    }
}

//! A compiled schema: one node per place where a value may stand.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;
use serde_json::Value;

use super::{PatternBytes, format::Format};

/// What may stand in one place.
///
/// The clauses of `allOf`, `anyOf`, `oneOf` and `not` are nodes too: Kubernetes forbids
/// them to say anything but rules, and the compiler has seen to that.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) types: Types,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,

    /// Unknown fields stay (`x-kubernetes-preserve-unknown-fields`).
    pub(super) open: bool,

    /// A whole Kubernetes object stands here (`x-kubernetes-embedded-resource`).
    pub(super) embedded: bool,

    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: List,
    pub(super) rules: Rules,
}

/// The JSON types that a value may have.
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
    /// Nothing is said: they are pruned, and valid.
    #[default]
    Unsaid,

    /// `additionalProperties: false`.
    Refused,

    /// `additionalProperties: true`.
    Anything,

    /// Each of them is like this.
    Each(Box<Node>),
}

/// What makes two elements of a list the same (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Nothing does.
    #[default]
    Atomic,

    /// Their values.
    Set,

    /// Their values of these fields.
    Map(Vec<String>),
}

/// What a value of the right type must satisfy.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) required: Vec<String>,
    pub(super) one_of_values: Vec<Value>,
    pub(super) format: Option<Format>,
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

/// How many there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// How large or small a number may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// A regular expression, with the words it was written in.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) regex: Regex,
    pub(super) bytes: PatternBytes,
}

// === impl Node ===

impl Node {
    /// The node of the field `name`, however it was declared.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(node) => Some(node),
            Additional::Unsaid | Additional::Refused | Additional::Anything => None,
        })
    }
}

// === impl Type ===

impl Type {
    /// Every type, in the order in which Kubernetes lists them.
    pub(super) const ALL: [Self; 6] = [
        Self::Array,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::Object,
        Self::String,
    ];

    /// Its name in a schema.
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

    /// The type called `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The type of `value`; `null` has none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            // An integer that does not fit 64 bits is a float to Go.
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
    /// The names, as Kubernetes joins them.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(kind) => kind.name(),
            Self::IntOrString => "integer,string",
        }
    }

    /// Whether `kind` is named.
    pub(super) fn contains(self, kind: Type) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == kind,
            Self::IntOrString => matches!(kind, Type::Integer | Type::String),
        }
    }
}

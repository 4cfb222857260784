//! Compiles the JSON of a schema into nodes.
//!
//! One walk builds the tree and collects the errors of the schema. The rules are in [`vocabulary`]
//! and [`structural`].

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    Limits, MAX_NODES, defaults,
    expressions::{self, RuleText},
    format::StringFormat,
    keywords::Keywords,
    node::{Additional, Bound, List, Node, Pattern, Range, Rules, Type, Types},
    pattern, structural,
    value_path::ValuePath,
    vocabulary,
};
use crate::status::FieldError;

/// Compiles `schema`, within the rest of `limits`.
///
/// # Errors
///
/// All errors of the schema, sorted.
pub(super) fn compile(schema: &Value, limits: &mut Limits) -> Result<Node, Vec<FieldError>> {
    let root = ValuePath::root("");
    let mut compiler = Compiler {
        faults: Vec::new(),
        patterns: HashMap::new(),
        expressions: Vec::new(),
        limits,
    };
    let node = compiler.node(schema, &root, Scope::ROOT);
    structural::check_complete(&node, &root, &mut compiler.faults);
    if compiler.faults.is_empty() {
        // A default can be validated only against a valid schema.
        defaults::check(&node, &root, &mut compiler.faults);
    }
    let Compiler {
        mut faults,
        expressions,
        limits,
        ..
    } = compiler;
    if faults.is_empty() && limits.checks_expressions {
        faults = expressions::parse(&expressions, limits);
    }
    if faults.is_empty() {
        return Ok(node);
    }
    faults.sort_by_cached_key(ToString::to_string);
    // Two rules can read one keyword; its wrong type is reported once.
    faults.dedup();
    Err(faults)
}

/// The position of a schema, as far as rules depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) level: Level,

    /// Below `metadata`, `kind` or `apiVersion` of a complete object.
    pub(super) in_meta: bool,

    /// The reason why a default is not allowed here.
    pub(super) no_default: Option<&'static str>,

    /// `anyOf` is "integer or string", which may have types although it is nested.
    names_types: bool,
}

/// The value that a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The object.
    Root,
    /// The elements of a list.
    Item,
    /// A field, or the values of a map.
    Field,
    /// A clause of `allOf`, `anyOf`, `oneOf` or `not`, or below one.
    Nested,
}

/// The errors so far, and the patterns, each of which is compiled once.
#[derive(Debug)]
struct Compiler<'a> {
    faults: Vec<FieldError>,
    patterns: HashMap<String, Result<Arc<Pattern>, String>>,
    expressions: Vec<RuleText>,
    limits: &'a mut Limits,
}

// === impl Scope ===

impl Scope {
    const ROOT: Self = Self {
        level: Level::Root,
        in_meta: false,
        no_default: None,
        names_types: false,
    };

    /// Returns the scope below this one, at `level`. It is nested if this one is.
    fn below(self, level: Level) -> Self {
        let level = if self.level == Level::Nested {
            Level::Nested
        } else {
            level
        };
        Self {
            level,
            names_types: false,
            ..self
        }
    }

    /// Returns the scope of the field `name`, which is a field of a complete object if `whole`.
    fn field(self, name: &str, whole: bool) -> Self {
        let below = self.below(Level::Field);
        let no_default = match name {
            "metadata" => "in top-level metadata",
            "kind" => "in top-level kind",
            "apiVersion" => "in top-level apiVersion",
            _ => return below,
        };
        match self.level {
            Level::Root => Self {
                in_meta: true,
                no_default: Some(no_default),
                ..below
            },
            _ if whole => Self {
                in_meta: true,
                ..below
            },
            _ => below,
        }
    }

    /// Returns the scope of `additionalProperties`.
    fn each(self) -> Self {
        let below = self.below(Level::Field);
        if self.in_meta {
            let why = "inside additionalProperties applying to object metadata";
            Self {
                no_default: Some(why),
                ..below
            }
        } else {
            below
        }
    }
}

// === impl Compiler ===

impl Compiler<'_> {
    fn node(&mut self, schema: &Value, at: &ValuePath<'_>, scope: Scope) -> Node {
        let Some(words) = Keywords::read(schema, at, &mut self.faults) else {
            return Node::default();
        };
        if !self.limits.take_node() {
            // Reported once: the rest of the schema is not checked.
            if !std::mem::replace(&mut self.limits.is_exceeded, true) {
                let why =
                    format!("the schemas of a definition may have {MAX_NODES} nodes in total");
                self.faults.push(FieldError::forbidden(at.to_string(), why));
            }
            return Node::default();
        }
        let faults = &mut self.faults;
        let types = if words.flag("x-kubernetes-int-or-string", faults) {
            Types::IntOrString
        } else {
            let named = words.text("type", faults).and_then(Type::named);
            named.map_or(Types::Any, Types::One)
        };
        let mut node = Node {
            types,
            nullable: words.flag("nullable", faults),
            default: words.raw("default").cloned(),
            open: words.flag("x-kubernetes-preserve-unknown-fields", faults),
            embedded: words.flag("x-kubernetes-embedded-resource", faults),
            list: list(&words, faults),
            ..Node::default()
        };
        let rules = expressions::check(&words, at, schema, faults);
        self.expressions.extend(rules);
        let faults = &mut self.faults;
        vocabulary::check(&words, at, scope, faults);
        match scope.level {
            Level::Nested if scope.names_types => {}
            Level::Nested => structural::check_nested(&words, at, faults),
            level => structural::check(&words, at, level, faults),
        }
        self.below(&mut node, &words, at, scope);
        node.rules = self.rules(&words, types, at, scope);
        node
    }

    /// Compiles the schemas of fields, items and values.
    fn below(&mut self, node: &mut Node, words: &Keywords<'_>, at: &ValuePath<'_>, scope: Scope) {
        if let Some(properties) = words.entries("properties", &mut self.faults) {
            let all = at.child("properties");
            for (name, schema) in properties {
                let scope = scope.field(name, node.embedded);
                let field = self.node(schema, &all.key(name), scope);
                node.properties.insert(name.clone(), field);
            }
        }
        node.additional = match words.raw("additionalProperties") {
            None => Additional::Unsaid,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(Value::Bool(false)) => Additional::Refused,
            Some(schema) => {
                let at = at.child("additionalProperties");
                Additional::Each(Box::new(self.node(schema, &at, scope.each())))
            }
        };
        // `vocabulary` rejects a list of schemas.
        if let Some(schema) = words.raw("items").filter(|schema| !schema.is_array()) {
            let items = self.node(schema, &at.child("items"), scope.below(Level::Item));
            node.items = Some(Box::new(items));
        }
    }

    fn rules(
        &mut self,
        words: &Keywords<'_>,
        types: Types,
        at: &ValuePath<'_>,
        scope: Scope,
    ) -> Rules {
        let nested = Scope {
            level: Level::Nested,
            names_types: false,
            ..scope
        };
        let any_of = words.list("anyOf", &mut self.faults);
        let all_of = words.list("allOf", &mut self.faults);
        let any_names_types = scope.level != Level::Nested || scope.names_types;
        let any = Scope {
            names_types: any_names_types && structural::is_int_or_string(any_of),
            ..nested
        };
        let faults = &mut self.faults;
        let rules = Rules {
            required: words.texts("required", faults),
            one_of_values: words.list("enum", faults).to_vec(),
            format: words
                .text("format", faults)
                .and_then(|name| StringFormat::named(name, types)),
            length: range(words, "minLength", "maxLength", faults),
            items: range(words, "minItems", "maxItems", faults),
            unique: words.flag("uniqueItems", faults),
            properties: range(words, "minProperties", "maxProperties", faults),
            minimum: bound(words, "minimum", "exclusiveMinimum", faults),
            maximum: bound(words, "maximum", "exclusiveMaximum", faults),
            multiple_of: words.number("multipleOf", faults),
            pattern: self.pattern(words, at),
            ..Rules::default()
        };
        Rules {
            all_of: self.all_of(all_of, at, nested),
            any_of: self.clauses("anyOf", any_of, at, any),
            one_of: {
                let one_of = words.list("oneOf", &mut self.faults);
                self.clauses("oneOf", one_of, at, nested)
            },
            not: words
                .raw("not")
                .map(|schema| Box::new(self.node(schema, &at.child("not"), nested))),
            ..rules
        }
    }

    fn clauses(
        &mut self,
        keyword: &str,
        schemas: &[Value],
        at: &ValuePath<'_>,
        scope: Scope,
    ) -> Vec<Node> {
        let all = at.child(keyword);
        let clause = |(i, schema)| self.node(schema, &all.index(i), scope);
        schemas.iter().enumerate().map(clause).collect()
    }

    /// Compiles `allOf`, whose first clause may be "integer or string".
    fn all_of(&mut self, schemas: &[Value], at: &ValuePath<'_>, nested: Scope) -> Vec<Node> {
        let all = at.child("allOf");
        let clause = |(i, schema): (usize, &Value)| {
            let mut node = self.node(schema, &all.index(i), nested);
            let spelled = schema.get("anyOf").and_then(Value::as_array);
            if i == 0 && spelled.is_some_and(|any_of| structural::is_int_or_string(any_of)) {
                // The types were rejected as in any nested schema; here they are allowed.
                let allowed = all.index(0).child("anyOf").to_string();
                self.faults
                    .retain(|fault| !fault.path.starts_with(&allowed));
                node.types = Types::Any;
            }
            node
        };
        schemas.iter().enumerate().map(clause).collect()
    }

    fn pattern(&mut self, words: &Keywords<'_>, at: &ValuePath<'_>) -> Option<Arc<Pattern>> {
        let text = words.text("pattern", &mut self.faults)?;
        if text.len() > pattern::MAX_LENGTH {
            let path = at.child("pattern").to_string();
            self.faults
                .push(FieldError::too_long(path, pattern::MAX_LENGTH));
            return None;
        }
        let compiled = self
            .patterns
            .entry(text.to_owned())
            .or_insert_with(|| Pattern::new(text, self.limits).map(Arc::new));
        match compiled {
            Ok(pattern) => Some(pattern.clone()),
            Err(error) => {
                self.faults.push(FieldError::invalid(
                    at.child("pattern").to_string(),
                    &text.into(),
                    format!("must be a valid regular expression, but isn't: {error}"),
                ));
                None
            }
        }
    }
}

fn list(words: &Keywords<'_>, faults: &mut Vec<FieldError>) -> List {
    match words.text("x-kubernetes-list-type", faults) {
        Some("set") => List::Set,
        Some("map") => List::Map(words.texts("x-kubernetes-list-map-keys", faults)),
        // `vocabulary` rejects other texts.
        _ => List::Atomic,
    }
}

fn range(words: &Keywords<'_>, least: &str, most: &str, faults: &mut Vec<FieldError>) -> Range {
    Range {
        least: words.count(least, faults),
        most: words.count(most, faults),
    }
}

fn bound(
    words: &Keywords<'_>,
    limit: &str,
    exclusive: &str,
    faults: &mut Vec<FieldError>,
) -> Option<Bound> {
    let exclusive = words.flag(exclusive, faults);
    words
        .number(limit, faults)
        .map(|value| Bound { value, exclusive })
}

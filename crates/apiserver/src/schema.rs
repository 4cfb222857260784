//! The schema of a custom resource: prunes unknown fields, sets defaults, and validates.
//!
//! The `openAPIV3Schema` of a CRD is compiled once, when the CRD is registered, into a tree of nodes
//! with compiled patterns and formats. Each write walks the tree and the object together. An object
//! is processed in three steps, in the order of kube-apiserver:
//!
//! | step | effect | module |
//! |--|--|--|
//! | [`prune`](Schema::prune) | drops unknown fields, and returns their paths | `schema/prune` |
//! | [`default`](Schema::default) | drops `null`s that are not allowed, and sets defaults | `schema/defaults` |
//! | [`validate`](Schema::validate) | returns every error with the message of Kubernetes | `schema/validate`, `schema/lists`, `schema/embedded` |
//!
//! `schema/vocabulary` and `schema/structural` validate a schema itself.
//!
//! # Not supported
//!
//! The CEL rules of `x-kubernetes-validations` are parsed when a definition is written, and not
//! evaluated: an object that only violates such a rule is accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::Value;

pub(crate) use self::defaults::DefaultsTooLarge;
use crate::status::FieldError;

mod compile;
mod defaults;
mod embedded;
mod expressions;
mod format;
mod keywords;
mod lists;
mod node;
mod number;
mod pattern;
mod prune;
mod structural;
mod validate;
mod value_path;
mod vocabulary;

pub(crate) use self::format::is_go_duration;
pub(crate) use self::number::write_whole;

#[cfg(test)]
mod tests;

/// A compiled structural schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    root: node::Node,
    /// Whether an object can contain embedded objects.
    has_embedded: bool,
}

/// The memory for the compiled patterns of one server. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PatternMemory {
    /// The number of bytes that are left.
    left: Arc<AtomicUsize>,
}

/// A part of the memory for patterns, which is released when the value is dropped.
#[derive(Debug)]
struct PatternBytes {
    bytes: usize,
    memory: PatternMemory,
}

/// The limits of all schemas of one definition: a definition of a few kilobytes must not take
/// gigabytes of memory, nor block other requests for seconds.
#[derive(Debug)]
pub(crate) struct Limits {
    /// The memory from which compiled patterns take their bytes while they exist.
    memory: PatternMemory,
    /// The number of bytes that are left for compiled patterns.
    patterns: usize,
    /// The number of nodes that are left.
    nodes: usize,
    /// The number of bytes of CEL that are left.
    expressions: usize,
    /// Whether the syntax of CEL is checked: once, when a definition is written.
    checks_expressions: bool,
    /// Whether the error about too many nodes has been reported.
    is_exceeded: bool,
}

/// The maximum size of the compiled patterns of a definition, in bytes. The Gateway API, which has
/// the most and the longest patterns of the tested definitions, takes a part of it.
const MAX_PATTERNS: usize = 32 << 20;

/// The maximum size of the compiled patterns of a server, in bytes: eight definitions with the
/// maximum size, or 8,000 patterns of usual size.
const MAX_SERVER_PATTERNS: usize = 256 << 20;

/// The maximum number of nodes of the schemas of a definition. The largest published definitions have
/// 20,000; a node takes about 512 bytes.
const MAX_NODES: usize = 100_000;

// === impl PatternMemory ===

impl PatternMemory {
    fn new(bytes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
        }
    }

    /// Takes `bytes`; `None` if fewer are left.
    fn take(&self, bytes: usize) -> Option<PatternBytes> {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Relaxed, Relaxed, take);
        taken.ok().map(|_| PatternBytes {
            bytes,
            memory: self.clone(),
        })
    }
}

impl Default for PatternMemory {
    fn default() -> Self {
        Self::new(MAX_SERVER_PATTERNS)
    }
}

// === impl PatternBytes ===

impl Drop for PatternBytes {
    fn drop(&mut self) {
        self.memory.left.fetch_add(self.bytes, Relaxed);
    }
}

// === impl Limits ===

impl Limits {
    /// Returns the limits of one definition, on a server with this memory.
    pub(crate) fn new(memory: PatternMemory) -> Self {
        Self {
            memory,
            patterns: MAX_PATTERNS,
            nodes: MAX_NODES,
            expressions: expressions::MAX_TOTAL,
            checks_expressions: false,
            is_exceeded: false,
        }
    }

    /// Returns the same limits for a definition whose CEL rules have not been parsed yet.
    pub(crate) fn with_expressions(self) -> Self {
        Self {
            checks_expressions: true,
            ..self
        }
    }

    fn take_node(&mut self) -> bool {
        match self.nodes.checked_sub(1) {
            Some(left) => {
                self.nodes = left;
                true
            }
            None => false,
        }
    }
}

// === impl Schema ===

impl Schema {
    /// Compiles the schema of one version of a CRD, within the rest of `limits`, which all versions
    /// share.
    ///
    /// Unknown keywords are ignored, as when Kubernetes decodes a CRD. Keywords of JSON Schema that
    /// Kubernetes forbids, such as `$ref`, are rejected.
    ///
    /// # Errors
    ///
    /// All errors that Kubernetes reports, sorted: for example, the schema is not structural, a
    /// pattern does not compile, or a default violates the schema.
    ///
    /// The paths begin at the schema, as in `properties[spec].type`. The caller adds the path of the
    /// schema, which is `spec.validation.openAPIV3Schema` if all versions of a CRD have the same
    /// schema, and else for example `spec.versions[0].schema.openAPIV3Schema`.
    pub(crate) fn compile_within(
        openapi_v3_schema: &Value,
        limits: &mut Limits,
    ) -> Result<Self, Vec<FieldError>> {
        let root = compile::compile(openapi_v3_schema, limits)?;
        Ok(Self {
            has_embedded: embedded::occurs(&root),
            root,
        })
    }

    /// Compiles the only schema of a CRD.
    #[cfg(test)]
    pub(crate) fn compile(openapi_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let mut limits = Limits::new(PatternMemory::default()).with_expressions();
        Self::compile_within(openapi_v3_schema, &mut limits)
    }

    /// Converts the metadata of the embedded objects of `object` to its stored form. Returns the paths
    /// of the dropped fields.
    ///
    /// # Errors
    ///
    /// An `apiVersion`, a `kind` or a field of the metadata of the wrong type.
    pub(crate) fn decode_embedded(&self, object: &mut Value) -> Result<Vec<String>, FieldError> {
        let mut unknown = Vec::new();
        if self.has_embedded {
            embedded::decode(
                &self.root,
                object,
                &value_path::ValuePath::root(""),
                &mut unknown,
            )?;
        }
        Ok(unknown)
    }

    /// Drops every field of `object` that the schema does not define.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object and of embedded objects are not changed.
    /// Pruning is idempotent.
    ///
    /// Returns the paths of the dropped fields, such as `spec.rules[0].colour`, sorted:
    /// `fieldValidation` `Strict` and `Warn` report them.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune_object(&self.root, object)
    }

    /// Sets the defaults of the missing fields of `object`.
    ///
    /// A field is missing if it is absent, or `null` and not `nullable`. Defaults within an object
    /// are set if this object exists or is itself a default. A `null` that is neither allowed nor
    /// replaced by a default is dropped.
    ///
    /// # Errors
    ///
    /// [`DefaultsTooLarge`] if the defaults would take too much memory. Then only some are set.
    pub(crate) fn default(&self, object: &mut Value) -> Result<(), DefaultsTooLarge> {
        defaults::drop_nulls(&self.root, object);
        self.fill(object)
    }

    /// Returns whether `object` has a `null` that [`default`](Self::default) removes.
    pub(crate) fn drops_nulls(&self, object: &Value) -> bool {
        defaults::has_dropped_nulls(&self.root, object)
    }

    /// Returns whether the top-level field called `name` has a default.
    pub(crate) fn has_default(&self, name: &str) -> bool {
        let field = self.root.properties.get(name);
        field.is_some_and(|field| field.default.is_some())
    }

    /// Sets the defaults of the missing fields of `object`, and drops no `null`: validation rejects
    /// the remaining ones. An apply does this, as on the real server.
    ///
    /// # Errors
    ///
    /// As for [`default`](Self::default).
    pub(crate) fn fill(&self, object: &mut Value) -> Result<(), DefaultsTooLarge> {
        defaults::fill(&self.root, object, &mut defaults::Budget::new())
    }

    /// Returns every violation of the schema in `object`, except in parts that are equal to the same
    /// parts of `old`.
    ///
    /// The errors are in the order of the fields. Errors of `anyOf`, `oneOf`, `allOf`, `not` and of
    /// number ranges have the path `<nil>`, as in Kubernetes.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = validate::validate(&self.root, object, "", old);
        check_shapes(&self.root, object, "", old, &mut faults);
        faults
    }

    /// Returns every violation of the schema in the `status` of `object`, except in parts that are
    /// equal to the same parts of `old`.
    ///
    /// A write to the `status` subresource is validated with this. The rest of the object is not
    /// checked.
    pub(crate) fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let (Some(status), Some(node)) = (object.get("status"), self.root.field("status")) else {
            return Vec::new();
        };
        let old = old.and_then(|old| old.get("status"));
        let mut faults = validate::validate(node, status, "status", old);
        check_shapes(node, status, "status", old, &mut faults);
        faults
    }
}

/// Checks embedded objects, and lists that are sets or maps. If a list of the old value has duplicates,
/// no list is checked.
fn check_shapes(
    node: &node::Node,
    value: &Value,
    root: &str,
    old: Option<&Value>,
    faults: &mut Vec<FieldError>,
) {
    let root = value_path::ValuePath::root(root);
    embedded::check(node, value, &root, faults);
    let mut found = Vec::new();
    lists::check(node, value, &root, &mut found);
    if let (false, Some(old)) = (found.is_empty(), old) {
        let mut before = Vec::new();
        lists::check(node, old, &root, &mut before);
        if !before.is_empty() {
            return;
        }
    }
    faults.extend(found);
}

//! Custom resources through the client of kube: registration, pruning, defaults, validation,
//! tables.

// Helpers.
mod gadget;

#[path = "../support/mod.rs"]
mod support;

// A definition, its objects, and how they look.
mod definition;

mod schema;

mod table;

type TestResult = Result<(), Box<dyn std::error::Error>>;

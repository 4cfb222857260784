//! The types of the built-in kinds, as in Go. *(pure)*
//!
//! `cargo xtask openapi` generates a table of the fields of each type. A body is decoded with this
//! table like in Go: a field of the wrong type causes Go's error, unknown fields are dropped and
//! reported, and defaults are filled in. The result is the JSON that Go writes for the object,
//! with its empty objects and `null`s.
//!
//! # Guarantees
//!
//! - Each type is parsed when an object first has it, and none when a server starts.
//! - Decoding is idempotent.
//! - Memory is bounded by that of the body: what is filled in is bounded by the number of
//!   objects that the body has.

mod convert;
mod decode;
mod defaults;
mod image;
mod merge;
mod quantity;
mod table;
mod validate;

pub(crate) use self::convert::convert;
pub(crate) use self::decode::{decode, empty, zero_member};
pub(crate) use self::merge::merge_duplicates;
pub(crate) use self::quantity::Quantity;
pub(crate) use self::table::{Empty, Field, FieldType, ListKind, Struct, kind, kinds, named};
pub(crate) use self::validate::{
    conversion_client, invalid_certificate, is_external, validate, validate_new, validate_status,
    validate_update, warnings,
};

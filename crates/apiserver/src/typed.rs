//! The types of the built-in kinds, as Go has them. *(pure)*
//!
//! A table that `cargo xtask openapi` generates says which fields each type has. By it a body
//! is decoded as a Go program decodes it: a field of the wrong type is an error in Go's words,
//! unknown fields are dropped and named, defaults are filled in, and what remains is the JSON
//! that Go writes for the object, with its empty objects and `null`s.
//!
//! # Guarantees
//!
//! - Nothing is read when a server starts. Each type is read when an object first has it.
//! - Decoding a decoded object changes nothing.
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
    conversion_client, invalid_certificate, is_external, validate, validate_new, validate_update,
};

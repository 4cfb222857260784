//! A parsed request before its kind is resolved: its URL, query, headers and body.

mod accept;
mod document;
mod duration;
mod field_order;
mod log;
mod options;
mod path;
mod query;
pub(crate) mod yaml;

pub(crate) use accept::{Accept, Encoding, Format, Presentation, check_include_object};
pub(crate) use document::Document;
pub(crate) use duration::parse as parse_duration;
pub(crate) use field_order::FieldOrder;
pub(crate) use log::LogOptions;
pub(crate) use options::{
    DeleteOptions, ListOptions, Propagation, UnknownFields, VersionMatch, WriteKind, WriteOptions,
    read_version, resource_version,
};
pub(crate) use path::{ResourcePath, Target};
pub(crate) use query::Query;

//! A request, before anything is known about kinds: what its URL, its query, its headers
//! and its body say.

mod accept;
mod options;
mod path;
mod query;

pub(crate) use accept::{Accept, Encoding, Format, Presentation};
pub(crate) use options::{
    DeleteOptions, ListOptions, UnknownFields, VersionMatch, WriteOptions, read_version,
    resource_version,
};
pub(crate) use path::{Place, Target};
pub(crate) use query::Query;

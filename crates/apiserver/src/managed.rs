//! Server-side apply: which manager owns which fields of an object, and what an applied
//! configuration changes. *(pure)*
//!
//! Each object carries in `metadata.managedFields` a set of field paths for each manager that
//! has written to it. A write that is no apply gives the fields that it changes to its manager
//! ([`track`]). An apply merges a configuration into the object ([`apply`]): it owns what the
//! configuration names, conflicts with other managers over fields that it changes, and removes
//! fields that its last configuration named and that no other manager owns.
//!
//! | module | holds |
//! |--|--|
//! | `path`, `set`, `fields_v1` | a path of a field, sets of them, and their form as JSON |
//! | `types` | which lists are sets or maps and which objects are atomic, for each kind |
//! | `walk`, `owned`, `compare`, `merge`, `remove`, `check` | walks over a value and its type |
//! | `entries` | `metadata.managedFields`, read and written |
//! | `track`, `apply` | the two kinds of write |
//! | `created` | the fields of a new object |
//! | `scale` | the owners of the number of replicas, for applies to a scale |
//!
//! Source: structured-merge-diff v6 and apimachinery `pkg/util/managedfields` v0.36, for what
//! is owned, merged and removed.

mod apply;
mod check;
mod compare;
mod created;
mod entries;
mod fields_v1;
mod last_applied;
mod merge;
mod owned;
mod path;
mod remove;
mod scale;
mod set;
mod track;
mod types;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use apply::{apply, object_words};
pub(crate) use check::{go_type, shown};
pub(crate) use entries::{expand, same_but_for_times, write as write_entries};
pub(crate) use scale::{entries_of_object, entries_of_scale};
pub(crate) use track::track;
pub(crate) use types::{Shape, Types, builtin};

use set::Set;

/// The properties of a write that decide about ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    /// The manager: the `fieldManager`, or the first part of the `User-Agent`.
    pub(crate) manager: &'a str,
    /// The version in which the object is written, such as `apps/v1`.
    pub(crate) api_version: &'a str,
    /// The kind of the object.
    pub(crate) kind: &'a str,
    /// The subresource that is written to, or nothing.
    pub(crate) subresource: &'a str,
    /// The time of the write, as objects carry it.
    pub(crate) now: &'a str,
    /// The fields that this write cannot change, as `/status` cannot change the spec. The
    /// write gives no manager ownership of them.
    pub(crate) ignored: &'a [&'a [&'a str]],
}

/// The types of an object in the versions in which its fields may be owned.
pub(crate) trait Versions {
    /// The type of the object in `api_version`; nothing if that is not served.
    fn shape(&self, api_version: &str) -> Option<Shape<'_>>;
}

impl Write<'_> {
    /// The fields that this write cannot change, as a set.
    fn ignored(&self) -> Set {
        let mut set = Set::default();
        for path in self.ignored {
            set.insert_fields(path);
        }
        set
    }
}

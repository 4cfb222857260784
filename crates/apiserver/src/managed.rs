//! Server-side apply: which manager owns which fields of an object, and what an applied
//! configuration changes. *(pure)*
//!
//! `metadata.managedFields` of an object contains a set of field paths for each manager that has
//! written to it. A create, update or patch makes its manager the owner of the fields that it
//! changes ([`track`]). An apply merges a configuration into the object ([`apply`]): its manager
//! owns the fields of the configuration, conflicts with the other owners of fields that it changes,
//! and removes the fields of its last configuration that no other manager owns.
//!
//! | module | holds |
//! |--|--|
//! | `path`, `set`, `fields_v1` | a path of a field, sets of them, and their form as JSON |
//! | `types` | for each kind: which lists are sets or maps, and which objects are atomic |
//! | `walk`, `owned`, `compare`, `merge`, `remove`, `check` | walks over a value and its type |
//! | `entries` | `metadata.managedFields`, read and written |
//! | `track`, `apply` | the two kinds of write |
//! | `created` | the fields of a new object |
//! | `scale` | the owners of the number of replicas, for applies to a scale |
//!
//! Source: structured-merge-diff v6 and apimachinery `pkg/util/managedfields` v0.36.

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

/// The properties of a write that determine ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    /// The manager: the `fieldManager`, or the first part of the `User-Agent`.
    pub(crate) manager: &'a str,
    /// The version in which the object is written, such as `apps/v1`.
    pub(crate) api_version: &'a str,
    /// The kind of the object.
    pub(crate) kind: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The time of the write, in the format of objects.
    pub(crate) now: &'a str,
    /// The fields that this write cannot change, such as the spec for a write to `/status`. It
    /// changes no ownership of them.
    pub(crate) ignored: &'a [&'a [&'a str]],
}

/// The types of an object in the versions in which its fields may be owned.
pub(crate) trait Versions {
    /// Returns the type of the object in `api_version`; `None` if the version is not served.
    fn shape(&self, api_version: &str) -> Option<Shape<'_>>;
}

impl Write<'_> {
    /// Returns the fields that this write cannot change, as a set.
    fn ignored(&self) -> Set {
        let mut set = Set::default();
        for path in self.ignored {
            set.insert_fields(path);
        }
        set
    }
}

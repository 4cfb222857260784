//! The resource that an error response is about.

use serde_json::{Map, Value};

/// The resource that an error response is about, with the names that the message contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// The API group; empty for the core group.
    pub(crate) group: &'a str,
    /// The plural name of the resource.
    pub(crate) resource: &'a str,
    /// The kind of its objects.
    pub(crate) kind: &'a str,
    /// The name of the object; can be empty.
    pub(crate) name: &'a str,
}

// === impl About ===

impl About<'_> {
    /// Returns `widgets.ex.io`, or `pods` in the core group.
    pub(crate) fn qualified_resource(&self) -> String {
        qualified(self.resource, self.group)
    }

    /// Returns `Widget.ex.io`, or `Pod` in the core group.
    pub(super) fn qualified_kind(&self) -> String {
        qualified(self.kind, self.group)
    }

    pub(super) fn details(&self, kind: &str) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        details
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

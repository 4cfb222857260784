//! Positions in a schema or an object, kept on the stack and written only on error.

use std::fmt;

/// A path, one step per stack frame.
///
/// Walking a valid object allocates no memory for paths: a [`ValuePath`] borrows its parent, and is
/// written only in an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValuePath<'a> {
    parent: Option<&'a ValuePath<'a>>,
    step: PathSegment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum PathSegment<'a> {
    /// The beginning as text; empty for the root of an object.
    Root(&'a str),

    /// `.name`
    Child(&'a str),

    /// `[name]`
    Key(&'a str),

    /// `[3]`
    Index(usize),
}

// === impl ValuePath ===

impl<'a> ValuePath<'a> {
    /// Creates a path that begins with `words`.
    pub(super) const fn root(words: &'a str) -> Self {
        Self {
            parent: None,
            step: PathSegment::Root(words),
        }
    }

    /// Returns the path of the field `name`.
    pub(super) const fn child(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: PathSegment::Child(name),
        }
    }

    /// Returns the path of the entry `name` of a map.
    pub(super) const fn key(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: PathSegment::Key(name),
        }
    }

    /// Returns the path of the element `index` of a list.
    pub(super) const fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: PathSegment::Index(index),
        }
    }

    /// Returns whether the path is empty.
    fn is_empty(&self) -> bool {
        matches!(self.step, PathSegment::Root(""))
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return match self.step {
                PathSegment::Root(words) => f.write_str(words),
                // Only `root` creates a place without a parent.
                PathSegment::Child(_) | PathSegment::Key(_) | PathSegment::Index(_) => Ok(()),
            };
        };
        parent.fmt(f)?;
        match self.step {
            PathSegment::Root(_) => Ok(()),
            PathSegment::Child(name) if parent.is_empty() => f.write_str(name),
            PathSegment::Child(name) => write!(f, ".{name}"),
            PathSegment::Key(name) => write!(f, "[{name}]"),
            PathSegment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ValuePath;

    #[test]
    fn a_path_is_displayed_as_in_kubernetes() {
        let root = ValuePath::root("");
        let spec = root.child("spec");
        let list = spec.child("rules");
        let rule = list.index(2);
        assert_eq!(rule.child("path").to_string(), "spec.rules[2].path");
        assert_eq!(spec.key("a.b/c").to_string(), "spec[a.b/c]");
        assert_eq!(root.to_string(), "");
        assert_eq!(
            ValuePath::root("spec.validation").child("type").to_string(),
            "spec.validation.type"
        );
    }
}

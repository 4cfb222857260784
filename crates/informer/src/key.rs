//! Identities of objects: namespace and name, and the uid that tells a recreated object apart.

mod namespaces;

use std::{borrow::Cow, fmt, sync::Arc};

use kube::Resource;

pub(crate) use self::namespaces::Namespaces;
use crate::message::one_line_of;

/// The maximum length of a displayed name, namespace or uid, in characters: that of a DNS
/// subdomain, which the names of most kinds are.
const LONGEST: usize = 253;

/// The namespace and the name of an object. Unique among the objects of a kind that exist at the
/// same time.
///
/// Cloning a key increments two reference counts and allocates nothing.
///
/// Displays as `namespace/name`, or as `name` if the kind has no namespaces, like the keys of
/// client-go. A displayed key is always one line of bounded length, so it can be logged: control
/// characters and line breaks become spaces, and a part of more than 253 characters is cut. Names
/// of kinds like `ClusterRole` may contain both. To tell such objects apart, compare keys, or use
/// [`namespace`](Self::namespace) and [`name`](Self::name), which are not changed.
///
/// # Example
///
/// ```
/// use windlass_informer::ObjectKey;
///
/// assert_eq!(ObjectKey::new("web").within("shop").to_string(), "shop/web");
/// assert_eq!(ObjectKey::new("node-1").to_string(), "node-1");
/// assert_eq!(ObjectKey::new("a\nb").to_string(), "a b");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

/// The uid of an object. An object that is deleted and created again under the same name has a
/// different uid.
///
/// Displays as one line of at most 253 characters. A uid of an API server has 36.
///
/// # Example
///
/// ```
/// use windlass_informer::Uid;
///
/// assert_eq!(Uid::from("a-b").as_str(), "a-b");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Arc<str>);

/// An object whose identity is known without decoding it.
///
/// Every [`Resource`] implements it.
pub trait ObjectIdentity {
    /// The namespace, or `None` if the kind has no namespaces.
    fn namespace(&self) -> Option<&str>;

    /// The name. Empty if the object has none.
    fn name(&self) -> &str;

    /// The uid, or `None` if no API server has assigned one.
    fn uid(&self) -> Option<&str>;

    /// The `resourceVersion` of this state.
    fn resource_version(&self) -> Option<&str>;

    /// The namespace and the name.
    fn key(&self) -> ObjectKey {
        ObjectKey::in_namespace(self.name(), self.namespace())
    }
}

/// Implements [`ObjectIdentity`] for a type as the identity of one of its fields.
macro_rules! identity_of {
    ([$($generics:tt)*] $type:ty, $field:ident) => {
        impl<$($generics)*> ObjectIdentity for $type {
            fn namespace(&self) -> Option<&str> {
                self.$field.namespace()
            }

            fn name(&self) -> &str {
                self.$field.name()
            }

            fn uid(&self) -> Option<&str> {
                self.$field.uid()
            }

            fn resource_version(&self) -> Option<&str> {
                self.$field.resource_version()
            }

            fn key(&self) -> ObjectKey {
                self.$field.key()
            }
        }
    };
}
pub(crate) use identity_of;

// === impl ObjectKey ===

impl ObjectKey {
    /// Creates a key without a namespace. [`within`](Self::within) adds one.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// Creates a key with `namespace`, or without one.
    #[doc(hidden)]
    pub fn in_namespace(name: impl Into<Arc<str>>, namespace: Option<impl Into<Arc<str>>>) -> Self {
        Self {
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }

    /// Returns the key with `namespace`.
    #[must_use]
    pub fn within(self, namespace: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// Returns the key of `object`. An object without a name has an empty name.
    pub fn of<K: ObjectIdentity>(object: &K) -> Self {
        object.key()
    }

    /// Returns the same key with a namespace that shares its memory with all other keys in
    /// `namespaces`.
    pub(crate) fn shared(self, namespaces: &Namespaces) -> Self {
        let namespace = self.namespace.map(|name| namespaces.share(&name));
        Self { namespace, ..self }
    }

    /// The namespace, or `None` if the kind has no namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Splits the key into its shared namespace and name.
    ///
    /// ```
    /// use windlass_informer::ObjectKey;
    ///
    /// let (namespace, name) = ObjectKey::new("web").within("shop").into_parts();
    /// assert_eq!((namespace.as_deref(), &*name), (Some("shop"), "web"));
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn into_parts(self) -> (Option<Arc<str>>, Arc<str>) {
        (self.namespace, self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{}", shown(namespace), shown(&self.name)),
            None => f.write_str(&shown(&self.name)),
        }
    }
}

// === impl Uid ===

impl Uid {
    /// Returns the uid of `object`, or `None` if no API server has assigned one.
    pub fn of<K: ObjectIdentity>(object: &K) -> Option<Self> {
        object.uid().map(Self::from)
    }

    /// The uid as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self(Arc::from(uid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

// === impl ObjectIdentity ===

impl<K: Resource> ObjectIdentity for K {
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn resource_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

/// Text of a server for logs.
fn shown(text: &str) -> Cow<'_, str> {
    one_line_of(LONGEST, text)
}

#[cfg(test)]
mod tests {
    use super::{ObjectKey, Uid};

    #[test]
    fn a_displayed_key_or_uid_is_one_line_of_bounded_length() {
        let long = ObjectKey::new("n".repeat(254)).within("s".repeat(254));
        let cut = |char: &str| format!("{}…", char.repeat(253));
        assert_eq!(long.to_string(), format!("{}/{}", cut("s"), cut("n")));
        assert_eq!(Uid::from(&*"u".repeat(254)).to_string(), cut("u"));

        let broken = ObjectKey::new("a\r\nb").within("c\u{2028}d\u{1b}");
        assert_eq!(broken.to_string(), "c d /a  b");
        assert_eq!(Uid::from("a\nb").to_string(), "a b");
        assert_eq!(
            (broken.name(), Uid::from("a\nb").as_str()),
            ("a\r\nb", "a\nb")
        );
    }

    #[test]
    fn the_longest_valid_key_is_displayed_in_full() {
        let (namespace, name) = ("s".repeat(63), "n".repeat(253));
        let key = ObjectKey::new(&*name).within(&*namespace);
        assert_eq!(key.to_string(), format!("{namespace}/{name}"));
    }
}

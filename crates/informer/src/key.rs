//! Keys of objects: namespace and name, and the uid that tells a recreated object apart.

mod namespaces;

use std::{fmt, sync::Arc};

pub(crate) use self::namespaces::Namespaces;
use crate::ObjectIdentity;

/// The namespace and the name of an object. Unique among the objects of a kind that exist at the
/// same time.
///
/// Cloning a key increments two reference counts and allocates nothing.
///
/// Displays as `namespace/name`, or as `name` if the kind has no namespaces, like the keys of
/// client-go.
///
/// # Example
///
/// ```
/// use windlass_informer::ObjectKey;
///
/// assert_eq!(ObjectKey::new("web").within("shop").to_string(), "shop/web");
/// assert_eq!(ObjectKey::new("node-1").to_string(), "node-1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

/// The uid of an object. An object that is deleted and created again under the same name has a
/// different uid.
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

// === impl ObjectKey ===

impl ObjectKey {
    /// Creates a key without a namespace. [`within`](Self::within) adds one.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: None,
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
    #[must_use]
    pub fn into_parts(self) -> (Option<Arc<str>>, Arc<str>) {
        (self.namespace, self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
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
        f.write_str(&self.0)
    }
}

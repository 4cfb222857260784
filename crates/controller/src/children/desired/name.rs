//! The namespace and name of a desired child. *(pure)*

use serde_json::{Map, Value};
use windlass_informer::ObjectKey;

use crate::children::{ChildKind, InvalidChild, Parent};

/// The name of a child: the one that was `set`, the one in its metadata, or that of its parent.
pub(super) fn name(
    set: Option<&str>,
    metadata: Option<&Map<String, Value>>,
    parent: &Parent,
) -> String {
    let given = || metadata?.get("name").and_then(Value::as_str);
    let name = set.or_else(given).unwrap_or(parent.key.name());
    name.to_owned()
}

/// The key of a child called `name`.
pub(super) fn key(
    name: &str,
    metadata: &Map<String, Value>,
    parent: &Parent,
    kind: &ChildKind,
) -> Result<ObjectKey, InvalidChild> {
    let key = ObjectKey::new(check_name("name", name)?);
    Ok(match namespace(metadata, parent, kind)? {
        Some(namespace) => key.within(check_name("namespace", &namespace)?),
        None => key,
    })
}

/// The namespace of a child: the one that it names, or that of its parent.
fn namespace(
    metadata: &Map<String, Value>,
    parent: &Parent,
    kind: &ChildKind,
) -> Result<Option<String>, InvalidChild> {
    let named = match metadata.get("namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(namespace)) => Some(namespace.clone()),
        Some(other) => {
            return Err(InvalidChild::InvalidName {
                field: "namespace",
                value: other.to_string(),
            });
        }
    };
    if kind.is_cluster_scoped {
        return match named {
            None => Ok(None),
            Some(namespace) => Err(InvalidChild::UnexpectedNamespace { namespace }),
        };
    }
    let namespace = named.or_else(|| parent.key.namespace().map(str::to_owned));
    namespace.map(Some).ok_or(InvalidChild::NoNamespace)
}

/// Refuses a name that would change the path of a request. The API server checks the rest.
fn check_name<'a>(field: &'static str, value: &'a str) -> Result<&'a str, InvalidChild> {
    let is_visible = |char: char| char.is_ascii_graphic() && !"/%?#\\\"<>`{}^|".contains(char);
    let is_valid = !matches!(value, "" | "." | "..") && value.chars().all(is_visible);
    if is_valid {
        return Ok(value);
    }
    Err(InvalidChild::InvalidName {
        field,
        value: windlass_informer::one_line(value).into_owned(),
    })
}

//! The finalizers that keep an object that is being deleted, read from its JSON. *(pure)*

use serde::{Deserialize, de::IgnoredAny};

use crate::message::one_line;

/// Returns the finalizers of the object in `json` if it is being deleted, each as one line. Empty
/// otherwise, and if they cannot be read.
pub(crate) fn pending_finalizers(json: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: Option<IgnoredAny>,
        #[serde(default)]
        finalizers: Option<Vec<String>>,
    }

    let Ok(Object { metadata }) = serde_json::from_slice(json) else {
        return Vec::new();
    };
    let finalizers = metadata.finalizers.unwrap_or_default().into_iter();
    let finalizers = finalizers.map(|it| one_line(&it).into_owned());
    match metadata.deletion_timestamp {
        Some(_) => finalizers.collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::pending_finalizers;

    #[test]
    fn only_an_object_that_is_being_deleted_has_pending_finalizers() {
        for (json, pending) in [
            (
                r#"{"metadata":{"finalizers":["a"],"deletionTimestamp":"now"}}"#,
                &["a"][..],
            ),
            (
                r#"{"metadata":{"finalizers":["a"],"deletionTimestamp":null}}"#,
                &[],
            ),
            (r#"{"metadata":{"finalizers":["a"]}}"#, &[]),
            (
                r#"{"metadata":{"deletionTimestamp":"now","finalizers":null}}"#,
                &[],
            ),
            (
                r#"{"metadata":{"deletionTimestamp":"now","finalizers":[7]}}"#,
                &[],
            ),
            ("{}", &[]),
            ("[", &[]),
        ] {
            assert_eq!(pending_finalizers(json.as_bytes()), pending, "{json}");
        }
    }
}

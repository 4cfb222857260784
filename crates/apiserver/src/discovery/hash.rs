//! Hashes of documents and kinds, as in discovery documents and `ETag` headers.

use std::fmt::Write as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha512};

/// Returns the `storageVersionHash` of a resource that is stored as this kind.
///
/// Source: apiserver `pkg/endpoints/discovery/storageversionhash.go`: the first eight
/// bytes of a SHA-256 of `group/version/kind`.
pub(super) fn storage_version(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    BASE64_STANDARD.encode(&digest[..8])
}

/// Returns the value of the `ETag` header of `document`, including the quotes.
///
/// Equal documents have equal tags. Source: apiserver
/// `pkg/endpoints/discovery/aggregated/etag.go`: a SHA-512 in capital hex.
pub(crate) fn etag(document: &Value) -> String {
    format!("\"{}\"", hex(document))
}

/// Returns the SHA-512 of `document`, in upper-case hexadecimal.
pub(super) fn hex(document: &Value) -> String {
    let digest = Sha512::digest(document.to_string());
    digest.iter().fold(String::new(), |mut text, byte| {
        // A write to a string does not fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{etag, storage_version};

    #[test]
    fn a_storage_version_has_the_hash_that_kubernetes_gives_it() {
        assert_eq!(storage_version("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
        assert_eq!(storage_version("apps", "v1", "Deployment"), "8aSe+NMegvE=");
    }

    #[test]
    fn a_tag_is_quoted_and_changes_with_the_document() {
        let tag = etag(&json!({"a": 1}));
        assert_eq!(tag.len(), 130);
        assert!(tag.starts_with('"') && tag.ends_with('"'));
        assert_ne!(tag, etag(&json!({"a": 2})));
    }
}

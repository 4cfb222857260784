//! The kinds that have a protobuf form.

use crate::table::Message;
use crate::tables::KINDS;

/// The group version of the kinds in `IN_EVERY_GROUP`.
const META: &str = "meta.k8s.io/v1";

/// Kinds that Kubernetes registers in every group and version: `DeleteOptions` of `apps/v1`
/// are those of `meta.k8s.io/v1`.
const IN_EVERY_GROUP: [&str; 11] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
];

/// Whether objects of `kind` in `api_version` have a protobuf form.
///
/// # Example
///
/// ```
/// use windlass_protobuf::is_known;
///
/// assert!(is_known("apps/v1", "Deployment"));
/// assert!(is_known("v1", "Status"));
/// assert!(!is_known("blog.example.com/v1", "Website"));
/// ```
#[must_use]
pub fn is_known(api_version: &str, kind: &str) -> bool {
    find(api_version, kind).is_some()
}

/// Every kind that has a protobuf form, as `apiVersion` and `kind`, in that order.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS
        .iter()
        .map(|(api_version, kind, _)| (*api_version, *kind))
}

/// The message of a kind.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Message> {
    let lookup = |api_version: &str| {
        let wanted = (api_version, kind);
        let at = KINDS.binary_search_by_key(&wanted, |(api_version, kind, _)| (api_version, kind));
        KINDS.get(at.ok()?).map(|(_, _, message)| *message)
    };
    lookup(api_version).or_else(|| {
        // `meta.k8s.io/v1beta1` shares the other kinds with `meta.k8s.io/v1`.
        let is_meta = api_version == "meta.k8s.io/v1beta1" || IN_EVERY_GROUP.contains(&kind);
        is_meta.then(|| lookup(META))?
    })
}

#[cfg(test)]
mod tests {
    use super::{KINDS, find};

    #[test]
    fn the_kinds_are_sorted_and_their_fields_too() {
        assert!(KINDS.is_sorted_by_key(|(api_version, kind, _)| (api_version, kind)));
        for (_, kind, message) in KINDS {
            assert!(
                message.fields.is_sorted_by_key(|field| field.number),
                "{kind}"
            );
        }
    }

    #[test]
    fn options_are_found_in_every_group() {
        for api_version in ["v1", "apps/v1", "meta.k8s.io/v1"] {
            assert!(
                find(api_version, "DeleteOptions").is_some(),
                "{api_version}"
            );
        }
        assert!(find("meta.k8s.io/v1beta1", "PartialObjectMetadata").is_some());
        assert!(find("apps/v1", "PartialObjectMetadata").is_none());
    }
}

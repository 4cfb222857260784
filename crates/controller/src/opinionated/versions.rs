//! The versions of the states of an object, and its deletion mark. *(pure)*

use std::sync::Arc;

use kube::Resource;

/// Whether `object` is marked for deletion.
pub(super) fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether `state` is certainly older than `than`.
pub(super) fn is_older_state<K: Resource>(state: &Arc<K>, than: &Arc<K>) -> bool {
    let (state, than) = (state.meta(), than.meta());
    is_older(
        state.resource_version.as_deref(),
        than.resource_version.as_deref(),
    )
}

/// Whether `state` is certainly not newer than `than`.
pub(super) fn is_not_newer<K: Resource>(state: &Arc<K>, than: &Arc<K>) -> bool {
    let version = &state.meta().resource_version;
    is_older_state(state, than) || *version == than.meta().resource_version
}

/// Whether `version` is older than `than`. False for versions that are not numbers: then the order
/// of arrival counts.
pub(super) fn is_older(version: Option<&str>, than: Option<&str>) -> bool {
    (version.zip(than)).is_some_and(|(version, than)| windlass_informer::is_older(version, than))
}

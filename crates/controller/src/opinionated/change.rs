//! Decides whether an update is passed to the inner handler of a wrapper. *(pure)*

use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::{Finalizers, content::remove_ignored, finalizer::FinalizerPresence};

/// Whether the spec or a finalizer of another writer has changed.
///
/// If the object has a generation, it decides about the spec. Otherwise, as for `ConfigMap`s,
/// everything counts except the status and the fields that change with each write.
pub(super) fn matters<K>(finalizers: &Finalizers<K>, old: &K, new: &K) -> bool
where
    K: Resource + Serialize + Send + Sync + 'static,
{
    let spec = match (old.meta().generation, new.meta().generation) {
        (Some(old), Some(new)) => old != new,
        _ => differ(old, new, |object| {
            if let Some(object) = object.as_object_mut() {
                object.remove("status");
            }
        }),
    };
    spec || finalizers.foreign_changed(old.meta(), new.meta())
}

/// Whether `new` only shows a patch that added or changed our finalizer: it has one, and differs
/// from `old` only in our finalizers, managed fields and version.
pub(super) fn is_echo<K>(finalizers: &Finalizers<K>, old: &K, new: &K) -> bool
where
    K: Resource + Serialize + Send + Sync + 'static,
{
    finalizers.presence(new.meta()) != FinalizerPresence::Absent
        && old.meta().finalizers != new.meta().finalizers
        && !finalizers.foreign_changed(old.meta(), new.meta())
        && !differ(old, new, |_| {})
}

/// Whether the objects differ, without their finalizers, the fields that change with each write,
/// and what `strip` removes. An object that cannot be serialized differs.
fn differ<K: Serialize>(old: &K, new: &K, strip: impl Fn(&mut Value)) -> bool {
    let stripped = |object: &K| {
        let mut object = serde_json::to_value(object).ok()?;
        strip(&mut object);
        remove_ignored(&mut object);
        Some(object)
    };
    match (stripped(old), stripped(new)) {
        (Some(old), Some(new)) => old != new,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;
    use crate::{FinalizerName, FinalizerPatch, PatchClient};
    use windlass_informer::ObjectKey;

    #[test]
    fn with_a_generation_only_the_generation_is_compared() {
        let base = json!({ "metadata": { "generation": 1 } });
        check::<Deployment>(
            &base,
            &json!({ "metadata": { "generation": 2 } }),
            "matters",
        );
        let labelled = json!({ "metadata": { "generation": 1, "labels": { "a": "b" } } });
        check::<Deployment>(&base, &labelled, "");
        let status = json!({ "metadata": { "generation": 1 }, "status": { "replicas": 1 } });
        check::<Deployment>(&base, &status, "");
    }

    #[test]
    fn without_a_generation_the_content_is_compared() {
        let base = json!({ "metadata": { "resourceVersion": "1" }, "data": { "a": "1" } });
        let written = json!({ "metadata": { "resourceVersion": "2" }, "data": { "a": "1" } });
        check::<ConfigMap>(&base, &written, "");
        let changed = json!({ "metadata": { "resourceVersion": "2" }, "data": { "a": "2" } });
        check::<ConfigMap>(&base, &changed, "matters");
        let labelled = json!({ "metadata": { "labels": { "a": "b" } }, "data": { "a": "1" } });
        check::<ConfigMap>(&base, &labelled, "matters");
    }

    #[test]
    fn changes_of_our_finalizers_are_ignored_and_those_of_others_are_not() {
        let with = |finalizers: &[&str], generation: u8| json!({ "metadata": { "generation": generation, "finalizers": finalizers } });
        let none = json!({ "metadata": { "generation": 1 } });
        check::<Deployment>(&none, &with(&["a.io/own"], 1), "echo");
        check::<Deployment>(&none, &with(&["a.io/own.in-progress"], 1), "echo");
        check::<Deployment>(&none, &with(&["b.io/other"], 1), "matters");
        check::<Deployment>(&none, &with(&["b.io/other", "a.io/own"], 1), "matters");
        let status = json!({
            "metadata": { "generation": 1, "finalizers": ["a.io/own"] },
            "status": { "replicas": 1 },
        });
        check::<Deployment>(&none, &status, "");
    }

    #[track_caller]
    fn check<K>(old: &Value, new: &Value, expected: &str)
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        struct NoClient;
        impl<K: Send + 'static> PatchClient<K> for NoClient {
            async fn patch(&self, _: &ObjectKey, _: &FinalizerPatch) -> Result<K, kube::Error> {
                Err(kube::Error::LinesCodecMaxLineLengthExceeded)
            }
        }
        let name = FinalizerName::new("a.io/own").expect("a name");
        let finalizers = Finalizers::<K>::new(NoClient, name).expect("a finalizer");
        let parse = |value: &Value| serde_json::from_value::<K>(value.clone()).expect("an object");
        let (old, new) = (parse(old), parse(new));
        let found_matters = matters(&finalizers, &old, &new);
        let found_echo = is_echo(&finalizers, &old, &new);
        assert_eq!(
            (found_matters, found_echo),
            (expected == "matters", expected == "echo")
        );
    }
}

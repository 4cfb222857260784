//! Config maps, and the names of the finalizers on them.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::Value;

use crate::cluster::await_condition;

pub(super) const OWN: &str = "test.windlass.dev/own";
pub(super) const GUARD: &str = "test.windlass.dev/own.in-progress";
pub(super) const THEIRS: &str = "test.windlass.dev/theirs";

pub(super) async fn create(configs: &Api<ConfigMap>, object: &ConfigMap) {
    let created = configs.create(&PostParams::default(), object).await;
    created.expect("a new object");
}

pub(super) async fn merge(configs: &Api<ConfigMap>, name: &str, patch: Value) {
    let patched = configs
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("an object");
}

pub(super) async fn merge_if_there(configs: &Api<ConfigMap>, name: &str, patch: Value) {
    _ = configs
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
}

pub(super) async fn delete(configs: &Api<ConfigMap>, name: &str) {
    let deleted = configs.delete(name, &DeleteParams::default()).await;
    deleted.expect("an object");
}

/// Waits until the object has these finalizers.
pub(super) async fn has(configs: &Api<ConfigMap>, name: &str, finalizers: &[&str]) {
    let has =
        |object: Option<&ConfigMap>| object.is_some_and(|object| object.finalizers() == finalizers);
    wait(configs, name, has).await;
}

pub(super) async fn gone(configs: &Api<ConfigMap>, name: &str) {
    wait(configs, name, |object: Option<&ConfigMap>| object.is_none()).await;
}

pub(super) async fn wait(
    configs: &Api<ConfigMap>,
    name: &str,
    is: impl Fn(Option<&ConfigMap>) -> bool,
) {
    let waited = await_condition(configs.clone(), name, is).await;
    waited.expect("a server that answers");
}

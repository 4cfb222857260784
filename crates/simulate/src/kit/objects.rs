//! Writes of a user of the cluster, and of the controllers of other kinds.

use std::{future::Future, panic::Location, sync::Arc};

use http::StatusCode;
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Kit, NewStatus};
use crate::{Step, direct::Refusal, mask::Mask};

/// The number of attempts of an edit that conflicts with other writers.
const EDITS: u32 = 20;

// === impl Kit ===

impl Kit {
    /// Creates an object.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn create<K>(&self, object: &K) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (place, kit) = (Location::caller(), self.clone());
        let (meta, content) = (object.meta().clone(), serde_json::to_value(object));
        async move {
            let collection = kit.collection::<K>(meta.namespace.as_deref(), place).await;
            let content = content.unwrap_or_else(|error| panic!("{place}: {error}"));
            let created = kit.core.user.create(&collection, &content).await;
            accepted(created, "create", &collection, place);
        }
    }

    /// Applies an object by server-side apply, as the field manager `kit`, with force.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn apply<K>(&self, object: &K) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (place, kit) = (Location::caller(), self.clone());
        let (meta, content) = (object.meta().clone(), serde_json::to_value(object));
        async move {
            let mut content = content.unwrap_or_else(|error| panic!("{place}: {error}"));
            content["apiVersion"] = K::api_version(&()).into();
            content["kind"] = K::kind(&()).into();
            let collection = kit.collection::<K>(meta.namespace.as_deref(), place).await;
            let path = format!("{collection}/{}", meta.name.unwrap_or_default());
            accepted(
                kit.core.user.apply(&path, &content).await,
                "apply",
                &path,
                place,
            );
        }
    }

    /// Changes an object: reads it, calls `edit`, and writes it back. After a conflict with another
    /// writer it begins again.
    ///
    /// # Panics
    ///
    /// If the object does not exist or does not decode, if the server refuses the change, or after 20
    /// conflicts.
    #[track_caller]
    pub fn edit<K>(&self, name: &str, mut edit: impl FnMut(&mut K)) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            let mut result = Ok(());
            for _ in 0..EDITS {
                let Some(object) = kit.core.user.get(&path).await else {
                    panic!("{place}: cannot edit {path}: it does not exist");
                };
                let mut typed: K = decoded(object, &path, place);
                edit(&mut typed);
                let object = serde_json::to_value(&typed);
                let object = object.unwrap_or_else(|error| panic!("{place}: {error}"));
                result = kit.core.user.replace(&path, &object).await;
                if !matches!(&result, Err(refusal) if refusal.status == StatusCode::CONFLICT) {
                    break;
                }
            }
            accepted(result, "edit", &path, place);
        }
    }

    /// Writes the status of an object, as the controller of its kind does: merges a JSON value into it,
    /// or writes the status of an object that is [ready](NewStatus::Ready),
    /// [complete](NewStatus::Complete) or [failed](NewStatus::Failed).
    ///
    /// # Panics
    ///
    /// If the object does not exist, its kind has no such status, or the server refuses the change.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job};
    /// use serde_json::json;
    /// use windlass_simulate::kit::{self, Kit, NewStatus};
    ///
    /// # let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a:1" }] });
    /// # let job = serde_json::from_value(json!({ "spec": { "template": { "spec": pod } } }));
    /// # let mut job: Job = job.expect("a job");
    /// # job.metadata.name = Some("backup".to_owned());
    /// kit::run(async |kit: Kit| {
    ///     kit.create(&job).await;
    ///     kit.set_status::<Job>("backup", json!({ "active": 1 })).await;
    ///     kit.set_status::<Job>("backup", NewStatus::Complete).await;
    ///     kit.expect::<Job>("backup")
    ///         .becomes(|it| it.status.as_ref().is_some_and(|it| it.completion_time.is_some()))
    ///         .await;
    /// });
    /// ```
    #[track_caller]
    pub fn set_status<K>(
        &self,
        name: &str,
        status: impl Into<NewStatus>,
    ) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()>,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        let status = status.into();
        async move {
            let path = kit.path::<K>(&name, place).await;
            let object = match status {
                NewStatus::Merge(_) => None,
                _ => kit.core.user.get(&path).await,
            };
            let status = status.content(&K::kind(&()), &object.unwrap_or_default(), kit.now());
            let status = status.unwrap_or_else(|why| panic!("{place}: {path}: {why}"));
            let path = format!("{path}/status");
            let result = kit
                .core
                .user
                .merge(&path, &json!({ "status": status }))
                .await;
            accepted(result, "write", &path, place);
        }
    }

    /// Requests the deletion of an object, and does not wait for its finalizers.
    ///
    /// # Panics
    ///
    /// If the server refuses it, also because the object does not exist.
    #[track_caller]
    pub fn delete<K>(&self, name: &str) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()>,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            accepted(kit.core.user.delete(&path).await, "delete", &path, place);
        }
    }

    /// Makes a step of a [`Simulation`](crate::Simulation).
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    #[track_caller]
    pub fn step(&self, step: &Step) -> impl Future<Output = ()> + use<> {
        let (place, core, step) = (Location::caller(), Arc::clone(&self.core), step.clone());
        async move {
            let result = step.run(&core.user, &core.write_lock).await;
            accepted(result, "make the step", &step.to_string(), place);
        }
    }

    /// Returns an object, if it exists.
    ///
    /// # Panics
    ///
    /// If it does not decode.
    #[track_caller]
    pub fn get<K>(&self, name: &str) -> impl Future<Output = Option<K>> + use<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            let object = kit.core.user.get(&path).await?;
            Some(decoded(object, &path, place))
        }
    }

    /// Returns an object as JSON without what differs between two executions, for a comparison with a
    /// stored text: `metadata` has no uid, version, generation, creation time and managed fields. Other
    /// uids, times, generated names and addresses of Services are replaced by placeholders, also in longer
    /// texts. A `nodePort` is `port`, also one that the operator has chosen, and an `observedGeneration`
    /// is `current` or `old`.
    ///
    /// # Panics
    ///
    /// If the object does not exist.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use windlass_simulate::kit::{self, Kit};
    ///
    /// kit::run(async |kit: Kit| {
    ///     let mut config = ConfigMap::default();
    ///     config.metadata.name = Some("blog".to_owned());
    ///     config.data = Some([("at".to_owned(), "2026-01-01T00:00:05Z".to_owned())].into());
    ///     kit.create(&config).await;
    ///     assert_eq!(
    ///         kit.snapshot::<ConfigMap>("blog").await,
    ///         json!({
    ///             "apiVersion": "v1", "kind": "ConfigMap",
    ///             "metadata": { "name": "blog", "namespace": "default" },
    ///             "data": { "at": "time" },
    ///         })
    ///     );
    /// });
    /// ```
    #[track_caller]
    pub fn snapshot<K>(&self, name: &str) -> impl Future<Output = Value> + use<K>
    where
        K: Resource<DynamicType = ()>,
    {
        let (place, kit, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            let path = kit.path::<K>(&name, place).await;
            let Some(object) = kit.core.user.get(&path).await else {
                panic!("{place}: {path} does not exist");
            };
            let objects = [(K::plural(&()).into_owned(), object)];
            Mask::new(&objects).object(&objects[0].1)
        }
    }

    /// Returns all objects of a kind, of all namespaces.
    ///
    /// # Panics
    ///
    /// If the kind is not served, or an object does not decode.
    #[track_caller]
    pub fn list<K>(&self) -> impl Future<Output = Vec<K>> + use<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let (place, kit) = (Location::caller(), self.clone());
        async move {
            let path = K::url_path(&(), None);
            let Some(mut list) = kit.core.user.get(&path).await else {
                panic!("{place}: cannot list {path}");
            };
            let items = list["items"]
                .as_array_mut()
                .map(std::mem::take)
                .unwrap_or_default();
            items
                .into_iter()
                .map(|it| decoded(it, &path, place))
                .collect()
        }
    }
}

fn decoded<K: DeserializeOwned>(object: Value, path: &str, place: &Location<'_>) -> K {
    serde_json::from_value(object)
        .unwrap_or_else(|error| panic!("{place}: {path} does not decode: {error}"))
}

/// Panics if the server refused a write of the test.
pub(super) fn accepted(result: Result<(), Refusal>, what: &str, path: &str, place: &Location<'_>) {
    if let Err(refusal) = result {
        panic!("{place}: cannot {what} {path}: {refusal}");
    }
}

//! The steps of the users in a simulation.

use std::{fmt, time::Duration};

use kube::Resource;
use serde::Serialize;
use serde_json::Value;
use tokio::{sync::Mutex, time::sleep};

use crate::direct::{Direct, Refusal};

/// One write of a user to an object of the cluster, or a pause.
///
/// If the response is 404, 409, 429 or 5xx, the step is repeated each second of virtual time, for
/// up to one hour. A step that is rejected nevertheless breaks the oracle `every_step_succeeds` in
/// a run without faults.
///
/// # Example
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_simulate::Step;
///
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("blog".into());
/// config.metadata.namespace = Some("default".into());
/// let steps = [
///     Step::create(&config),
///     Step::merge::<ConfigMap>("default", "blog", serde_json::json!({ "data": { "a": "1" } })),
///     Step::delete::<ConfigMap>("default", "blog"),
/// ];
/// assert_eq!(steps[2].to_string(), "delete /api/v1/namespaces/default/configmaps/blog");
/// ```
#[derive(Clone, Debug)]
pub struct Step {
    operation: Operation,
}

#[derive(Clone, Debug)]
enum Operation {
    Create { collection: String, object: Value },
    Merge { path: String, content: Value },
    ReplaceSpec { path: String, spec: Value },
    Delete { path: String },
    Wait(Duration),
}

// === impl Step ===

impl Step {
    /// Creates an object. If an object with this name is being deleted, the step is repeated until
    /// it does not exist any more. The object has a namespace, unless its kind is cluster-scoped.
    ///
    /// If the object cannot be serialized as JSON, the step sends `null`, which the server rejects.
    #[must_use]
    pub fn create<K>(object: &K) -> Self
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
    {
        let collection = K::url_path(
            &K::DynamicType::default(),
            object.meta().namespace.as_deref(),
        );
        Self::create_at(collection, serde_json::to_value(object).unwrap_or_default())
    }

    /// Creates an object of any kind. `collection` is the path of its kind and namespace, as
    /// [`Resource::url_path`] returns it.
    #[must_use]
    pub fn create_at(collection: impl Into<String>, object: Value) -> Self {
        Self {
            operation: Operation::Create {
                collection: collection.into(),
                object,
            },
        }
    }

    /// Applies a merge patch to an object. For a cluster-scoped object, `namespace` is empty.
    #[must_use]
    pub fn merge<K>(namespace: &str, name: &str, content: Value) -> Self
    where
        K: Resource,
        K::DynamicType: Default,
    {
        Self::merge_at(path::<K>(namespace, name), content)
    }

    /// Applies a merge patch to the object at `path`, which may end in a subresource.
    #[must_use]
    pub fn merge_at(path: impl Into<String>, content: Value) -> Self {
        Self {
            operation: Operation::Merge {
                path: path.into(),
                content,
            },
        }
    }

    /// Replaces the `spec` of the object at `path`.
    #[must_use]
    pub fn replace_spec_at(path: impl Into<String>, spec: Value) -> Self {
        Self {
            operation: Operation::ReplaceSpec {
                path: path.into(),
                spec,
            },
        }
    }

    /// Deletes an object. For a cluster-scoped object, `namespace` is empty.
    #[must_use]
    pub fn delete<K>(namespace: &str, name: &str) -> Self
    where
        K: Resource,
        K::DynamicType: Default,
    {
        Self::delete_at(path::<K>(namespace, name))
    }

    /// Deletes the object at `path`.
    #[must_use]
    pub fn delete_at(path: impl Into<String>) -> Self {
        Self {
            operation: Operation::Delete { path: path.into() },
        }
    }

    /// Waits for `time` in virtual time.
    #[must_use]
    pub const fn wait(time: Duration) -> Self {
        Self {
            operation: Operation::Wait(time),
        }
    }

    /// The path of the object that this step creates, if it creates one.
    pub(crate) fn created(&self) -> Option<String> {
        match &self.operation {
            Operation::Create { collection, object } => {
                let name = object["metadata"]["name"].as_str()?;
                Some(format!("{collection}/{name}"))
            }
            _ => None,
        }
    }

    /// The path of the object that this step creates, changes or deletes.
    pub(crate) fn object(&self) -> Option<String> {
        match &self.operation {
            Operation::Create { .. } => self.created(),
            Operation::Merge { path, .. }
            | Operation::ReplaceSpec { path, .. }
            | Operation::Delete { path } => Some(path.clone()),
            Operation::Wait(_) => None,
        }
    }

    /// Makes the step while it holds `lock`. Repeats it for up to one hour while the server rejects
    /// it with a transient error, and returns the last error.
    pub(crate) async fn run(&self, direct: &Direct, lock: &Mutex<()>) -> Result<(), Refusal> {
        const TRIES: u32 = 3600;

        let mut result = Ok(());
        for _ in 0..TRIES {
            let guard = lock.lock().await;
            result = match &self.operation {
                Operation::Create { collection, object } => direct.create(collection, object).await,
                Operation::Merge { path, content } => direct.merge(path, content).await,
                Operation::ReplaceSpec { path, spec } => direct.replace_spec(path, spec).await,
                Operation::Delete { path } => direct.delete(path).await,
                Operation::Wait(time) => {
                    // Other clients can write during the wait.
                    drop(guard);
                    sleep(*time).await;
                    return Ok(());
                }
            };
            drop(guard);
            if !matches!(&result, Err(refusal) if refusal.is_transient()) {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        result
    }
}

fn path<K>(namespace: &str, name: &str) -> String
where
    K: Resource,
    K::DynamicType: Default,
{
    let namespace = Some(namespace).filter(|it| !it.is_empty());
    let collection = K::url_path(&K::DynamicType::default(), namespace);
    format!("{collection}/{name}")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operation {
            Operation::Create { collection, object } => {
                let name = object["metadata"]["name"].as_str().unwrap_or("?");
                write!(f, "create {collection}/{name}")
            }
            Operation::Merge { path, content } => write!(f, "merge {path} {content}"),
            Operation::ReplaceSpec { path, spec } => {
                write!(f, "replace the spec of {path} with {spec}")
            }
            Operation::Delete { path } => write!(f, "delete {path}"),
            Operation::Wait(time) => write!(f, "wait {time:?}"),
        }
    }
}

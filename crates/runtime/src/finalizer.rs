//! Finalizers: keep an object until its clean-up has succeeded.

use std::{error::Error as StdError, fmt::Debug, sync::Arc};

use futures::{TryFuture, TryFutureExt};
#[doc(inline)]
pub use kube::runtime::finalizer::{Error, Event};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::controller::Action;

/// Reconciles an object that must be cleaned up before it disappears.
///
/// | object | result |
/// |--|--|
/// | without the finalizer | the finalizer is added, and the change of the object leads to the next call |
/// | with the finalizer | `reconcile` is called with [`Event::Apply`] |
/// | with the finalizer, marked for deletion | `reconcile` is called with [`Event::Cleanup`]. If that succeeds, the finalizer is removed |
/// | without the finalizer, marked for deletion | nothing |
///
/// The patches are those of kube-runtime, with a test of the uid before them: a finalizer is added only
/// if the others are unchanged, and removed only at its place in the list. An object that disappears
/// before its finalizer is removed is not an error.
///
/// A predicate in front of the controller that only passes changes of the generation hides the change
/// that the new finalizer is: the object is then reconciled at its next change.
///
/// # Errors
///
/// [`Error`], with the error of `reconcile` or of the patch.
pub async fn finalizer<K, ReconcileFut>(
    api: &Api<K>,
    finalizer_name: &str,
    obj: Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> ReconcileFut,
) -> Result<Action, Error<ReconcileFut::Error>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
    ReconcileFut: TryFuture<Ok = Action>,
    ReconcileFut::Error: StdError + 'static,
{
    let at = (obj.finalizers().iter()).position(|it| it == finalizer_name);
    let is_deleting = obj.meta().deletion_timestamp.is_some();
    match (at, is_deleting) {
        (Some(_), false) => {
            let applied = TryFutureExt::into_future(reconcile(Event::Apply(obj)));
            applied.await.map_err(Error::ApplyFailed)
        }
        (Some(at), true) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let patch = patch(&*obj, removal(at, finalizer_name)).ok_or(Error::InvalidFinalizer)?;
            let cleaned = TryFutureExt::into_future(reconcile(Event::Cleanup(obj)));
            let action = cleaned.await.map_err(Error::CleanupFailed)?;
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => Ok(action),
                // Another writer has removed the finalizer.
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(action),
                Err(error) => Err(Error::RemoveFinalizer(error)),
            }
        }
        (None, false) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let added = addition(obj.finalizers(), finalizer_name);
            let patch = patch(&*obj, added).ok_or(Error::InvalidFinalizer)?;
            let patched = api.patch(&name, &PatchParams::default(), &patch).await;
            patched.map_err(Error::AddFinalizer)?;
            Ok(Action::await_change())
        }
        (None, true) => Ok(Action::await_change()),
    }
}

/// The operations that add a finalizer, if the others are unchanged.
fn addition(shown: &[String], finalizer: &str) -> [Value; 2] {
    let path = "/metadata/finalizers";
    if shown.is_empty() {
        // A `test` compares an absent list with null, and servers omit empty lists.
        return [
            json!({ "op": "test", "path": path, "value": null }),
            json!({ "op": "add", "path": path, "value": [finalizer] }),
        ];
    }
    [
        json!({ "op": "test", "path": path, "value": shown }),
        json!({ "op": "add", "path": format!("{path}/-"), "value": finalizer }),
    ]
}

/// The operations that remove the finalizer with this index, if it still has it.
fn removal(at: usize, finalizer: &str) -> [Value; 2] {
    let path = format!("/metadata/finalizers/{at}");
    [
        json!({ "op": "test", "path": path, "value": finalizer }),
        json!({ "op": "remove", "path": path }),
    ]
}

/// The patch with these operations, if the object still has its uid. `None` if they are no JSON
/// patch, which cannot happen.
fn patch<K: Resource>(object: &K, operations: [Value; 2]) -> Option<Patch<()>> {
    let uid = object.meta().uid.as_ref();
    let uid = uid.map(|uid| json!({ "op": "test", "path": "/metadata/uid", "value": uid }));
    let operations = uid.into_iter().chain(operations);
    let operations = serde_json::from_value(operations.collect()).ok()?;
    Some(Patch::Json(operations))
}

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
use serde_json::json;

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
/// A patch applies only if the object still has the same uid and the same finalizers. An object that
/// disappears before its finalizer is removed is not an error.
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
    let shown = obj.finalizers();
    let has_finalizer = shown.iter().any(|it| it == finalizer_name);
    let is_deleting = obj.meta().deletion_timestamp.is_some();
    match (has_finalizer, is_deleting) {
        (true, false) => {
            let applied = TryFutureExt::into_future(reconcile(Event::Apply(obj)));
            applied.await.map_err(Error::ApplyFailed)
        }
        (true, true) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let left = shown.iter().filter(|it| *it != finalizer_name).cloned();
            let patch = patch(&*obj, &left.collect::<Vec<_>>()).ok_or(Error::InvalidFinalizer)?;
            let cleaned = TryFutureExt::into_future(reconcile(Event::Cleanup(obj)));
            let action = cleaned.await.map_err(Error::CleanupFailed)?;
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => Ok(action),
                // Another writer has removed the finalizer.
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(action),
                Err(error) => Err(Error::RemoveFinalizer(error)),
            }
        }
        (false, false) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let ours = finalizer_name.to_owned();
            let all = shown.iter().cloned().chain([ours]);
            let patch = patch(&*obj, &all.collect::<Vec<_>>()).ok_or(Error::InvalidFinalizer)?;
            let patched = api.patch(&name, &PatchParams::default(), &patch).await;
            patched.map_err(Error::AddFinalizer)?;
            Ok(Action::await_change())
        }
        (false, true) => Ok(Action::await_change()),
    }
}

/// The patch that replaces the finalizers of `object`, if it is unchanged. `None` if a finalizer is
/// not valid JSON, which cannot happen.
fn patch<K: Resource>(object: &K, finalizers: &[String]) -> Option<Patch<()>> {
    let shown = object.finalizers();
    // A `test` compares an absent list with null, and servers omit empty lists.
    let shown = if shown.is_empty() {
        json!(null)
    } else {
        json!(shown)
    };
    let uid = object.meta().uid.as_ref();
    let uid = uid.map(|uid| json!({ "op": "test", "path": "/metadata/uid", "value": uid }));
    let path = "/metadata/finalizers";
    let operations = uid.into_iter().chain([
        json!({ "op": "test", "path": path, "value": shown }),
        json!({ "op": "add", "path": path, "value": finalizers }),
    ]);
    let operations = serde_json::from_value(operations.collect()).ok()?;
    Some(Patch::Json(operations))
}

//! Unwatched objects: objects with our finalizer that no informer shows.
//!
//! An object that leaves the selector of an informer while the operator does not run keeps our
//! finalizer. No informer shows it, and it cannot be deleted.

use std::{
    collections::{HashSet, hash_map::RandomState},
    fmt::Debug,
    hash::BuildHasher as _,
    sync::Arc,
};

use kube::{
    Api, Resource,
    api::ListParams,
    core::{ObjectList, PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;
use windlass_informer::{ObjectKey, Uid};

use super::{FinalizerGoal, Finalizers, GoalOutcome, client::send};
use crate::{FinalizerChange, FinalizerError};

/// An object with a finalizer of ours that no informer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnwatchedObject {
    /// The object's namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Option<Uid>,
    /// Whether it is marked for deletion and waits for the removal of its finalizers.
    pub terminating: bool,
}

/// A list that does not come to an end.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot list {resource} for unwatched objects: the list does not come to an end; check whether \
     a proxy or the API server repeats pages"
)]
struct EndlessList {
    resource: Arc<str>,
}

// === impl Finalizers ===

impl<K> Finalizers<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// The page size of the list, in objects. Each page must fit into the limit of a response (16
    /// MiB), and the metadata of one object can have 256 KiB of annotations.
    const PAGE: u32 = 50;

    /// The maximum number of pages: five million objects.
    const PAGES: usize = 100_000;

    /// How many pages in a row may show no new object. An API server sends none; the informers'
    /// lists have the same limit.
    const PAGES_WITHOUT_NEW: usize = 8;

    /// Lists the objects of `api` that have our finalizer, or a form of it, and that `is_shown`
    /// does not know. Only metadata is requested.
    ///
    /// Call it when the informers have synced, with a lookup in all their stores. It lists the whole
    /// kind; once after the start is enough. If the informers have a
    /// [shard](windlass_informer::Shard), leave out the objects whose uid it does not contain: they are
    /// those of other replicas. You decide what to do with an unwatched object: clean up
    /// and [release](Self::release_unwatched) it, or add the label again that the selector requires.
    ///
    /// # Errors
    ///
    /// The error of the API server. No request is repeated; if the server is busy, call it again.
    ///
    /// [`kube::Error::Service`] if the list does not come to an end: eight pages in a row show no
    /// new object, or there are more than 100,000 pages of 50 objects. There is no partial result,
    /// because an object that it lacks could not be deleted.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::{Api, Client};
    /// use windlass_controller::Finalizers;
    /// use windlass_informer::Informer;
    ///
    /// # async fn example(
    /// #     client: Client, finalizers: Finalizers<ConfigMap>, informer: Informer<ConfigMap>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// informer.synced().await?;
    /// let (store, api) = (informer.store(), Api::all(client));
    /// for object in finalizers.unwatched(&api, |key| store.contains(key)).await? {
    ///     println!("{} left the selector", object.key);
    ///     finalizers.release_unwatched(&object).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn unwatched(
        &self,
        api: &Api<K>,
        is_shown: impl Fn(&ObjectKey) -> bool,
    ) -> Result<Vec<UnwatchedObject>, kube::Error> {
        let mut found = Vec::new();
        // Hashes, because there may be millions of objects. The hasher is random, so two objects
        // have the same hash with a probability of 10^-6 among five million.
        let (hasher, mut seen) = (RandomState::new(), HashSet::new());
        let mut pages_without_new = 0;
        let mut params = ListParams::default().limit(Self::PAGE);
        let (client, request) = (api.clone().into_client(), Request::new(api.resource_url()));
        for _ in 0..Self::PAGES {
            let request = (request.list_metadata(&params)).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<PartialObjectMeta<K>> = send(&client, request).await?;
            pages_without_new += 1;
            for object in page.items {
                let metadata = &object.metadata;
                let key = ObjectKey::of(&object);
                if !seen.insert(hasher.hash_one((&key, &metadata.uid))) {
                    continue;
                }
                pages_without_new = 0;
                let ours = (metadata.finalizers.iter().flatten())
                    .any(|finalizer| self.identity.names.is_ours(finalizer));
                if ours && !is_shown(&key) {
                    found.push(UnwatchedObject {
                        key,
                        uid: metadata.uid.as_deref().map(Uid::from),
                        terminating: metadata.deletion_timestamp.is_some(),
                    });
                }
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(found),
            }
            if pages_without_new >= Self::PAGES_WITHOUT_NEW {
                break;
            }
        }
        let resource = Arc::clone(&self.identity.resource);
        Err(kube::Error::Service(Box::new(EndlessList { resource })))
    }

    /// Removes our finalizer from an unwatched object. Returns whether the object still existed,
    /// under the same uid.
    ///
    /// # Errors
    ///
    /// [`FinalizerError`] if the server refuses, or other writers change the finalizers each
    /// time.
    pub async fn release_unwatched(
        &self,
        object: &UnwatchedObject,
    ) -> Result<bool, FinalizerError> {
        loop {
            let Some(live) = self.get(FinalizerChange::Remove, &object.key).await? else {
                return Ok(false);
            };
            if Uid::of(&live) != object.uid {
                return Ok(false);
            }
            let outcome = self.reach(FinalizerGoal::Release, &Arc::new(live)).await?;
            // Otherwise it was marked for deletion meanwhile, which happens once.
            if !matches!(outcome, GoalOutcome::Terminating) {
                return Ok(!matches!(outcome, GoalOutcome::Gone));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;

    use super::*;
    use crate::{FinalizerName, FinalizerPatch, PatchClient};

    /// A client whose server answers each request with this code and this reason.
    struct Refusing(u16, &'static str);

    impl PatchClient<ConfigMap> for Refusing {
        async fn patch(&self, _: &ObjectKey, _: &FinalizerPatch) -> Result<ConfigMap, kube::Error> {
            let status = Status::failure("no", self.1).with_code(self.0);
            Err(kube::Error::Api(Box::new(status)))
        }
    }

    #[tokio::test]
    async fn a_missing_object_is_no_error_and_a_refused_read_is_one() {
        let object = UnwatchedObject {
            key: ObjectKey::new("web"),
            uid: None,
            terminating: false,
        };
        for (code, reason, expected) in [
            (404, "NotFound", Ok(false)),
            // From a proxy.
            (404, "", Err("finalizer_read")),
            (403, "Forbidden", Err("finalizer_forbidden")),
            (429, "TooManyRequests", Err("finalizer_read")),
            (500, "InternalError", Err("finalizer_read")),
        ] {
            let name = FinalizerName::new("example.io/own").expect("a name");
            let finalizers = Finalizers::new(Refusing(code, reason), name).expect("a finalizer");
            let released = finalizers.release_unwatched(&object).await;
            let released = released.map_err(|error| error.reason());
            assert_eq!(released, expected, "{code} {reason}");
        }
    }
}

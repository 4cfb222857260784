//! The sources of an API server: a [`ListWatch`], and an [`Api`] alone.

use std::{fmt, marker::PhantomData};

use kube::{Api, Resource};
use rand::{SeedableRng as _, rngs::StdRng};
use serde::de::DeserializeOwned;

use super::{ListWatch, Settings};
use crate::{
    Backoff, Changes, Source, StoredForm, Trim, WatchError, random_seed,
    source::{
        reflector::Reflector,
        request::{Requests, resource_name},
    },
};

impl<K: Resource> From<Api<K>> for ListWatch<K>
where
    K::DynamicType: Default,
{
    fn from(api: Api<K>) -> Self {
        Self::from((api, K::DynamicType::default()))
    }
}

impl<K: Resource> From<(Api<K>, K::DynamicType)> for ListWatch<K> {
    fn from((api, types): (Api<K>, K::DynamicType)) -> Self {
        Self {
            settings: Settings {
                requests: Requests::new(api, &types),
                waits: Backoff::CLIENT_GO.into(),
                streamed_lists: true,
                trim: Trim::default(),
                rng: StdRng::seed_from_u64(random_seed()),
                decoders: None,
                decoded: false,
                decode_cache: Self::DEFAULT_DECODE_CACHE,
            },
            types,
            form: PhantomData,
        }
    }
}

impl<K: Resource, O> fmt::Debug for ListWatch<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch")
            .field("requests", &self.settings.requests)
            .field("waits", &self.settings.waits)
            .field("streamed_lists", &self.settings.streamed_lists)
            .finish_non_exhaustive()
    }
}

impl<K, O> Source<O> for ListWatch<K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    fn resource(&self) -> String {
        self.settings.requests.resource.to_string()
    }

    fn namespaces(&self) -> Option<Vec<String>> {
        let namespace = self.settings.requests.namespace.clone();
        namespace.map(|namespace| vec![namespace])
    }

    fn trim(&self) -> Trim {
        self.settings.trim.clone()
    }

    async fn run(&mut self, changes: Changes<O>) -> Result<(), WatchError> {
        Reflector::new(self, changes).run().await;
        Ok(())
    }
}

/// An [`Api`] with the default settings of [`ListWatch`]. `K` must be `Clone` because `Api`
/// requires it; `ListWatch::new(api)` does not.
impl<K> Source<K> for Api<K>
where
    K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    fn resource(&self) -> String {
        resource_name::<K>(&K::DynamicType::default())
    }

    fn namespaces(&self) -> Option<Vec<String>> {
        let namespace = self.namespace()?;
        Some(vec![namespace.to_owned()])
    }

    fn trim(&self) -> Trim {
        Trim::default()
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::<K>::new(self.clone()).run(changes).await
    }
}

/// An [`Api`] of a kind that is known only at run time.
impl<K> Source<K> for (Api<K>, K::DynamicType)
where
    K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone,
{
    fn resource(&self) -> String {
        resource_name::<K>(&self.1)
    }

    fn namespaces(&self) -> Option<Vec<String>> {
        let namespace = self.0.namespace()?;
        Some(vec![namespace.to_owned()])
    }

    fn trim(&self) -> Trim {
        Trim::default()
    }

    async fn run(&mut self, changes: Changes<K>) -> Result<(), WatchError> {
        ListWatch::<K>::new(self.clone()).run(changes).await
    }
}

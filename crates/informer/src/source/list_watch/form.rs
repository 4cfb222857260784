//! The forms of the objects of a list and watch: decoded, raw, or metadata.

use std::marker::PhantomData;

use kube::{Resource, api::PartialObjectMeta};

use super::ListWatch;
use crate::RawObject;

impl<K: Resource> ListWatch<K> {
    /// Requests and keeps only the metadata of each object: a few hundred bytes instead of many
    /// thousand. For code that needs only names, labels and owners.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::{Api, Client, ResourceExt as _};
    /// use windlass_informer::{Informer, ListWatch};
    ///
    /// # fn secrets(client: Client) {
    /// let secrets = ListWatch::new(Api::<Secret>::all(client)).metadata();
    /// let secrets = Informer::new(secrets.raw());
    /// for secret in secrets.store().list() {
    ///     println!("{}: {} bytes are kept", secret.key(), secret.json().len());
    /// }
    /// # }
    /// # use windlass_informer::ObjectIdentity as _;
    /// ```
    pub fn metadata(self) -> ListWatch<PartialObjectMeta<K>> {
        self.into_form()
    }

    /// Keeps all objects decoded: for a store that is read constantly, or for a type whose objects
    /// are smaller than their JSON.
    ///
    /// A read then only increments a reference count. A `Pod` of `k8s-openapi` takes six times the
    /// memory.
    pub fn decoded(mut self) -> Self {
        self.settings.decoded = true;
        self
    }

    /// Keeps each object as JSON, and decodes it only when it is read: see [`RawObject`].
    pub fn raw(self) -> ListWatch<K, RawObject<K>> {
        self.into_form()
    }

    /// Converts to another type or stored form.
    fn into_form<T, O>(mut self) -> ListWatch<T, O>
    where
        T: Resource<DynamicType = K::DynamicType>,
    {
        self.settings.requests.is_metadata = T::metadata_api();
        ListWatch {
            types: self.types,
            settings: self.settings,
            form: PhantomData,
        }
    }
}

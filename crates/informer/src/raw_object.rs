//! Objects that are kept as JSON and decoded when they are read.
//!
//! Not `serde_json`'s `RawValue`: it has no identity without decoding, and decodes again at each read.
//! A watch event that no handler decodes takes 24,300 instructions for a Pod, an eighth of a decoded
//! one (`docs/performance.md`).
//!
//! The type parameter is the type into which the object decodes. It guarantees at compile time that an
//! informer of raw objects has handlers of the right type, and that all readers share one decoded
//! object in the cache.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use kube::{Resource, api::ObjectMeta};
use serde::de::DeserializeOwned;

use crate::{
    DecodeError, Decoder, ObjectIdentity, ObjectKey, Stored,
    decode::TrimmedJson,
    json_form::{DecodedSlot, JsonForm},
    key::identity_of,
};

/// A `K` that is kept as JSON, without the trimmed fields, and decoded by [`get`](Self::get).
///
/// By default a [`ListWatch`](crate::ListWatch) also keeps JSON, and decodes each object once on
/// arrival. That is two thirds of the cost of an event. If handlers read few objects, use raw
/// objects to avoid this cost. Then each read can fail. The name, uid and version are known without
/// decoding.
///
/// # Contract
///
/// *Guaranteed.* The store, the indexes and the events are the same as for decoded objects. Objects
/// that are read repeatedly stay decoded, within the bound of
/// [`ListWatch::decode_cache`](crate::ListWatch::decode_cache). An informer of `RawObject<K>`
/// accepts handlers for `K`: each handler gets a decoded object.
///
/// *Required.* An index decodes each raw object that changes. Declare one only if it saves more
/// than that.
///
/// *Not guaranteed.* That the object decodes. On arrival only the identity is read, and the JSON is
/// checked for completeness. The first [`get`](Self::get) returns the error.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client};
/// use windlass_informer::{Informer, ListWatch, ObjectKey};
///
/// # async fn pods(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Informer::new(ListWatch::new(Api::<Pod>::all(client)).raw());
/// if let Some(pod) = pods.store().get(&ObjectKey::new("web").within("shop")) {
///     println!("{} bytes, on {:?}", pod.json().len(), pod.get()?.spec);
/// }
/// # Ok(())
/// # }
/// ```
pub struct RawObject<K> {
    trimmed: TrimmedJson,
    decoder: Arc<Decoder<K>>,

    /// The key of this state in the cache of decoded objects.
    number: u64,

    slot: DecodedSlot<K>,
}

// === impl RawObject ===

impl<K> RawObject<K> {
    pub(crate) fn new(trimmed: TrimmedJson, decoder: Arc<Decoder<K>>) -> Self {
        Self {
            trimmed,
            number: decoder.cache.number(),
            decoder,
            slot: DecodedSlot::new(),
        }
    }

    /// The decoded object, if it is in the slot or the cache.
    fn known(&self) -> Option<Arc<K>> {
        (self.slot.get()).or_else(|| self.decoder.cache.get(self.number))
    }

    /// The JSON, without the trimmed fields.
    #[must_use]
    pub fn json(&self) -> &str {
        self.trimmed.json()
    }
}

impl<K: Resource + DeserializeOwned> RawObject<K> {
    /// Decodes the JSON, without reading or writing the cache.
    pub(crate) fn decode(&self) -> Result<K, DecodeError> {
        self.decoder.decode(&self.trimmed)
    }

    /// Returns the decoded object from the cache, or decodes it.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the JSON does not decode. The error has the position and never the
    /// content.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        if let Some(object) = self.known() {
            return Ok(object);
        }
        let object = self.decode_uncached()?;
        self.put(Arc::clone(&object));
        Ok(object)
    }

    fn decode_uncached(&self) -> Result<Arc<K>, DecodeError> {
        let object = self.decode().inspect_err(|_| self.slot.fail())?;
        Ok(Arc::new(object))
    }

    fn put(&self, object: Arc<K>) {
        if !self.slot.is_evicted() {
            (self.decoder.cache).put(self.number, object, self.json().len());
        }
    }
}

identity_of!([K] RawObject<K>, trimmed);

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Stored for RawObject<K> {
    type Object = K;

    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        Cow::Owned(match self.known() {
            Some(object) => object.meta().clone(),
            None => Decoder::<K>::metadata(self.json()).unwrap_or_else(|| ObjectMeta {
                namespace: self.namespace().map(str::to_owned),
                name: Some(self.name().to_owned()),
                uid: self.uid().map(str::to_owned),
                resource_version: self.resource_version().map(str::to_owned),
                ..ObjectMeta::default()
            }),
        })
    }

    fn object(self: Arc<Self>) -> Result<Arc<K>, DecodeError> {
        self.get()
    }

    fn raw_json(&self) -> Option<&str> {
        Some(self.json())
    }

    fn json_form(&self) -> Option<&dyn JsonForm> {
        Some(self)
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> JsonForm for RawObject<K> {
    fn pin(&self, object: Arc<dyn Any + Send + Sync>) {
        if let Ok(object) = object.downcast() {
            self.slot.set(Some(object));
        }
    }

    fn unpin(&self) {
        self.slot.set(None);
    }

    fn decode(&self) -> Result<Arc<dyn Any + Send + Sync>, DecodeError> {
        match self.known() {
            Some(object) => Ok(object),
            None => Ok(self.decode_uncached()?),
        }
    }

    fn decoded(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.known()?)
    }

    fn cache(&self, object: Arc<dyn Any + Send + Sync>) {
        if let Ok(object) = object.downcast() {
            self.put(object);
        }
    }

    fn evict(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.slot.evict();
        Some(self.decoder.cache.remove(self.number)?)
    }

    fn has_failed(&self) -> bool {
        self.slot.has_failed()
    }
}

/// Shows the key and never the content, which may be secret.
impl<K> fmt::Debug for RawObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawObject")
            .field("key", &format_args!("{}", self.key()))
            .field("bytes", &self.json().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::RawObject;
    use crate::{
        ObjectIdentity as _, Stored as _, StoredForm as _, Trim,
        decode::{Decoder, RawJson},
        json_form::JsonForm as _,
    };

    const MAP: &[u8] = br#"{"kind":"ConfigMap","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7","generation":3,"managedFields":[{"manager":"m"}]},"data":{"a":"b"}}"#;

    #[test]
    fn a_raw_object_has_its_identity_and_is_decoded_once() {
        let map = pack(MAP);
        assert_eq!(map.key().to_string(), "shop/web");
        assert_eq!((map.uid(), map.resource_version()), (Some("u"), Some("7")));
        assert!(!map.json().contains("managedFields"));

        let decoded = map.get().expect("a config map");
        assert_eq!(decoded.data.as_ref().map(|data| &*data["a"]), Some("b"));
        assert!(Arc::ptr_eq(&decoded, &map.get().expect("a config map")));
    }

    #[test]
    fn metadata_are_read_without_the_rest() {
        let broken = String::from_utf8_lossy(MAP).replace(r#"{"a":"b"}"#, "[7]");
        let map = pack(broken.as_bytes());
        assert_eq!(map.metadata().generation, Some(3));
        let error = map.get().expect_err("data is no list");
        assert_eq!(error.to_string(), "data: invalid type, expected a map");
    }

    #[test]
    fn metadata_that_cannot_be_decoded_are_the_identity_of_the_object() {
        let broken =
            String::from_utf8_lossy(MAP).replace(r#""generation":3"#, r#""generation":"x""#);
        let map = pack(broken.as_bytes());
        let metadata = map.metadata();
        assert_eq!(metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(metadata.name.as_deref(), Some("web"));
        assert_eq!(metadata.uid.as_deref(), Some("u"));
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn a_raw_object_has_its_complete_json() {
        let decoder = Arc::new(Decoder::<ConfigMap>::new(&(), Trim::default(), false, 0));
        for end in 1..MAP.len() {
            let half = RawObject::read(&decoder, RawJson::of(&MAP[..end]));
            assert!(half.is_err(), "{}", String::from_utf8_lossy(&MAP[..end]));
        }
    }

    #[test]
    fn a_pinned_object_stays_decoded_until_it_is_released_and_a_cached_one_afterwards() {
        for is_read in [false, true] {
            let map = pack(MAP);
            let erased: Arc<dyn crate::ErasedObject> = Arc::<RawObject<ConfigMap>>::clone(&map);
            let pinned = Arc::clone(&erased).into_typed_for_handler::<ConfigMap>();
            let pinned = Arc::downgrade(&pinned.expect("it decodes").expect("a config map"));
            assert!(pinned.upgrade().is_some());
            if is_read {
                map.get().expect("a config map");
                map.cache(pinned.upgrade().expect("it is pinned"));
            }
            erased.release_decoded();
            assert_eq!(pinned.upgrade().is_some(), is_read);
            assert_eq!(map.evict().is_some(), is_read);
            assert!(pinned.upgrade().is_none());
            let later = Arc::downgrade(&map.get().expect("a config map"));
            assert!(later.upgrade().is_none(), "a state that the store replaced");
        }
    }

    #[test]
    fn an_object_of_any_kind_shows_its_json_only_if_it_is_kept_as_json() {
        let map = pack(MAP);
        let erased: Arc<dyn crate::ErasedObject> = Arc::<RawObject<ConfigMap>>::clone(&map);
        assert_eq!(erased.json(), Some(map.json()));
        assert!(map.json().contains(r#""data":{"a":"b"}"#));
        let decoded: Arc<dyn crate::ErasedObject> = map.get().expect("a config map");
        assert_eq!(decoded.json(), None);
        assert_eq!(decoded.generation(), Some(3));
        // Without effect on an object that is decoded anyway.
        decoded.release_decoded();
        assert!(!decoded.is_undecodable());
    }

    #[test]
    fn an_object_counts_as_undecodable_after_an_attempt_to_decode_it() {
        let broken = String::from_utf8_lossy(MAP).replace(r#"{"a":"b"}"#, "[7]");
        let map = pack(broken.as_bytes());
        let erased: Arc<dyn crate::ErasedObject> = Arc::<RawObject<ConfigMap>>::clone(&map);
        assert!(!erased.is_undecodable());
        map.get().expect_err("data is no list");
        assert!(erased.is_undecodable());
    }

    #[test]
    fn debug_output_has_the_key_and_no_content() {
        let map = pack(MAP);
        let shown = format!("{map:?}");
        let expected = format!(
            "RawObject {{ key: shop/web, bytes: {}, .. }}",
            map.json().len()
        );
        assert_eq!(shown, expected);
    }

    fn pack(json: &[u8]) -> Arc<RawObject<ConfigMap>> {
        let decoder = Arc::new(Decoder::new(&(), Trim::default(), false, 1 << 20));
        let read = RawObject::read(&decoder, RawJson::of(json));
        read.expect("a config map")
            .lazy
            .get()
            .expect("it is decoded")
    }
}

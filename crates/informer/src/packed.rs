//! Objects that are kept as JSON, and decoded when they are read.

mod recent;

use std::{borrow::Cow, fmt, sync::Arc};

use kube::{Resource, api::ObjectMeta};
use serde::de::DeserializeOwned;

pub(crate) use self::recent::Recent;
use crate::{
    DecodeError, Decoder, Named, Stored,
    decode::Pruned,
    held::{Held, Hold},
};

/// A `K` that is kept as the JSON it came in, less the fields that are dropped, and decoded
/// on [`get`](Self::get).
///
/// By default a [`ListWatch`](crate::ListWatch) keeps JSON too, and decodes each object once,
/// when it comes: nine tenths of what an event costs. Where most events are read by no handler,
/// that can be saved as well, for the price that to look may fail. A `Packed` knows its name,
/// uid and version without decoding anything.
///
/// # Contract
///
/// *Guaranteed.* Store, index and events are those of every other object. What was decoded last
/// is kept for the next reads ([`RECENT`](Self::RECENT) objects an informer), so that several looks
/// at one object decode it once. A handler of `K`s can be added where an informer of `Packed<K>`s
/// is: what it is given is decoded before it is called.
///
/// *Required.* An index over packed objects decodes each of them that changes; it is worth that
/// only where it saves more.
///
/// *Not guaranteed.* That it decodes. An object that does not is found out by the first who
/// looks, and not when it comes; its identity is read then, and that it is whole.
///
/// # Example
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client};
/// use windlass_informer::{Informer, ListWatch, ObjectKey};
///
/// # async fn pods(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Informer::new(ListWatch::new(Api::<Pod>::all(client)).packed());
/// if let Some(pod) = pods.store().get(&ObjectKey::new("web").within("shop")) {
///     println!("{} bytes, on {:?}", pod.json().len(), pod.get()?.spec);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Packed<K> {
    pruned: Pruned,
    decoder: Arc<Decoder<K>>,

    /// Which of the packed objects of its decoder it is: what is remembered of it is remembered
    /// under this number.
    number: u64,

    held: Held<K>,
}

// === impl Packed ===

impl<K> Packed<K> {
    /// How many decoded objects an informer of packed ones remembers: about as many as are
    /// being worked on at once.
    pub const RECENT: usize = Recent::<K>::SLOTS;

    pub(crate) fn new(pruned: Pruned, decoder: Arc<Decoder<K>>) -> Self {
        Self {
            pruned,
            number: decoder.recent.number(),
            decoder,
            held: Held::new(),
        }
    }

    /// The object, where it is decoded already.
    fn known(&self) -> Option<Arc<K>> {
        (self.held.get()).or_else(|| self.decoder.recent.get(self.number))
    }

    /// The JSON that is kept.
    #[must_use]
    pub fn json(&self) -> &str {
        self.pruned.json()
    }
}

impl<K: Resource + DeserializeOwned> Packed<K> {
    /// The object, decoded now.
    pub(crate) fn decode(&self) -> Result<K, DecodeError> {
        self.decoder.kept(&self.pruned)
    }

    /// The object, decoded, unless it was decoded not long ago.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it does not decode, with the place and without what stands there.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        if let Some(object) = self.known() {
            return Ok(object);
        }
        let object = Arc::new(self.decode().inspect_err(|_| self.held.fail())?);
        self.decoder.recent.put(self.number, Arc::clone(&object));
        Ok(object)
    }
}

impl<K> Named for Packed<K> {
    fn namespace(&self) -> Option<&str> {
        self.pruned.namespace()
    }

    fn name(&self) -> &str {
        self.pruned.name()
    }

    fn uid(&self) -> Option<&str> {
        self.pruned.uid()
    }

    fn resource_version(&self) -> Option<&str> {
        self.pruned.resource_version()
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Stored for Packed<K> {
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

    fn kept_json(&self) -> Option<&str> {
        Some(self.json())
    }

    fn held(&self) -> Option<&dyn Hold> {
        Some(&self.held)
    }

    fn forget(&self) {
        self.decoder.recent.remove(self.number);
    }
}

/// Shows who it is, and never what is in it, which may be secret.
impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("key", &format_args!("{}", self.key()))
            .field("bytes", &self.json().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::Packed;
    use crate::{
        Named as _, Stored as _, Trim,
        decode::{Decoder, Form as _, Raw},
    };

    const MAP: &[u8] = br#"{"kind":"ConfigMap","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7","generation":3,"managedFields":[{"manager":"m"}]},"data":{"a":"b"}}"#;

    #[test]
    fn a_packed_object_knows_who_it_is_and_is_decoded_once() {
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
    fn what_is_packed_is_whole() {
        let decoder = Arc::new(Decoder::<ConfigMap>::new(&(), Trim::default()));
        for end in 1..MAP.len() {
            let half = Packed::read(&decoder, Raw::of(&MAP[..end]));
            assert!(half.is_err(), "{}", String::from_utf8_lossy(&MAP[..end]));
        }
    }

    #[test]
    fn what_was_decoded_is_forgotten_in_time() {
        let decoder = Arc::new(Decoder::<ConfigMap>::new(&(), Trim::default()));
        let read = || {
            let read = Packed::read(&decoder, Raw::of(MAP));
            read.expect("a config map").kept.get().expect("packed")
        };
        let first = read().get().expect("a config map");
        for _ in 0..Packed::<ConfigMap>::RECENT {
            read().get().expect("a config map");
        }
        assert_eq!(Arc::strong_count(&first), 1);
    }

    fn pack(json: &[u8]) -> Arc<Packed<ConfigMap>> {
        let decoder = Arc::new(Decoder::new(&(), Trim::default()));
        let read = Packed::read(&decoder, Raw::of(json));
        read.expect("a config map").kept.get().expect("packed")
    }
}

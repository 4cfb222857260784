//! The forms in which a store keeps objects. *(pure)*

use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::{
    IncomingObject, LazyObject, RawObject, Stored,
    decode::{DecodeError, Decoder, RawJson, content_hash},
    decoded_object::DecodedObject,
};

/// A form in which a store can keep a `K`: decoded, or as [`RawObject`].
///
/// Chosen with [`ListWatch::raw`](crate::ListWatch::raw).
#[doc(hidden)]
pub trait StoredForm<K>: Stored + Sized {
    /// Reads an object from JSON.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it cannot be read in this form.
    #[doc(hidden)]
    fn read(
        decoder: &Arc<Decoder<K>>,
        raw: RawJson<'_>,
    ) -> Result<IncomingObject<Self>, DecodeError>;
}

// === impl StoredForm ===

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> StoredForm<K> for K {
    fn read(
        decoder: &Arc<Decoder<K>>,
        raw: RawJson<'_>,
    ) -> Result<IncomingObject<Self>, DecodeError> {
        let named = |object: K| match object.meta().name {
            Some(_) => Ok(Arc::new(object)),
            None => Err(DecodeError::Shape {
                path: "metadata.name".to_owned(),
                expected: "missing field `name`".to_owned(),
            }),
        };
        let trimmed = decoder.trimmed(raw)?;
        let object = decoder.decode(&trimmed);
        let object = named(object.map_err(|error| error.in_received(raw.json))?)?;
        if decoder.keep_decoded {
            // A generation shows whether the content has changed.
            let content_hash = match object.meta().generation {
                Some(_) => None,
                None => content_hash(trimmed.json()),
            };
            return Ok(match content_hash {
                Some(content_hash) => IncomingObject {
                    lazy: LazyObject::from_erased(Arc::new(DecodedObject {
                        object: Arc::clone(&object),
                        content_hash,
                    })),
                    object: Some(object),
                },
                None => IncomingObject::from(object),
            });
        }
        let raw_object = RawObject::new(trimmed, Arc::clone(decoder));
        Ok(IncomingObject {
            object: Some(object),
            lazy: LazyObject::from_erased(Arc::new(raw_object)),
        })
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> StoredForm<K> for RawObject<K> {
    fn read(
        decoder: &Arc<Decoder<K>>,
        raw: RawJson<'_>,
    ) -> Result<IncomingObject<Self>, DecodeError> {
        let raw_object = Self::new(decoder.trimmed(raw)?, Arc::clone(decoder));
        Ok(IncomingObject::from(raw_object))
    }
}

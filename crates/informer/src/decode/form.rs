//! In which form an object is kept. *(pure)*

use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::{DecodeError, Decoder};
use crate::{Packed, Stored};

/// A form in which a store can keep a `K`: as it is, or [`Packed`].
///
/// It is chosen where the list and watch is set up, with
/// [`ListWatch::packed`](crate::ListWatch::packed).
pub trait Form<K>: Stored + Sized {
    /// Reads an object that came over the wire.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it cannot be kept in this form.
    #[doc(hidden)]
    fn read(decoder: &Arc<Decoder<K>>, json: &[u8]) -> Result<Self, DecodeError>;
}

// === impl Form ===

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Form<K> for K {
    fn read(decoder: &Arc<Decoder<K>>, json: &[u8]) -> Result<Self, DecodeError> {
        let object = decoder.object(json)?;
        if object.meta().name.is_none() {
            return Err(DecodeError::Shape {
                path: "metadata.name".to_owned(),
                expected: "missing field `name`".to_owned(),
            });
        }
        Ok(object)
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Form<K> for Packed<K> {
    fn read(decoder: &Arc<Decoder<K>>, json: &[u8]) -> Result<Self, DecodeError> {
        let (identity, json) = decoder.pruned(json)?;
        Ok(Self::new(identity, json, Arc::clone(decoder)))
    }
}

//! The form in which an object is kept. *(pure)*

use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::{DecodeError, Decoder};
use crate::{IncomingObject, LazyObject, RawObject, Stored};

/// A form in which a store can keep a `K`: as it is, or [`RawObject`].
///
/// It is chosen where the list and watch is set up, with
/// [`ListWatch::raw`](crate::ListWatch::raw).
pub trait StoredForm<K>: Stored + Sized {
    /// Reads an object that came over the wire.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if it cannot be kept in this form.
    #[doc(hidden)]
    fn read(
        decoder: &Arc<Decoder<K>>,
        raw: RawJson<'_>,
    ) -> Result<IncomingObject<Self>, DecodeError>;
}

/// An object as it came over the wire.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct RawJson<'a> {
    pub(crate) json: &'a [u8],

    /// Whether it was cut out of something greater by its brackets. Where it was not, the decoder
    /// finds out whether it has an end.
    pub(crate) is_whole: bool,
}

// === impl RawJson ===

impl<'a> RawJson<'a> {
    /// What should be one object.
    pub(crate) const fn of(json: &'a [u8]) -> Self {
        let is_whole = false;
        Self { json, is_whole }
    }

    /// What was cut out of something greater by its brackets.
    pub(crate) const fn whole(json: &'a [u8]) -> Self {
        let is_whole = true;
        Self { json, is_whole }
    }
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
        if decoder.keep_decoded {
            return Ok(IncomingObject::from(named(decoder.object(raw.json)?)?));
        }
        let packed = RawObject::new(decoder.pruned(raw)?, Arc::clone(decoder));
        // Where it is wrong is a place in what came, and not in what is kept.
        let explain = |error| decoder.object(raw.json).err().unwrap_or(error);
        let object = packed.decode().map_err(explain)?;
        Ok(IncomingObject {
            object: Some(named(object)?),
            kept: LazyObject::from_erased(Arc::new(packed)),
            bytes: 0,
        })
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> StoredForm<K> for RawObject<K> {
    fn read(
        decoder: &Arc<Decoder<K>>,
        raw: RawJson<'_>,
    ) -> Result<IncomingObject<Self>, DecodeError> {
        let packed = Self::new(decoder.pruned(raw)?, Arc::clone(decoder));
        Ok(IncomingObject::from(packed))
    }
}

//! The form in which an object is kept. *(pure)*

use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::{DecodeError, Decoder};
use crate::{Fresh, Kept, Packed, Stored};

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
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Fresh<Self>, DecodeError>;
}

/// An object as it came over the wire.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Raw<'a> {
    pub(crate) json: &'a [u8],

    /// Whether it was cut out of something greater by its brackets. Where it was not, the decoder
    /// finds out whether it has an end.
    pub(crate) is_whole: bool,
}

// === impl Raw ===

impl<'a> Raw<'a> {
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

// === impl Form ===

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Form<K> for K {
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Fresh<Self>, DecodeError> {
        let named = |object: K| match object.meta().name {
            Some(_) => Ok(Arc::new(object)),
            None => Err(DecodeError::Shape {
                path: "metadata.name".to_owned(),
                expected: "missing field `name`".to_owned(),
            }),
        };
        if decoder.keeps_decoded {
            return Ok(Fresh::from(named(decoder.object(raw.json)?)?));
        }
        let packed = Packed::new(decoder.pruned(raw)?, Arc::clone(decoder));
        // Where it is wrong is a place in what came, and not in what is kept.
        let explain = |error| decoder.object(raw.json).err().unwrap_or(error);
        let object = packed.decode().map_err(explain)?;
        Ok(Fresh {
            object: Some(named(object)?),
            kept: Kept::any(Arc::new(packed)),
            bytes: 0,
        })
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Form<K> for Packed<K> {
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Fresh<Self>, DecodeError> {
        let packed = Self::new(decoder.pruned(raw)?, Arc::clone(decoder));
        Ok(Fresh::from(packed))
    }
}

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
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Self, DecodeError>;
}

/// An object as it came over the wire.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Raw<'a> {
    pub(crate) json: &'a [u8],

    /// Whether it was cut out of something greater by its brackets. Where it was not, whoever
    /// reads it finds out whether it has an end.
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
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Self, DecodeError> {
        let object = decoder.object(raw.json)?;
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
    fn read(decoder: &Arc<Decoder<K>>, raw: Raw<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(decoder.pruned(raw)?, Arc::clone(decoder)))
    }
}

//! The JSON of one object, and whether its end is known. *(pure)*

/// The JSON of one object.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct RawJson<'a> {
    pub(crate) json: &'a [u8],

    /// Whether its end was found by its brackets. Otherwise the decoder checks that it has an end.
    pub(crate) is_whole: bool,
}

// === impl RawJson ===

impl<'a> RawJson<'a> {
    /// JSON that should be one object.
    pub(crate) const fn of(json: &'a [u8]) -> Self {
        let is_whole = false;
        Self { json, is_whole }
    }

    /// JSON whose end was found by its brackets.
    pub(crate) const fn whole(json: &'a [u8]) -> Self {
        let is_whole = true;
        Self { json, is_whole }
    }
}

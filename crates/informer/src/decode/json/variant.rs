//! Variants of enums: a name, or an object with one field. *(pure)*

use serde::de::{DeserializeSeed, Deserializer as _, EnumAccess, VariantAccess, Visitor};

use super::{JsonError, Map, Reader};

/// The name of a variant, followed by its content.
pub(super) struct Variant<'r, 'de>(pub(super) Map<'r, 'de>);

/// The content of a variant.
pub(super) struct VariantContent<'r, 'de>(&'r mut Reader<'de>);

// === impl Variant ===

impl<'r, 'de> EnumAccess<'de> for Variant<'r, 'de> {
    type Error = JsonError;
    type Variant = VariantContent<'r, 'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, VariantContent<'r, 'de>), JsonError> {
        let name = self.0.next_name()?;
        let reader = self.0.into_reader();
        match name {
            Some(name) => Ok((seed.deserialize(reader.key(name))?, VariantContent(reader))),
            None => Err(reader.misplaced()),
        }
    }
}

// === impl VariantContent ===

impl<'de> VariantAccess<'de> for VariantContent<'_, 'de> {
    type Error = JsonError;

    fn unit_variant(self) -> Result<(), JsonError> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, JsonError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, JsonError> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.0.deserialize_struct("", fields, visitor)
    }
}

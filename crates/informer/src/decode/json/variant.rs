//! Variants of enums: a name, or an object whose one field says what the variant holds. *(pure)*

use serde::de::{DeserializeSeed, Deserializer as _, EnumAccess, VariantAccess, Visitor};

use super::{Map, Problem, Reader};

/// The name of a variant, and then what it holds.
pub(super) struct Variant<'r, 'de>(pub(super) Map<'r, 'de>);

/// What a variant holds.
pub(super) struct Held<'r, 'de>(&'r mut Reader<'de>);

// === impl Variant ===

impl<'r, 'de> EnumAccess<'de> for Variant<'r, 'de> {
    type Error = Problem;
    type Variant = Held<'r, 'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, Held<'r, 'de>), Problem> {
        let name = self.0.next_name()?;
        let reader = self.0.into_reader();
        match name {
            Some(name) => Ok((seed.deserialize(reader.key(name))?, Held(reader))),
            None => Err(reader.misplaced()),
        }
    }
}

// === impl Held ===

impl<'de> VariantAccess<'de> for Held<'_, 'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Problem> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.0.deserialize_struct("", fields, visitor)
    }
}

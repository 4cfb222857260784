//! A watch line that says that an object is there, read in one go. *(pure)*

use std::{fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};

use super::trim::{Key, Trim, Types};

/// Reads `{"type":"ADDED","object":{..}}` straight into the object.
///
/// Lines of another type, and lines whose type does not come first, are an error here; whoever
/// asks reads them step by step instead.
pub(super) struct There<'t, K> {
    pub(super) trim: &'t Trim,
    pub(super) types: &'t Types,
    pub(super) object: PhantomData<fn() -> K>,
}

/// The object of such a line.
struct Object<'t, K>(There<'t, K>);

// === impl There ===

impl<'de, K: serde::Deserialize<'de>> DeserializeSeed<'de> for There<'_, K> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<K, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, K: serde::Deserialize<'de>> Visitor<'de> for There<'_, K> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<K, A::Error> {
        let other = || A::Error::custom("not an object that is there");
        match map.next_entry::<Key<'de>, Key<'de>>()? {
            Some((Key(key), Key(kind)))
                if key == "type" && matches!(&*kind, "ADDED" | "MODIFIED") => {}
            _ => return Err(other()),
        }
        if map
            .next_key::<Key<'de>>()?
            .is_none_or(|Key(key)| key != "object")
        {
            return Err(other());
        }
        let object = map.next_value_seed(Object(self))?;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(object)
    }
}

impl<'de, K: serde::Deserialize<'de>> DeserializeSeed<'de> for Object<'_, K> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<K, D::Error> {
        self.0.trim.decode(from, self.0.types)
    }
}

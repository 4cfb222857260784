//! What stands between a deserializer and a type, and lets some fields not pass. *(pure)*

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
};

use super::{Node, Types};

/// Where in the object we are.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) node: &'t Node,
    /// At the root only: what to fill in.
    pub(super) types: Option<&'t Types>,
}

/// Anything of serde's that is passed through, with the place it stands at.
pub(super) struct Trimmed<'t, F> {
    pub(super) from: F,
    pub(super) place: Place<'t>,
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.from.$method($($argument,)* Trimmed { from: visitor, place: self.place })
        }
    )*};
}

/// Every method is forwarded: a type asks for what it wants, and `Option<ObjectMeta>` asks
/// for an option before it asks for a struct.
impl<'de, D: Deserializer<'de>> Deserializer<'de> for Trimmed<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any(); deserialize_bool(); deserialize_i8(); deserialize_i16();
        deserialize_i32(); deserialize_i64(); deserialize_i128(); deserialize_u8();
        deserialize_u16(); deserialize_u32(); deserialize_u64(); deserialize_u128();
        deserialize_f32(); deserialize_f64(); deserialize_char(); deserialize_str();
        deserialize_string(); deserialize_bytes(); deserialize_byte_buf();
        deserialize_option(); deserialize_unit(); deserialize_seq(); deserialize_map();
        deserialize_identifier(); deserialize_ignored_any();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn is_human_readable(&self) -> bool {
        self.from.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.from.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Trimmed<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.from.expecting(f)
    }

    visit! {
        visit_bool(bool); visit_i8(i8); visit_i16(i16); visit_i32(i32); visit_i64(i64);
        visit_i128(i128); visit_u8(u8); visit_u16(u16); visit_u32(u32); visit_u64(u64);
        visit_u128(u128); visit_f32(f32); visit_f64(f64); visit_char(char); visit_str(&str);
        visit_borrowed_str(&'de str); visit_string(String); visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.from.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.from.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let place = self.place;
        self.from.visit_some(Trimmed { from, place })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let place = self.place;
        self.from.visit_newtype_struct(Trimmed { from, place })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.from.visit_seq(seq)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.from.visit_enum(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        match self.place.node {
            Node::Kept(fields) if !fields.is_empty() || self.place.types.is_some() => {
                self.from.visit_map(TrimmedMap {
                    from: map,
                    fields,
                    value: Value::Parsed(None),
                    kind: self.place.types.map(|types| &*types.kind),
                    missing: self
                        .place
                        .types
                        .map_or(Missing::default(), |types| Missing {
                            api_version: Some(&types.api_version),
                            kind: Some(&types.kind),
                        }),
                })
            }
            _ => self.from.visit_map(map),
        }
    }
}

struct TrimmedMap<'t, A> {
    from: A,
    fields: &'t BTreeMap<String, Node>,
    value: Value<'t>,
    missing: Missing<'t>,

    /// At the root only: the kind that it must be, if it says of which it is.
    kind: Option<&'t str>,
}

/// What the value of the key just given is.
enum Value<'t> {
    /// What was parsed, with the fields to drop inside of it.
    Parsed(Option<&'t Node>),
    /// What was left out, filled in.
    Filled(&'t str),
    /// What was parsed, and must be this.
    Exactly(&'t str),
}

#[derive(Default)]
struct Missing<'t> {
    api_version: Option<&'t str>,
    kind: Option<&'t str>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for TrimmedMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        while let Some(Key(key)) = self.from.next_key()? {
            match &*key {
                "apiVersion" => self.missing.api_version = None,
                "kind" => self.missing.kind = None,
                _ => {}
            }
            let below = self.fields.get(&*key);
            if matches!(below, Some(Node::Dropped)) {
                self.from.next_value::<IgnoredAny>()?;
                continue;
            }
            self.value = match self.kind {
                Some(kind) if key == "kind" => Value::Exactly(kind),
                _ => Value::Parsed(below),
            };
            return match key {
                Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)),
                Cow::Owned(key) => seed.deserialize(StrDeserializer::new(&key)),
            }
            .map(Some);
        }
        let (key, value) = if let Some(value) = self.missing.api_version.take() {
            ("apiVersion", value)
        } else if let Some(value) = self.missing.kind.take() {
            ("kind", value)
        } else {
            return Ok(None);
        };
        self.value = Value::Filled(value);
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value {
            Value::Filled(value) => seed.deserialize(StrDeserializer::new(value)),
            Value::Exactly(kind) => {
                let Key(found) = self.from.next_value()?;
                if found != kind {
                    return Err(A::Error::custom("an object of another kind"));
                }
                seed.deserialize(StrDeserializer::new(&found))
            }
            Value::Parsed(None) => self.from.next_value_seed(seed),
            Value::Parsed(Some(node)) => self.from.next_value_seed(Trimmed {
                from: seed,
                place: Place { node, types: None },
            }),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Trimmed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        let place = self.place;
        self.from.deserialize(Trimmed { from, place })
    }
}

/// The key of a field, borrowed from the input where it holds no escape.
pub(in crate::decode) struct Key<'de>(pub(in crate::decode) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

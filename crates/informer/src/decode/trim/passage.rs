//! What stands between a deserializer and a type, and lets some fields not pass. *(pure)*
//!
//! It also tells each list how many elements will come, so that the list takes no more room
//! than it needs: serde's lists otherwise grow by doubling, and a container of a Pod is two
//! kilobytes. For that it must know where in the JSON a list begins. The deserializer does not
//! say; but the name of a field is borrowed from the JSON, and its value begins behind it.

use std::{borrow::Cow, cell::Cell, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
};

use super::{Node, Types};
use crate::decode::nesting;

/// Where in the object we are.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    /// What is dropped below.
    node: Option<&'t Node>,

    /// At the root only: what to fill in.
    types: Option<&'t Types>,

    /// All of the JSON.
    json: &'t str,

    /// Where the value begins, or the white space and the colon before it, if that is known.
    begins: Option<usize>,

    /// For a name: where to note its end.
    noted: Option<&'t Cell<Option<usize>>>,
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

// === impl Place ===

impl<'t> Place<'t> {
    pub(super) const fn root(json: &'t str, node: &'t Node, types: &'t Types) -> Self {
        Self {
            node: Some(node),
            types: Some(types),
            json,
            begins: Some(0),
            noted: None,
        }
    }

    /// A place further in, of which nothing is known.
    const fn within(self) -> Self {
        Self {
            node: None,
            types: None,
            begins: None,
            noted: None,
            ..self
        }
    }

    /// Where `text` ends, if it is a piece of the JSON.
    fn end_of(&self, text: &str) -> Option<usize> {
        let start = text
            .as_ptr()
            .addr()
            .checked_sub(self.json.as_ptr().addr())?;
        let end = start + text.len();
        (end < self.json.len()).then_some(end)
    }

    /// How many elements the list that begins here has.
    fn elements(&self) -> Option<usize> {
        let value = self.json.as_bytes().get(self.begins?..)?;
        let list = value.iter().position(|byte| *byte == b'[')?;
        nesting::elements(&value[list..])
    }
}

// === impl Trimmed ===

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
        visit_string(String); visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>);
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<V::Value, E> {
        if let Some(noted) = self.place.noted {
            noted.set(self.place.end_of(value));
        }
        self.from.visit_borrowed_str(value)
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
        self.from.visit_seq(TrimmedSeq {
            from: seq,
            place: self.place,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.from.visit_enum(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let types = self.place.types;
        let fields = match self.place.node {
            Some(Node::Kept(fields)) if !fields.is_empty() => Some(fields),
            _ => None,
        };
        self.from.visit_map(TrimmedMap {
            from: map,
            place: self.place.within(),
            fields,
            value: Value::Parsed(None),
            begins: Cell::new(None),
            kind: types.map(|types| &*types.kind),
            missing: types.map_or(Missing::default(), |types| Missing {
                api_version: Some(&types.api_version),
                kind: Some(&types.kind),
            }),
        })
    }
}

struct TrimmedSeq<'t, A> {
    from: A,
    place: Place<'t>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for TrimmedSeq<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.from.next_element_seed(Trimmed {
            from: seed,
            place: self.place.within(),
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.from.size_hint().or_else(|| self.place.elements())
    }
}

struct TrimmedMap<'t, A> {
    from: A,

    /// What is known of every place in it.
    place: Place<'t>,

    /// What is dropped in it, if anything is.
    fields: Option<&'t BTreeMap<String, Node>>,

    value: Value<'t>,

    /// Where the value begins.
    begins: Cell<Option<usize>>,
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
        // An escaped name is no piece of the JSON.
        self.begins.set(None);
        if self.fields.is_none() && self.kind.is_none() {
            // Whatever the names are, numbers too.
            return self.from.next_key_seed(Trimmed {
                from: seed,
                place: Place {
                    noted: Some(&self.begins),
                    ..self.place
                },
            });
        }
        while let Some(Key(key)) = self.from.next_key()? {
            match &*key {
                "apiVersion" => self.missing.api_version = None,
                "kind" => self.missing.kind = None,
                _ => {}
            }
            let below = self.fields.and_then(|fields| fields.get(&*key));
            if matches!(below, Some(Node::Dropped)) {
                self.from.next_value::<IgnoredAny>()?;
                continue;
            }
            self.value = match self.kind {
                Some(kind) if key == "kind" => Value::Exactly(kind),
                _ => Value::Parsed(below),
            };
            self.begins.set(self.place.end_of(&key));
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
            Value::Parsed(node) => self.from.next_value_seed(Trimmed {
                from: seed,
                place: Place {
                    node,
                    begins: self.begins.get(),
                    ..self.place
                },
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
struct Key<'de>(Cow<'de, str>);

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

//! Every shape that a type may have for serde.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::agree;
use crate::decode::json::Reader;

/// All that serde may ask for, but numbers.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shapes {
    unit: Option<()>,
    letter: Option<char>,
    tuple: Option<(u8, String)>,
    bytes: Option<Bytes>,
    newtype: Option<Newtype>,
    one: Option<One>,
    tagged: Option<Tagged>,
    untagged: Option<Untagged>,
    numbers: Option<BTreeMap<i16, u8>>,
    fractions: Option<Vec<(Fraction, u8)>>,
    flags: Option<BTreeMap<bool, u8>>,
    named: Option<BTreeMap<Unit, u8>>,
    nothing: Option<Nothing>,
    list: Option<Vec<Option<i64>>>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Newtype(Vec<bool>);

#[derive(Debug, PartialEq, Deserialize)]
struct Fraction(f64);

#[derive(Debug, PartialEq, Deserialize)]
struct Nothing;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Unit {
    A,
    B,
}

#[derive(Debug, PartialEq, Deserialize)]
enum One {
    Unit,
    Newtype(u8),
    Tuple(u8, u8),
    Struct { a: u8 },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    A { list: Vec<u8> },
    B,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i32),
    Text(String),
    Map(BTreeMap<String, Value>),
}

#[derive(Debug, PartialEq)]
pub(super) struct Bytes(Vec<u8>);

#[test]
fn whatever_serde_asks_for_is_there() {
    for value in [
        "null",
        "true",
        "false",
        "tru",
        "nul",
        "0",
        "-7",
        "1.5",
        "\"A\"",
        "\"Unit\"",
        "\"é\"",
        "\"\"",
        "\"B\\u0000\"",
        "[]",
        "[1]",
        "[1,\"a\"]",
        "[1,\"a\",2]",
        "[true,false]",
        "[null,1]",
        "[[1.5,2],[3,4],[1e2,0]]",
        "{}",
        "{\"Newtype\":7}",
        "{\"Unit\":null}",
        "{\"Tuple\":[1,2]}",
        "{\"Tuple\":[1]}",
        "{\"Struct\":{\"a\":1}}",
        "{\"Struct\":[1]}",
        "{\"Newtype\":7,\"x\":1}",
        "{\"type\":\"A\",\"list\":[1,2]}",
        "{\"list\":[1,2],\"type\":\"A\"}",
        "{\"type\":\"B\"}",
        "{\"1\":2}",
        "{\"-1\":2,\"30000\":1}",
        "{\"true\":1,\"false\":2}",
        "{\"tru\":1}",
        "{\"A\":1,\"B\":2}",
        "{\"\\u0041\":1}",
        "{\"\\u0031\":1}",
        "{\"a\":{\"b\":[1,{}]}}",
        "{\"a\":1,}",
        "{,}",
        "{,\"a\":1}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "]",
        "}",
        "",
        "{\"a\":1,\"a\":2}",
        " [ 1 , \t\"a\"\r\n] ",
    ] {
        agree::<Value>(value);
        agree::<IgnoredAny>(value);
        for field in [
            "unit",
            "letter",
            "tuple",
            "bytes",
            "newtype",
            "one",
            "tagged",
            "untagged",
            "numbers",
            "fractions",
            "flags",
            "named",
            "nothing",
            "list",
            "unknown",
        ] {
            agree::<Shapes>(&format!("{{\"{field}\":{value}}}"));
        }
        let raw = format!("[{value}, {value} ]");
        let raw = |reader: bool| -> Result<Vec<Box<RawValue>>, ()> {
            if reader {
                Reader::read(&raw).map_err(drop)
            } else {
                serde_json::from_str(&raw).map_err(drop)
            }
        };
        let text = |raw: Vec<Box<RawValue>>| raw.iter().map(ToString::to_string).collect();
        let text = |raw: Result<_, _>| -> Result<Vec<String>, ()> { raw.map(text) };
        assert_eq!(text(raw(true)), text(raw(false)), "{value}");
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(Bytes(bytes))
            }
        }

        from.deserialize_bytes(Visitor)
    }
}

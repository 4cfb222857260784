//! The reader and `serde_json`, side by side: they agree on what is JSON, and on what it says.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DynamicObject;
use proptest::prelude::*;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, value::RawValue};

use super::Reader;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"4f1d","creationTimestamp":"2026-11-20T08:00:00Z","generation":1,"deletionGracePeriodSeconds":-5,"labels":{"app.kubernetes.io/name":"web","a\/b":"\ud83d\ude00 \u00e9"},"annotations":{"checksum/config":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","text":"a\n\"b\"\\ é"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"0b1c","controller":true}],"finalizers":["a/b","c/d"],"later":{"x":[1,{"y":[null]}]}},"spec":{"nodeName":"node-1","volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"a","image":"i","args":["-x","[\"{"],"env":[{"name":"A","value":"\t"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"p"}}}],"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":"http"}}},{"name":"b","readinessProbe":{"tcpSocket":{"port":8080}}}],"tolerations":[{"key":"k","tolerationSeconds":300}]},"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"}],"startTime":null,"conditions":[]}}"#;

const MAP: &str = r#"{"metadata":{"name":"a"},"data":{"a":"b","k\n":""},"binaryData":{"b":"AAEC"},"immutable":false}"#;

/// All that serde may ask for, but numbers.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shapes {
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
struct Bytes(Vec<u8>);

#[test]
fn numbers_are_what_they_were() {
    for number in [
        "0",
        "-0",
        "-1",
        "7",
        "300",
        "-128",
        "-129",
        "01",
        "-01",
        "00",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "1.5",
        "-0.0",
        "0.1",
        "0e1",
        "1e5",
        "1E+5",
        "1e-5",
        "1e",
        "1e+",
        "2.5e2",
        "1e400",
        "-1e400",
        "1e-400",
        "1x",
        "1 2",
        "0x1",
        "4294967295",
        "4294967296",
        "-2147483648",
        "-2147483649",
        "999999999999999999",
        "1000000000000000000",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "-18446744073709551616",
        "340282366920938463463374607431768211455",
        "123456789012345678901234567890.5e-7",
    ] {
        agree::<u8>(number);
        agree::<i8>(number);
        agree::<u32>(number);
        agree::<i32>(number);
        agree::<u64>(number);
        agree::<i64>(number);
        agree::<u128>(number);
        agree::<i128>(number);
        agree::<f32>(number);
        agree::<f64>(number);
        agree::<Value>(number);
        agree::<Value>(&format!("[{number}]"));
        agree::<Value>(&format!("{{\"a\" : {number} ,\"b\":{number}}}"));
        for spaced in [
            format!("{{\"{number}\":1}}"),
            format!("{{\"{number} \":1}}"),
        ] {
            agree::<BTreeMap<i16, u8>>(&spaced);
            agree::<BTreeMap<u64, u8>>(&spaced);
            agree::<BTreeMap<i128, u8>>(&spaced);
        }
    }
}

#[test]
fn strings_are_what_they_were() {
    for text in [
        r"",
        r"a",
        r"é",
        r"\n\r\t\b\f\/\\\'",
        r#"\""#,
        r"\u0041",
        r"\u00e9\u00E9",
        r"\u0000",
        r"\ud83d\ude00",
        r"\ud83d",
        r"\ude00",
        r"\ud83d\n",
        r"\ud83d\ud83d",
        r"\ud83dx",
        r"\u12",
        r"\u12g4",
        r"\u+123",
        r"\x",
        r"\u",
        r"\",
        "\u{1}",
        "\n",
        "\u{7f}",
        "\u{1f600}",
        "0123456789abcdef",
        "0123456789abcde",
        "0123456789abcdef0123456789abcdef\u{e9}",
        r"0123456789abcde\n0123456789abcdef\t\t",
        "0123456789abcdef\u{1f}",
        "a\0",
    ] {
        for json in [
            format!("\"{text}\""),
            format!("\"{text}"),
            format!(" \"{text}\" "),
        ] {
            agree::<String>(&json);
            agree::<char>(&json);
            agree::<Value>(&json);
            agree::<Bytes>(&json);
            agree::<IgnoredAny>(&json);
            agree::<BTreeMap<String, u8>>(&format!("{{{json}:1}}"));
            agree::<Vec<String>>(&format!("[{json},{json}]"));
        }
    }
}

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

#[test]
fn values_stand_in_each_other_as_deep_as_they_may() {
    for depth in [1, 2, 63, 126, 127, 128, 129, 200, 100_000] {
        let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let both = format!("{}1{}", r#"{"a":["#.repeat(depth), "]}".repeat(depth));
        for json in [lists, objects, both] {
            agree::<Value>(&json);
            agree::<IgnoredAny>(&json);
            agree::<Value>(&json[..json.len() - 1]);
            agree::<Pod>(&format!(r#"{{"spec":{json}}}"#));
            agree::<Pod>(&format!(
                r#"{{"unknown":{json},"metadata":{{"name":"a"}}}}"#
            ));
        }
    }
}

#[test]
fn an_object_that_breaks_off_is_none_wherever_it_does() {
    for (end, _) in POD.char_indices() {
        agree_on_objects(&POD[..end]);
    }
    agree_on_objects(POD);
    assert!(Reader::read::<Pod>(POD).is_ok(), "it is a pod");
    assert!(Reader::read::<ConfigMap>(MAP).is_ok(), "it is a config map");
}

#[test]
fn every_list_is_told_how_many_elements_come() {
    let lists = |json: &str| -> Vec<Vec<Vec<u8>>> { Reader::read(json).expect("lists") };
    for json in [
        "[[[1,2,3],[],[4]],[],[[5]]]",
        "[ [ [ 1 ] , [ ] ] ]",
        &format!("[{}[[1,2,3,4,5]]]", "[[1],[]],".repeat(100)),
    ] {
        assert_exact(&lists(json));
    }
    // What nobody asks for is stepped over.
    let json =
        r#"{"x":[[1],[[2],[3]]],"newtype":[true,false,true],"y":[[]],"list":[1,2,null,4,5]}"#;
    let read: BTreeMap<String, Value> = Reader::read(json).expect("an object");
    assert_eq!(read.len(), 4);
    let read: (IgnoredAny, Vec<Vec<u8>>) =
        Reader::read("[[[[1],[2]]],[[1,2,3],[],[],[],[]]]").expect("a pair");
    assert_eq!(read.1.capacity(), 5);
    assert_eq!(read.1[0].capacity(), 3);
}

proptest! {
    #[test]
    fn any_value_is_read_as_it_was_written(value in value()) {
        for json in [value.to_string(), format!("{value:#}")] {
            agree::<Value>(&json);
            agree::<IgnoredAny>(&json);
        }
    }

    #[test]
    fn any_text_is_json_for_both_or_for_neither(text in r#"[\[\]{}",:\\untrefals0-9.eE+ \n-]{0,12}"#) {
        agree::<Value>(&text);
        agree::<IgnoredAny>(&text);
        agree::<Vec<Value>>(&format!("[{text}]"));
        agree::<Shapes>(&format!("{{\"list\":[{text}]}}"));
    }

    #[test]
    fn an_object_that_was_tampered_with_is_the_same_for_both(
        json in prop_oneof![Just(POD), Just(MAP)],
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit(), 0usize..3), 1..4),
    ) {
        let mut json = json.to_owned();
        for (at, text, length) in edits {
            let mut at = at.index(json.len());
            while !json.is_char_boundary(at) {
                at -= 1;
            }
            let mut end = (at + length).min(json.len());
            while !json.is_char_boundary(end) {
                end += 1;
            }
            json.replace_range(at..end, &text);
        }
        agree_on_objects(&json);
    }

    #[test]
    fn a_spaced_object_is_the_same(spaces in prop::collection::vec("[ \t\r\n]{0,3}", 1..20)) {
        let mut spaces = spaces.iter().cycle();
        let mut json = String::new();
        let (mut is_text, mut is_escaped) = (false, false);
        for letter in POD.chars() {
            let separates = !is_text && matches!(letter, '{' | '}' | '[' | ']' | ',' | ':');
            let mut space = || if separates { spaces.next().map_or("", |it| it) } else { "" };
            json.push_str(space());
            json.push(letter);
            json.push_str(space());
            is_text ^= letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
        }
        agree_on_objects(&json);
        prop_assert!(Reader::read::<Pod>(&json).is_ok());
    }

    #[test]
    fn any_lists_are_told_their_lengths(lists in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..6), 0..20)) {
        let json = serde_json::to_string(&lists).expect("lists");
        let read: Vec<Vec<Vec<u8>>> = Reader::read(&json).expect("lists");
        assert_exact(&read);
        prop_assert_eq!(read, lists);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        (any::<i32>(), 0..20)
            .prop_map(|(number, by)| Value::from(f64::from(number) / f64::from(1 << by))),
        any::<String>().prop_map(Value::from),
        r#"[\\"{}\[\],a\n]{0,40}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// What is put in the place of something else.
fn edit() -> impl Strategy<Value = String> {
    prop_oneof![
        r#"[\[\]{}",:\\ntu0-9.eE -]{0,3}"#,
        prop_oneof![
            Just("null"),
            Just("[]"),
            Just("{}"),
            Just("-1.5"),
            Just("\"x\""),
            Just("\\u00"),
            Just("\\ud800"),
            Just("\u{1}"),
            Just("é"),
            Just("[[1],{}]"),
            Just("\"a\":1,"),
        ]
        .prop_map(str::to_owned),
    ]
}

#[track_caller]
fn agree_on_objects(json: &str) {
    agree::<Pod>(json);
    agree::<ConfigMap>(json);
    agree::<DynamicObject>(json);
    agree::<Value>(json);
    agree::<IgnoredAny>(json);
}

#[track_caller]
fn agree<T: DeserializeOwned + PartialEq + Debug>(json: &str) {
    let (ours, theirs) = (Reader::read::<T>(json), serde_json::from_str::<T>(json));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{json}"),
        (Err(_), Err(_)) => {}
        (ours, theirs) => panic!("{json:?}: {ours:?}, and serde_json says {theirs:?}"),
    }
}

#[track_caller]
fn assert_exact(lists: &Vec<Vec<Vec<u8>>>) {
    assert_eq!(lists.capacity(), lists.len());
    for list in lists {
        assert_eq!(list.capacity(), list.len());
        for list in list {
            assert_eq!(list.capacity(), list.len());
        }
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

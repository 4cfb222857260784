//! Valid and invalid JSON: numbers, strings, nested values, and any text.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    agree,
    shapes::{Bytes, Shapes},
};

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
        r"\n\r\t\b\f\/\\",
        r"\'",
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

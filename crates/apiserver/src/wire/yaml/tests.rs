//! Limits of documents, anchors, and reports of duplicate members.

use serde_json::{Value, json};

use super::{MAX_DEPTH, duplicate_warnings, from_slice};

fn value(text: &str) -> Value {
    match from_slice(text.as_bytes()) {
        Ok(document) => document.value,
        Err(error) => panic!("{text:?}: {error}"),
    }
}

#[test]
fn a_document_has_the_same_value_as_json() {
    let text = "a: 1\nb: [x, null, true, 1.5]\nc: {d: \"2\"}\n";
    assert_eq!(
        value(text),
        json!({ "a": 1, "b": ["x", null, true, 1.5], "c": { "d": "2" } })
    );
    assert_eq!(value("a: &x {k: v}\nb: *x\n")["b"], json!({ "k": "v" }));
}

#[test]
fn aliases_with_too_many_repetitions_are_refused() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ["b", "c", "d", "e", "f", "g"].iter().zip("abcdef".chars()) {
        let refs = vec![format!("*{before}"); 10].join(", ");
        for part in [name, ": &", name, " [", &refs, "]\n"] {
            text.push_str(part);
        }
    }
    let error = from_slice(text.as_bytes()).expect_err("a million values");
    assert!(error.to_string().contains("excessive aliasing"), "{error}");
}

#[test]
fn numbers_that_json_lacks_are_refused() {
    assert!(from_slice(b"a: .nan").is_err());
    assert!(from_slice(b"a: .inf").is_err());
}

#[test]
fn the_depth_of_a_document_is_limited() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(from_slice(nested(MAX_DEPTH).as_bytes()).is_ok());
    for text in [
        nested(MAX_DEPTH + 1),
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
    ] {
        assert!(from_slice(text.as_bytes()).is_err());
    }
}

#[test]
fn anchors_around_anchors_are_limited() {
    let text = "&a [".repeat(120) + &"x,".repeat(20_000) + &"]".repeat(120);
    let error = from_slice((text + " # *").as_bytes()).expect_err("2.4 million values");
    assert!(error.to_string().contains("excessive aliasing"), "{error}");
}

#[test]
fn an_anchor_does_not_contain_itself() {
    for text in ["&a [*a]", "&a {b: *a}", "{&a b: 1, c: &a [*a]}", "*a"] {
        assert!(from_slice(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(value("[&a 1, &a 2, *a]"), json!([1, 2, 2]));
    assert_eq!(
        value("{&a b: 1, *a : 2, c: *a}"),
        json!({ "b": 2, "c": "b" })
    );
}

#[test]
fn a_document_that_is_not_text_is_refused() {
    for body in [
        &b"a: \xff"[..],
        b"\xfe\xffa",
        b"a: \x00",
        b"a: \x7f",
        "a: \u{80}".as_bytes(),
    ] {
        assert!(from_slice(body).is_err(), "{body:?}");
    }
    assert_eq!(value("a: \u{a0}é😀")["a"], "\u{a0}é😀");
}

#[test]
fn reports_of_duplicates_are_bounded() {
    let text = format!("{{{}}}", "'a': 1, ".repeat(100_000));
    let duplicates = from_slice(text.as_bytes()).expect("it is YAML").duplicates;
    let total: usize = duplicates.iter().map(String::len).sum();
    assert!(total < 70_000, "{total} bytes");
    let warnings = duplicate_warnings("yaml: unmarshal errors:\n  line 1: a\n  line 2: b".into());
    assert_eq!(warnings, ["line 1: a", "line 2: b"]);
    assert_eq!(
        duplicate_warnings("duplicate field".into()),
        ["duplicate field"]
    );
}

#[test]
fn timestamps_have_a_date_and_perhaps_a_time() {
    let read = |text: &str| from_slice(format!("!!timestamp '{text}'").as_bytes());
    for text in [
        "2001-12-14",
        "2001-2-3",
        "2000-02-29",
        "2001-12-14T21:59:43Z",
        "2001-12-14t1:2:3.25+01:00",
        "2001-12-14 21:59:43,5",
    ] {
        assert_eq!(read(text).expect("a timestamp").value, text);
    }
    for text in [
        "",
        "12",
        "01-12-14",
        "2001-02-29",
        "2001-13-01",
        "2001-001-1",
        "2001-12-14-1",
        "2001-12-14 24:00:00",
        "2001-12-14 23:60:00",
        "2001-12-14 21:59:43Z",
        "2001-12-14 21:59",
        "2001-12-14 21:59:43.",
        "2001-12-14T21:59:43",
        "2001-12-14T21:59:43+0100",
        "2001-12-14T21:59:43+01:00:00",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn scalars_have_the_types_of_yaml_1_1() {
    let text = "[y, 'y', 014, 08, 0b11, -0o7, 1_0, .5_0, ._5, 1e3, 1e400, 1:30, 2001-12-14, ~, <<]";
    let types = json!([
        true,
        "y",
        12,
        8,
        3,
        -7,
        10,
        0.5,
        "._5",
        1000,
        "1e400",
        "1:30",
        "2001-12-14",
        null,
        "<<"
    ]);
    assert_eq!(value(text), types);
    let keys = "{1: a, on: b, 1.50: c, 1e6: d, 0.00001: e, .inf: f, -.inf: g, !!binary aGk=: h}";
    let names = json!({
        "1": "a", "true": "b", "1.5": "c", "1e+06": "d", "1e-05": "e", ".inf": "f", "-.inf": "g",
        "hi": "h",
    });
    assert_eq!(value(keys), names);
    assert_eq!(value("!!binary 4pj/eA=="), "\u{fffd}\u{fffd}\u{fffd}x");
}

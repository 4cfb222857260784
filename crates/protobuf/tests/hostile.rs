//! Hostile bytes: an error, at a bounded cost.

use serde_json::json;
use windlass_protobuf::{decode, encode};

/// A field that holds bytes.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = varint(u64::from(number) << 3 | 2);
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut kind = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    kind = field(1, &kind);
    [b"k8s\0".to_vec(), kind, field(2, raw)].concat()
}

/// What is said of bytes that are no object.
fn refusal(bytes: &[u8]) -> String {
    let error = decode(bytes).expect_err("no object").to_string();
    error
        .strip_prefix("cannot decode protobuf: ")
        .expect("what failed")
        .to_owned()
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let deployment = |spec: &[u8]| envelope("apps/v1", "Deployment", &field(2, spec));
    for (bytes, expected) in [
        (Vec::new(), "does not begin with the four bytes `k8s\\0`"),
        (
            b"k8s\x01".to_vec(),
            "does not begin with the four bytes `k8s\\0`",
        ),
        (
            b"k8s\0".to_vec(),
            "\"\" has no kind \"\" with a protobuf form",
        ),
        (
            b"k8s\0\x08\x01".to_vec(),
            "the wire type is not that of a message",
        ),
        (
            envelope("ex.io/v1", "Widget", b""),
            "\"ex.io/v1\" has no kind \"Widget\" with a protobuf form",
        ),
        (
            deployment(&field(1, b"3")),
            "Deployment.spec.replicas: the wire type is not that of a number",
        ),
        (
            deployment(&[0x08, 0xff]),
            "Deployment.spec: the bytes end within a field",
        ),
        (
            deployment(&field(4, &field(2, &field(1, &[0x08, 0x02])))),
            "Deployment.spec.strategy.rollingUpdate.maxUnavailable: is neither an integer nor a \
             string: its type is 2",
        ),
    ] {
        assert_eq!(refusal(&bytes), expected);
    }
}

#[test]
fn messages_in_messages_have_an_end() {
    let mut schema = Vec::new();
    for _ in 0..5000 {
        // `not`
        schema = field(28, &schema);
    }
    let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
    let raw = field(2, &field(7, &version));
    let said = refusal(&envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &raw,
    ));
    assert!(
        said.ends_with("messages are nested more than 100 deep"),
        "{said}"
    );
}

#[test]
fn envelopes_in_envelopes_have_an_end() {
    let mut bytes = envelope("v1", "Pod", b"");
    for _ in 0..5000 {
        bytes = envelope("v1", "List", &field(2, &field(1, &bytes)));
    }
    let said = refusal(&bytes);
    assert!(
        said.ends_with("messages are nested more than 100 deep"),
        "{said}"
    );
}

#[test]
fn raw_json_is_no_way_around_the_depth() {
    let raw = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bytes = envelope("v1", "List", &field(2, &field(1, raw.as_bytes())));
    let said = refusal(&bytes);
    assert!(said.starts_with("List.items[0]: is not JSON"), "{said}");
}

#[test]
fn empty_objects_by_the_million_are_refused() {
    // Two bytes each, and more than a thousand as JSON.
    let containers = [0x12, 0x00].repeat(1_500_000);
    let said = refusal(&envelope("v1", "Pod", &field(2, &containers)));
    assert!(said.ends_with("too many values for its size"), "{said}");
    // The same message by the million is merged, and filled in once.
    let metadata = [0x0a, 0x00].repeat(1_500_000);
    assert!(decode(&envelope("v1", "Pod", &metadata)).is_ok());
}

#[test]
fn groups_by_the_million_are_skipped() {
    let opened = vec![0x0b; 3_000_000];
    let raw = [&[0x7b][..], &opened, &vec![0x0c; 3_000_000], &[0x7c]].concat();
    assert!(decode(&envelope("v1", "Pod", &raw)).is_ok());
    assert!(refusal(&envelope("v1", "Pod", &opened)).ends_with("the bytes end within a field"));
}

#[test]
fn no_value_is_in_an_error() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": { "password": "hunter2!" },
    });
    let said = encode(&secret).expect_err("not base64").to_string();
    assert_eq!(
        said,
        "cannot encode protobuf: Secret.data[*]: must be bytes in base64"
    );
    let raw = envelope(
        "v1",
        "List",
        &field(2, &field(1, b"{\"password\": hunter2!")),
    );
    let said = refusal(&raw);
    assert_eq!(
        said,
        "List.items[0]: is not JSON: a syntax error at column 14"
    );
}

//! Decoding of malicious bytes: it fails with an error, at a bounded cost.

use serde_json::json;
use windlass_protobuf::{decode, encode};

/// A field with bytes.
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

/// The error for bytes that are not an object.
fn error_of(bytes: &[u8]) -> String {
    let error = decode(bytes).expect_err("no object").to_string();
    error
        .strip_prefix("cannot decode protobuf: ")
        .expect("what failed")
        .to_owned()
}

#[test]
fn errors_name_the_path_of_the_value() {
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
        assert_eq!(error_of(&bytes), expected);
    }
}

#[test]
fn the_depth_of_messages_is_limited() {
    let mut schema = Vec::new();
    for _ in 0..5000 {
        // This is the field `not`.
        schema = field(28, &schema);
    }
    let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
    let raw = field(2, &field(7, &version));
    let message = error_of(&envelope(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &raw,
    ));
    assert!(
        message.ends_with("messages are nested more than 100 deep"),
        "{message}"
    );
}

#[test]
fn the_depth_of_envelopes_is_limited() {
    let mut bytes = envelope("v1", "Pod", b"");
    for _ in 0..5000 {
        bytes = envelope("v1", "List", &field(2, &field(1, &bytes)));
    }
    let message = error_of(&bytes);
    assert!(
        message.ends_with("messages are nested more than 100 deep"),
        "{message}"
    );
}

#[test]
fn the_depth_of_raw_json_is_limited() {
    let raw = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bytes = envelope("v1", "List", &field(2, &field(1, raw.as_bytes())));
    let message = error_of(&bytes);
    assert!(
        message.starts_with("List.items[0]: is not JSON"),
        "{message}"
    );
}

#[test]
fn millions_of_empty_objects_are_refused() {
    // Each container takes two bytes, and more than a thousand as JSON.
    let containers = [0x12, 0x00].repeat(1_500_000);
    let message = error_of(&envelope("v1", "Pod", &field(2, &containers)));
    assert!(
        message.ends_with("too many values for its size"),
        "{message}"
    );
    // A million copies of one message are merged, and filled in once.
    let metadata = [0x0a, 0x00].repeat(1_500_000);
    assert!(decode(&envelope("v1", "Pod", &metadata)).is_ok());
}

#[test]
fn millions_of_groups_are_skipped() {
    let opened = vec![0x0b; 3_000_000];
    let raw = [&[0x7b][..], &opened, &vec![0x0c; 3_000_000], &[0x7c]].concat();
    assert!(decode(&envelope("v1", "Pod", &raw)).is_ok());
    assert!(error_of(&envelope("v1", "Pod", &opened)).ends_with("the bytes end within a field"));
}

#[test]
fn errors_contain_no_values() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": { "password": "hunter2!" },
    });
    let message = encode(&secret).expect_err("not base64").to_string();
    assert_eq!(
        message,
        "cannot encode protobuf: Secret.data[*]: must be bytes in base64"
    );
    let raw = envelope(
        "v1",
        "List",
        &field(2, &field(1, b"{\"password\": hunter2!")),
    );
    let message = error_of(&raw);
    assert_eq!(
        message,
        "List.items[0]: is not JSON: a syntax error at column 14"
    );
}

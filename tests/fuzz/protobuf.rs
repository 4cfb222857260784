//! Protobuf bodies: decoding, encoding and decoding again must give the same value, except `null`s.

use bolero::TypeGenerator;
use serde_json::Value;

use crate::edits::Edits;

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    object: Edits,
    bytes: Vec<(u16, u8)>,
    length: Option<u16>,
}

const OBJECTS: [&str; 4] = [
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"},"managedFields":[{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{}}}]},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"100m"}},"livenessProbe":{"httpGet":{"port":"http"},"periodSeconds":3}}]},"status":{"phase":"Running"}}"#,
    r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"AAEC"},"type":"Opaque","immutable":true}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{},"spec":{"containers":[]}}}}"#,
    r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.123456Z"}}"#,
];

/// A file has an object as JSON. It is encoded, also cut and with changed bytes.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let input = |(bytes, length)| Input {
        object: Edits::none(parts[0]),
        bytes,
        length,
    };
    [(vec![], None), (vec![(8, 0xff)], None), (vec![], Some(20))]
        .map(input)
        .into()
}

pub(crate) fn check(input: &Input) {
    let Ok(object) = serde_json::from_slice::<Value>(&input.object.of(&OBJECTS)) else {
        return;
    };
    let Ok(mut bytes) = windlass_protobuf::encode(&object) else {
        return;
    };
    // What we write can be read, and is then written as the same bytes.
    round_trip(&bytes, true);
    for (at, byte) in &input.bytes {
        let at = usize::from(*at) % bytes.len();
        bytes[at] = *byte;
    }
    if let Some(length) = input.length {
        bytes.truncate(usize::from(length));
    }
    round_trip(&bytes, false);
}

fn round_trip(bytes: &[u8], must_decode: bool) {
    let decoded = match windlass_protobuf::decode(bytes) {
        Ok(decoded) => decoded,
        Err(error) => {
            assert!(!must_decode, "{error}");
            return;
        }
    };
    if let Ok(encoded) = windlass_protobuf::encode(&decoded) {
        let again = windlass_protobuf::decode(&encoded);
        let again = again.expect("what is encoded can be decoded");
        assert_eq!(without_nulls(again), without_nulls(decoded));
    }
}

/// `value` without members that are `null`.
///
/// Go writes an empty time behind a pointer as `null`, and reads `null` as no pointer, so these
/// do not survive its round trip either.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| (name, without_nulls(value)));
            Value::Object(members.collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

//! Objects of Kubernetes: broken off, tampered with, spaced.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DynamicObject;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::agree;
use crate::decode::json::Reader;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"4f1d","creationTimestamp":"2026-11-20T08:00:00Z","generation":1,"deletionGracePeriodSeconds":-5,"labels":{"app.kubernetes.io/name":"web","a\/b":"\ud83d\ude00 \u00e9"},"annotations":{"checksum/config":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","text":"a\n\"b\"\\ é"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"0b1c","controller":true}],"finalizers":["a/b","c/d"],"later":{"x":[1,{"y":[null]}]}},"spec":{"nodeName":"node-1","volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"a","image":"i","args":["-x","[\"{"],"env":[{"name":"A","value":"\t"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"p"}}}],"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":"http"}}},{"name":"b","readinessProbe":{"tcpSocket":{"port":8080}}}],"tolerations":[{"key":"k","tolerationSeconds":300}]},"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"}],"startTime":null,"conditions":[]}}"#;

const MAP: &str = r#"{"metadata":{"name":"a"},"data":{"a":"b","k\n":""},"binaryData":{"b":"AAEC"},"immutable":false}"#;

#[test]
fn an_object_that_breaks_off_is_none_wherever_it_does() {
    for (end, _) in POD.char_indices() {
        agree_on_objects(&POD[..end]);
    }
    agree_on_objects(POD);
    assert!(Reader::read::<Pod>(POD).is_ok(), "it is a pod");
    assert!(Reader::read::<ConfigMap>(MAP).is_ok(), "it is a config map");
}

proptest! {
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

//! Custom resource definitions and their objects: writing a stored object back must not change it.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::Value;
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    definition: Edits,
    object: Edits,
}

const DEFINITIONS: [&str; 2] = [
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.size <= 9 || has(self.tags) && self.tags.all(t, t.startsWith('a'))","message":"too large","fieldPath":".size"}],"required":["size"],"properties":{"size":{"type":"integer","minimum":1,"maximum":100,"default":3},"color":{"type":"string","pattern":"^[a-z]+$","maxLength":10,"enum":["red","green"]},"port":{"x-kubernetes-int-or-string":true},"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"number","nullable":true,"default":1.5}}}},"extra":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"more":{"type":"object","additionalProperties":{"type":"string","format":"date-time"}}}},"status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}}}]}}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.color"}],"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"anyOf":[{"required":["size"]},{"required":["color"]}],"type":"object","properties":{"size":{"type":"number","multipleOf":0.5},"color":{"type":"string"},"embedded":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}"#,
];

const OBJECTS: [&str; 3] = [
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":2,"color":"red","port":"http","tags":["a","b"],"items":[{"name":"x"},{"name":"y","value":null}],"extra":{"a":[1,{"b":null}]},"more":{"t":"2026-01-01T00:00:00Z"},"unknown":1}}"#,
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1.5,"color":null,"embedded":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e"},"data":{"a":"b"}}}}"#,
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"port":8080},"status":{"ready":true}}"#,
];

const DEFINED: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const ONE: &str = "/apis/ex.io/v1/namespaces/default/widgets/w";

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        let definition = input.definition.of(&DEFINITIONS);
        let request = Request::post(DEFINED).body(definition);
        let (status, answer) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&answer);
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        let request = Request::post(ALL).body(input.object.of(&OBJECTS));
        let (status, created) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&created);
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        if status != StatusCode::CREATED {
            return;
        }
        let created: Value = serde_json::from_slice(&created).expect("an object");
        if created["metadata"]["name"] != "w" {
            return;
        }
        let request = Request::get(ONE).body(Vec::new());
        let (status, stored) = send(&server, request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        let request = Request::put(ONE).body(stored);
        let (status, written) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&written);
        assert_eq!(status, StatusCode::OK, "{message}");
        let written: Value = serde_json::from_slice(&written).expect("an object");
        assert_eq!(
            written, created,
            "to write back what is stored changes nothing"
        );
    });
}

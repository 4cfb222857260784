//! The memory that webhooks need for an object, in a process of its own.

#![cfg(target_os = "linux")]

use std::fs;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::admission::AdmissionRequest;
use windlass_operator::{Conversion, Denied, Route as _, WebhookServer, http::Request};

/// A list of small objects in a field that the type does not have. As a `serde_json::Value`, each of them
/// takes 650 bytes.
#[tokio::test]
async fn fields_that_the_type_does_not_have_take_no_memory() {
    let webhooks = WebhookServer::new(([127, 0, 0, 1], 0), "tls.crt", "tls.key")
        .validate("/validate", |_: AdmissionRequest<ConfigMap>| async {
            Ok::<_, Denied>(())
        })
        .and_then(|it| it.mutate("/keep", |it: ConfigMap, _| async { Ok::<_, Denied>(it) }))
        .and_then(|it| {
            it.mutate("/change", |mut it: ConfigMap, _| async {
                it.immutable = Some(true);
                Ok::<_, Denied>(it)
            })
        })
        .and_then(|it| it.convert("/convert", Conversion::<ConfigMap>::new()))
        .expect("different paths");
    // Managed fields are values in the Rust type.
    let managed: Vec<_> = (0..100_000)
        .map(|it| format!("\"{it}\":{{\"a\":1}}"))
        .collect();
    let managed = format!("{{{}}}", managed.join(","));
    let owned = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":
        "a","fieldsV1":MANAGED}]}}"#;
    let list = format!("[{}{{}}]", "{\"a\":1},".repeat(100_000));
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"list":LIST}"#;
    let admission = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",
        "kind":{"group":"","version":"v1","kind":"ConfigMap"},
        "resource":{"group":"","version":"v1","resource":"configmaps"},
        "operation":"UPDATE","userInfo":{},"object":OBJECT,"oldObject":OBJECT}}"#;
    let conversion = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",
        "request":{"uid":"1","desiredAPIVersion":"v1","objects":[OBJECT,OBJECT]}}"#;
    for (path, review, object, times) in [
        ("/validate", admission, object, 2),
        ("/keep", admission, object, 2),
        ("/convert", conversion, object, 4),
        // Two values of one of the two objects in the body.
        ("/change", admission, object, 100),
        ("/change", admission, owned, 150),
    ] {
        let body = review.replace("OBJECT", object).replace("LIST", &list);
        let body = body.replace("MANAGED", &managed);
        let bytes = body.len();
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(body.into())
            .expect("a request");
        let before = resident("VmRSS:");
        fs::write("/proc/self/clear_refs", "5").expect("Linux resets the peak");
        let response = webhooks.answer(request).await;
        let peak = resident("VmHWM:").saturating_sub(before);
        let body = String::from_utf8_lossy(response.body());
        assert!(
            response.status() == 200 && !body.contains("false"),
            "{path}: {body:.500}"
        );
        println!(
            "{path}: {peak} bytes for a body of {bytes}: {} times",
            peak / bytes
        );
        // Pages that the allocator keeps for the next request count too.
        let most = times * bytes + 4 * 1024 * 1024;
        assert!(peak <= most, "{path}: {peak} bytes for a body of {bytes}");
    }
}

/// A field of `/proc/self/status` in bytes.
fn resident(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = (status.lines()).find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    1024 * kilobytes.expect("a number of kilobytes")
}

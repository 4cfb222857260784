//! Statuses of built-in kinds that are right and wrong: both servers must send equal responses.

use http::Method;
use serde_json::{Value, json};

use super::{Pair, mask, masked};
use crate::api::raw::{Answer, Raw};

/// Objects, and the statuses that are written to each.
const STATUSES: &str = include_str!("statuses.yaml");

/// Replaces the status of the object at `path`.
async fn write(raw: &Raw, path: &str, status: &Value) -> Answer {
    let mut object = raw.get(path).await.body;
    object["status"] = status.clone();
    let headers = [("content-type", "application/json")];
    let path = format!("{path}/status?fieldManager=statuses");
    raw.ask(Method::PUT, &path, &headers, &object.to_string())
        .await
}

/// Kinds with maps, whose errors the real server reports in a random order.
const WITH_MAPS: [&str; 3] = ["Node", "PersistentVolumeClaim", "ResourceQuota"];

/// An answer without what differs between two servers. The causes keep their order, except those
/// of maps.
fn shown(object: &Value, answer: &Answer) -> Value {
    let mut shown = masked(answer);
    if answer.code == 200 {
        shown["body"] = shown["body"]["status"].take();
        return shown;
    }
    let mut causes = answer.body["details"]["causes"].clone();
    mask(&mut causes);
    if let Some(causes) = causes.as_array_mut()
        && WITH_MAPS.iter().any(|kind| object["kind"] == *kind)
    {
        causes.sort_by_key(ToString::to_string);
    }
    json!({ "code": answer.code, "causes": causes })
}

on_both_servers! {
    /// docs/apiserver.md: row 76.
    async fn a_status_is_validated_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("statuses", &cluster).await;
        let mut written = 0;
        for case in pair.documents(STATUSES) {
            let object = &case["object"];
            let place = pair.place(object).await;
            let path = format!("{place}/{}", object["metadata"]["name"].as_str().expect("a name"));
            for raw in [&pair.theirs, &pair.ours] {
                raw.post(&place, object).await.ok();
            }
            for status in case["statuses"].as_array().expect("a list") {
                let theirs = shown(object, &write(&pair.theirs, &path, status).await);
                let ours = shown(object, &write(&pair.ours, &path, status).await);
                written += 1;
                let what = format!("{} {}: {status}", object["kind"], object["metadata"]["name"]);
                pair.recorded.add(&what, &ours);
                if theirs != ours {
                    pair.differences.push(format!(
                        "{what}:\n  the server: {theirs}\n  the embedded one: {ours}"
                    ));
                }
            }
            for raw in [&pair.theirs, &pair.ours] {
                raw.delete(&path).await;
            }
        }
        pair.check(written);
        pair.recorded.check();
    }
}

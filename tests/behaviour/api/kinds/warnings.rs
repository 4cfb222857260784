//! Warnings about valid objects of built-in kinds: both servers must send the same.

use serde_json::{Value, json};

use super::Pair;
use crate::api::raw::Answer;

/// Objects, and the patches that change each.
const OBJECTS: &str = include_str!("warnings.yaml");

/// The code and the warnings of an answer.
fn shown(answer: &Answer) -> Value {
    json!({ "code": answer.code, "warnings": answer.warnings })
}

on_both_servers! {
    /// docs/apiserver.md: row 20.
    async fn an_object_has_the_warnings_of_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("warnings", &cluster).await;
        let mut written = 0;
        for case in pair.documents(OBJECTS) {
            let object = &case["object"];
            let place = pair.place(object).await;
            let path = format!("{place}/{}", object["metadata"]["name"].as_str().expect("a name"));
            let patches = case["patches"].as_array().expect("a list");
            for change in std::iter::once(object).chain(patches) {
                let mut answers = Vec::new();
                for raw in [&pair.theirs, &pair.ours] {
                    let answer = if change == object {
                        raw.post(&place, object).await
                    } else {
                        raw.merge(&path, change).await
                    };
                    assert!(answer.code < 300, "{change}: {}", answer.text);
                    answers.push(shown(&answer));
                }
                written += 1;
                let what = format!("{} {}: {change}", object["kind"], object["metadata"]["name"]);
                pair.recorded.add(&what, &answers[1]);
                if answers[0] != answers[1] {
                    let [theirs, ours] = [&answers[0], &answers[1]];
                    pair.differences.push(format!(
                        "{what}:\n  the server: {theirs:#}\n  the embedded one: {ours:#}"
                    ));
                }
            }
            for raw in [&pair.theirs, &pair.ours] {
                raw.delete(&format!("{path}?gracePeriodSeconds=0")).await;
            }
        }
        pair.check(written);
        pair.recorded.check();
    }
}

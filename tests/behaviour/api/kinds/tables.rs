//! The columns and cells of every built-in kind.

use http::Method;
use serde_json::{Value, json};

use super::super::raw::{Answer, Raw};
use super::{KINDS, Pair};

/// Objects with a status.
pub(super) const WITH_STATUS: &str = include_str!("tables.yaml");

/// These limit the objects that are created after them.
const LIMITS: [&str; 2] = ["LimitRange", "ResourceQuota"];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Creates an object with its status, and reads its place as a table. An object with finalizers is
/// deleted first, and they are removed in the end.
async fn table(raw: &Raw, place: &str, object: &Value) -> Value {
    let one = format!(
        "{place}/{}",
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    raw.post(place, object).await;
    if let Some(status) = object.get("status") {
        let path = format!("{one}/status");
        raw.merge(&path, &json!({ "status": status })).await;
    }
    let has_finalizers = object["metadata"].get("finalizers").is_some();
    if has_finalizers {
        raw.ask(Method::DELETE, &one, &[], "").await;
    }
    let answer = raw.ask(Method::GET, &one, &[("accept", TABLE)], "").await;
    if has_finalizers {
        let without = json!({ "metadata": { "finalizers": null } });
        raw.merge(&one, &without).await;
    }
    shown(&answer)
}

/// Columns and cells, without what differs between two servers.
fn shown(answer: &Answer) -> Value {
    let columns = answer.body["columnDefinitions"].as_array();
    let columns = columns.into_iter().flatten().map(|column| {
        json!([
            column["name"],
            column["type"],
            column["format"],
            column["priority"]
        ])
    });
    let columns: Vec<_> = columns.collect();
    let cells = answer.body["rows"][0]["cells"].as_array();
    let cells = cells
        .into_iter()
        .flatten()
        .zip(&columns)
        .map(|(cell, column)| {
            let text = cell.as_str().unwrap_or_default();
            match column[0].as_str().unwrap_or_default() {
                "Cluster-IP" if text.starts_with("10.") => json!("*"),
                // These depend on the time of the request, and the two servers have other users.
                "Age" | "Created At" | "Duration" | "First Seen" | "Last Schedule"
                | "Last Seen" | "Requestor" => json!("*"),
                "Port(s)" if text.contains(":3") => json!(text.split(':').next()),
                "Restarts" if text.contains(" (") => json!([text.split(" (").next(), "*"]),
                "Selector" if text.contains("controller-uid") => json!("*"),
                _ => cell.clone(),
            }
        });
    let cells: Vec<_> = cells.collect();
    json!({ "code": answer.code, "columns": columns, "cells": cells })
}

on_both_servers! {
    /// docs/apiserver.md: row 53, "built-in kinds".
    async fn tables_of_every_kind_are_those_of_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("tables", &cluster).await;
        let mut objects = pair.documents(KINDS);
        let more = pair.documents(WITH_STATUS).remove(0);
        objects.extend(more.as_array().expect("a list").iter().cloned());
        // On the real server, a controller writes whether its service is available.
        objects.retain(|object| object["kind"] != "APIService");
        objects.sort_by_key(|object| LIMITS.iter().any(|kind| object["kind"] == *kind));
        for object in &objects {
            let place = pair.place(object).await;
            let theirs = table(&pair.theirs, &place, object).await;
            let ours = table(&pair.ours, &place, object).await;
            let what = format!("table of {object}");
            pair.recorded.add(&what, &ours);
            if theirs != ours || theirs["code"] != 200 {
                pair.differences.push(format!(
                    "{what}:\n  the server: {theirs}\n  the embedded one: {ours}"
                ));
            }
        }
        pair.check(objects.len());
        pair.recorded.check();
    }
}

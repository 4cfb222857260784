//! Effects of random numbers, which no client can cause.

use std::time::Duration;

use serde_json::json;

use super::create::NAME_ATTEMPTS;
use super::{Cluster, ClusterOptions, metadata};
use crate::store::HistoryLimits;
use crate::wire::WriteOptions;

const NOW: &str = "2026-01-01T00:00:00Z";

fn cluster() -> Cluster {
    let options = ClusterOptions {
        history: HistoryLimits {
            writes: 100,
            bytes: 1 << 20,
            age: Duration::from_secs(300),
        },
        event_ttl: Duration::ZERO,
        collects_garbage: false,
        evaluates_roles: false,
        fills_namespaces: false,
        counts_quotas: false,
    };
    Cluster::new(Some(1), options, NOW)
}

/// Rows of docs/apiserver.md: 26.
#[test]
fn a_create_fails_if_all_generated_names_are_in_use() {
    for used in [NAME_ATTEMPTS - 1, NAME_ATTEMPTS] {
        let mut cluster = cluster();
        let maps = cluster.registry.find("", "v1", "configmaps");
        let maps = maps.expect("a built-in resource").clone();
        let create = |cluster: &mut Cluster, metadata| {
            let map = json!({ "metadata": metadata });
            cluster.create(&maps, Some("default"), map, &WriteOptions::default(), NOW)
        };
        // The names that the create will generate.
        let random = cluster.random.clone();
        let mut names = random.clone();
        let names: Vec<_> = (0..NAME_ATTEMPTS)
            .map(|_| metadata::generated_name("web-", &mut names))
            .collect();
        for name in &names[..used] {
            create(&mut cluster, json!({ "name": name })).expect("the name is free");
        }
        cluster.random = random;
        let created = create(&mut cluster, json!({ "generateName": "web-" }));
        let last = &names[NAME_ATTEMPTS - 1];
        if used < NAME_ATTEMPTS {
            let created = created.expect("the last name is free");
            assert_eq!(created.object.value()["metadata"]["name"], **last);
            continue;
        }
        let status = created.expect_err("all names are in use").to_value();
        assert_eq!(
            status["message"],
            format!(
                "configmaps {last:?} already exists, the server was not able to generate a unique \
                 name for the object"
            )
        );
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(409), &json!("AlreadyExists"))
        );
        let details = json!({ "name": last, "kind": "configmaps", "retryAfterSeconds": 1 });
        assert_eq!(status["details"], details);
    }
}

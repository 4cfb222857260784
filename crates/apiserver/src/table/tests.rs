//! Rows of `kubectl get`, as tables of objects and cells.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Columns, IncludeObject, MetaVersion, builtin};

/// Rows of docs/apiserver.md: 53.
#[test]
fn a_table_has_columns_rows_and_list_metadata() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": "c", "creationTimestamp": "2024-01-01T00:00:00Z"}});
    let meta = json!({"resourceVersion": "7", "continue": "x", "selfLink": "no"});
    let columns = Columns::builtin(builtin::CONFIG_MAPS);
    let table = columns.table(
        &[&object],
        &meta,
        IncludeObject::default(),
        MetaVersion::V1,
        now(),
    );
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(
        table["metadata"],
        json!({"resourceVersion": "7", "continue": "x"})
    );
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(
        table["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
               "metadata": {"name": "c", "creationTimestamp": "2024-01-01T00:00:00Z"}})
    );
    let whole = columns.table(
        &[&object],
        &meta,
        IncludeObject::Object,
        MetaVersion::V1,
        now(),
    );
    assert_eq!(whole["rows"][0]["object"], object);
    let nothing = columns.table(
        &[&object],
        &meta,
        IncludeObject::None,
        MetaVersion::V1,
        now(),
    );
    assert_eq!(nothing["rows"][0]["object"], Value::Null);
}

/// Rows of docs/apiserver.md: 54.
#[test]
fn the_columns_of_a_crd_are_converted_to_their_types() {
    let columns = Columns::from_crd(Some(&json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "List", "type": "string", "jsonPath": ".spec.list", "priority": 1},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.on"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.none"},
        {"name": "Odd", "type": "string", "jsonPath": "..odd"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])));
    let object = json!({
        "metadata": {"name": "w", "creationTimestamp": "2024-01-01T23:54:30Z"},
        "spec": {"size": 3, "ratio": 2, "on": true, "list": ["a", 1]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    check(
        &columns,
        &object,
        "Name Size Ratio On Ready List Wrong Missing Odd Age",
        &json!([
            "w",
            3,
            2,
            true,
            "True",
            "[\"a\",1]",
            null,
            null,
            null,
            "5m30s"
        ]),
    );
}

#[test]
fn a_crd_without_columns_shows_name_and_age() {
    let object = json!({"metadata": {"name": "w", "creationTimestamp": "2023-12-30T00:00:00Z"}});
    for none in [None, Some(&Value::Null), Some(&json!([]))] {
        check(
            &Columns::from_crd(none),
            &object,
            "Name Age",
            &json!(["w", "3d"]),
        );
    }
}

#[test]
fn the_status_of_a_pod_follows_from_its_containers() {
    let pod = |status: Value| {
        json!({
            "metadata": {"name": "p", "creationTimestamp": "2024-01-01T23:59:00Z"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]},
            "status": status,
        })
    };
    let cells = |status: Value| {
        let object = pod(status);
        let table = Columns::builtin(builtin::PODS).table(
            &[&object],
            &json!({}),
            IncludeObject::None,
            MetaVersion::V1,
            now(),
        );
        let cells = &table["rows"][0]["cells"];
        format!(
            "{} {} {}",
            cells[1].as_str().unwrap_or_default(),
            cells[2].as_str().unwrap_or_default(),
            cells[3].as_str().unwrap_or_default()
        )
    };
    assert_eq!(cells(json!({"phase": "Pending"})), "0/2 Pending 0");
    let running = json!({"ready": true, "state": {"running": {}}, "restartCount": 2});
    assert_eq!(
        cells(json!({"phase": "Running", "containerStatuses": [running, running]})),
        "2/2 Running 4"
    );
    let waiting = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3});
    assert_eq!(
        cells(json!({"phase": "Running", "containerStatuses": [running, waiting]})),
        "1/2 CrashLoopBackOff 5"
    );
    let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    assert_eq!(
        cells(json!({"phase": "Running", "containerStatuses": [done, running]})),
        "1/2 NotReady 2"
    );
    assert_eq!(
        cells(json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]})),
        "0/2 Init:0/0 0"
    );
}

#[test]
fn built_in_kinds_have_the_columns_of_kubectl() {
    let meta = json!({"name": "x", "creationTimestamp": "2024-01-01T23:58:00Z"});
    check(
        &Columns::builtin(builtin::DEPLOYMENTS),
        &json!({"metadata": meta, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2}}),
        "Name Ready Up-to-date Available Age Containers Images Selector",
        &json!(["x", "1/3", 2, 0, "2m", "c", "i:1", "a=b"]),
    );
    check(
        &Columns::builtin(builtin::SERVICES),
        &json!({"metadata": meta, "spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        "Name Type Cluster-IP External-IP Port(s) Age Selector",
        &json!([
            "x",
            "NodePort",
            "10.0.0.1",
            "<none>",
            "80:30000/TCP,53/UDP",
            "2m",
            "<none>"
        ]),
    );
    check(
        &Columns::builtin(builtin::NAMESPACES),
        &json!({"metadata": meta, "status": {"phase": "Active"}}),
        "Name Status Age",
        &json!(["x", "Active", "2m"]),
    );
    check(
        &Columns::builtin(builtin::LEASES),
        &json!({"metadata": meta, "spec": {"holderIdentity": "me"}}),
        "Name Holder Age",
        &json!(["x", "me", "2m"]),
    );
    check(
        &Columns::builtin(builtin::CREATED),
        &json!({"metadata": meta}),
        "Name Created_At",
        &json!(["x", "2024-01-01T23:58:00Z"]),
    );
    check(
        &Columns::builtin(builtin::EVENTS),
        &json!({"metadata": meta, "type": "Normal", "reason": "Made", "message": " yes\n", "count": 2,
            "firstTimestamp": "2024-01-01T23:00:00Z", "lastTimestamp": "2024-01-01T23:59:59Z",
            "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "c"}}),
        "Last_Seen Type Reason Object Subobject Source Message First_Seen Count Name",
        &json!([
            "1s", "Normal", "Made", "pod/p", "", "c", "yes", "60m", 2, "x"
        ]),
    );
    check(
        &Columns::builtin(builtin::JOBS),
        &json!({"metadata": meta, "spec": {"completions": 2}, "status": {"succeeded": 1,
            "startTime": "2024-01-01T23:59:00Z"}}),
        "Name Status Completions Duration Age Containers Images Selector",
        &json!(["x", "Running", "1/2", "60s", "2m", "", "", "<none>"]),
    );
    check(
        &Columns::builtin(builtin::CREATED),
        &json!({"metadata": meta}),
        "Name Created_At",
        &json!(["x", "2024-01-01T23:58:00Z"]),
    );
}

#[test]
fn an_api_service_shows_its_service_and_why_it_is_not_available() {
    let meta = json!({"name": "x", "creationTimestamp": "2024-01-01T23:58:00Z"});
    let columns = Columns::builtin(builtin::API_SERVICES);
    let names = "Name Service Available Age";
    check(
        &columns,
        &json!({"metadata": meta, "spec": {}}),
        names,
        &json!(["x", "Local", "Unknown", "2m"]),
    );
    let condition = json!({"type": "Available", "status": "False", "reason": "ServiceNotFound"});
    check(
        &columns,
        &json!({"metadata": meta, "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [condition]}}),
        names,
        &json!(["x", "n/s", "False (ServiceNotFound)", "2m"]),
    );
}

#[test]
fn the_age_of_an_ip_address_has_no_column() {
    check(
        &Columns::builtin(builtin::IP_ADDRESSES),
        &json!({"metadata": {"name": "10.0.0.1", "creationTimestamp": "2024-01-01T23:58:00Z"},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}}),
        "Name ParentRef",
        &json!(["10.0.0.1", "services/n/s", "2m"]),
    );
}

fn now() -> Timestamp {
    "2024-01-02T00:00:00Z".parse().expect("it is a time")
}

/// The columns are called `names`, spaces written as `_`, and `object` has `cells`.
#[track_caller]
fn check(columns: &Columns, object: &Value, names: &str, cells: &Value) {
    let table = columns.table(
        &[object],
        &json!({}),
        IncludeObject::None,
        MetaVersion::V1,
        now(),
    );
    let definitions = table["columnDefinitions"]
        .as_array()
        .expect("there are definitions");
    let found = definitions.iter().map(|definition| {
        definition["name"]
            .as_str()
            .unwrap_or_default()
            .replace(' ', "_")
    });
    assert_eq!(found.collect::<Vec<_>>().join(" "), names);
    assert_eq!(table["rows"][0]["cells"], *cells);
}

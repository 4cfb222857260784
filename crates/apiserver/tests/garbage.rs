//! Garbage collection by owner references: background, foreground and orphan deletion.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

mod support;

use support::{Events, request, watch};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

/// Creates a config map with these owners, and gives it.
async fn create(server: &ApiServer, name: &str, owners: &[&Value]) -> Value {
    let references = owners.iter().map(|owner| reference(owner));
    create_with(server, name, references.collect()).await
}

async fn create_with(server: &ApiServer, name: &str, references: Vec<Value>) -> Value {
    let map = json!({ "metadata": { "name": name, "ownerReferences": references } });
    let (code, created) = request(server, Method::POST, MAPS, Some(&map)).await;
    assert_eq!(code, 201, "{created}");
    created
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

async fn delete(server: &ApiServer, name: &str, policy: &str) -> StatusCode {
    let options = json!({ "propagationPolicy": policy });
    let (code, _) = request(server, Method::DELETE, &at(name), Some(&options)).await;
    code
}

async fn names(server: &ApiServer) -> String {
    let (_, list) = request(server, Method::GET, MAPS, None).await;
    let items = list["items"].as_array().expect("a list").iter();
    let names: Vec<_> = items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    names.join(" ")
}

/// A watch of the config maps from now on.
async fn events(server: &ApiServer) -> Events {
    let from = server.resource_version();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}");
    watch(server, &path, "application/json").await
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_deleted_object_are_deleted_recursively() {
    let server = ApiServer::new();
    let owner = create(&server, "owner", &[]).await;
    let child = create(&server, "child", &[&owner]).await;
    create(&server, "grandchild", &[&child]).await;
    create(&server, "other", &[]).await;
    let mut events = events(&server).await;
    assert_eq!(delete(&server, "owner", "Background").await, 200);
    assert_eq!(names(&server).await, "other");
    for name in ["owner", "child", "grandchild"] {
        assert_eq!(events.next_line().await, format!("DELETED {name}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_while_one_owner_exists_and_loses_references_to_the_others() {
    let server = ApiServer::new();
    let one = create(&server, "one", &[]).await;
    let two = create(&server, "two", &[]).await;
    create(&server, "child", &[&one, &two]).await;
    delete(&server, "one", "Background").await;
    let (_, child) = request(&server, Method::GET, &at("child"), None).await;
    let owners = child["metadata"]["ownerReferences"].as_array();
    let owners = owners.expect("it has owners");
    assert_eq!((owners.len(), &owners[0]["name"]), (1, &json!("two")));
    delete(&server, "two", "Background").await;
    assert_eq!(names(&server).await, "");
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_identified_by_its_uid_and_not_by_its_name() {
    let server = ApiServer::new();
    let owner = create(&server, "owner", &[]).await;
    let mut stranger = reference(&owner);
    stranger["uid"] = "another".into();
    create_with(&server, "child", vec![stranger]).await;
    assert_eq!(names(&server).await, "owner");
    create_with(
        &server,
        "child",
        vec![json!({
            "apiVersion": "ex.io/v1", "kind": "Unknown", "name": "x", "uid": "1",
        })],
    )
    .await;
    assert_eq!(
        names(&server).await,
        "child owner",
        "nothing is known of its owner"
    );
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_an_owner() {
    let server = ApiServer::new();
    let owner = create(&server, "owner", &[]).await;
    create(&server, "child", &[&owner]).await;
    let mut events = events(&server).await;
    assert_eq!(delete(&server, "owner", "Orphan").await, 200);
    let (_, child) = request(&server, Method::GET, &at("child"), None).await;
    assert_eq!(child["metadata"].get("ownerReferences"), None);
    let entries = child["metadata"]["managedFields"].to_string();
    assert!(!entries.contains("ownerReferences"), "{entries}");
    for line in ["MODIFIED owner", "MODIFIED child", "DELETED owner"] {
        assert_eq!(events.next_line().await, line);
    }
    assert_eq!(names(&server).await, "child");
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_blocking_dependents() {
    let server = ApiServer::new();
    let owner = create(&server, "owner", &[]).await;
    create_with(&server, "a", vec![blocking(&owner)]).await;
    create_with(&server, "b", vec![reference(&owner)]).await;
    let held = json!({ "metadata": {
        "name": "held", "finalizers": ["ex.io/clean"], "ownerReferences": [blocking(&owner)],
    } });
    request(&server, Method::POST, MAPS, Some(&held)).await;

    assert_eq!(delete(&server, "owner", "Foreground").await, 200);
    assert_eq!(names(&server).await, "held owner");
    let (_, waiting) = request(&server, Method::GET, &at("owner"), None).await;
    assert_eq!(
        waiting["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());

    let mut events = events(&server).await;
    let free = json!({ "metadata": { "finalizers": null } });
    request(&server, Method::PATCH, &at("held"), Some(&free)).await;
    for name in ["held", "owner"] {
        assert_eq!(events.next_line().await, format!("DELETED {name}"));
    }
    assert_eq!(names(&server).await, "");
}

#[tokio::test(start_paused = true)]
async fn objects_that_own_each_other_do_not_wait_for_each_other_forever() {
    let server = ApiServer::new();
    let one = create(&server, "one", &[]).await;
    let two = create_with(&server, "two", vec![blocking(&one)]).await;
    let change = json!({ "metadata": { "ownerReferences": [blocking(&two)] } });
    request(&server, Method::PATCH, &at("one"), Some(&change)).await;
    assert_eq!(delete(&server, "one", "Foreground").await, 200);
    assert_eq!(names(&server).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_second_deletion_changes_the_propagation_policy() {
    let server = ApiServer::builder().garbage_collection(false).start();
    let owner = create(&server, "owner", &[]).await;
    create(&server, "child", &[&owner]).await;
    delete(&server, "owner", "Foreground").await;
    let finalizers = || async {
        let (_, owner) = request(&server, Method::GET, &at("owner"), None).await;
        owner["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers().await, json!(["foregroundDeletion"]));
    delete(&server, "owner", "Orphan").await;
    assert_eq!(finalizers().await, json!(["orphan"]));
    request(&server, Method::DELETE, &at("owner"), None).await;
    assert_eq!(
        finalizers().await,
        json!(["orphan"]),
        "without a word it stays as it is"
    );
    delete(&server, "owner", "Background").await;
    assert_eq!(
        names(&server).await,
        "child",
        "no garbage is collected here"
    );
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_can_own_namespaced_ones_but_not_vice_versa() {
    let server = ApiServer::new();
    let node = json!({ "metadata": { "name": "n" } });
    let (_, node) = request(&server, Method::POST, "/api/v1/nodes", Some(&node)).await;
    let of_node = json!({
        "apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"],
    });
    create_with(&server, "of-node", vec![of_node]).await;
    let map = create(&server, "map", &[]).await;
    let odd = json!({ "metadata": { "name": "odd", "ownerReferences": [reference(&map)] } });
    request(&server, Method::POST, "/api/v1/nodes", Some(&odd)).await;
    delete(&server, "map", "Background").await;
    request(&server, Method::DELETE, "/api/v1/nodes/n", None).await;
    assert_eq!(names(&server).await, "");
    let (code, _) = request(&server, Method::GET, "/api/v1/nodes/odd", None).await;
    assert_eq!(code, 200, "its reference says nothing");
}

#[tokio::test(start_paused = true)]
async fn namespaces_and_definitions_are_deleted_with_their_owners() {
    let server = ApiServer::new();
    let node = json!({ "metadata": { "name": "n" } });
    let (_, node) = request(&server, Method::POST, "/api/v1/nodes", Some(&node)).await;
    let owners = json!([{
        "apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"],
    }]);
    let space = json!({ "metadata": { "name": "team", "ownerReferences": owners } });
    request(&server, Method::POST, "/api/v1/namespaces", Some(&space)).await;
    let inside = "/api/v1/namespaces/team/configmaps";
    let map = json!({ "metadata": { "name": "m" } });
    request(&server, Method::POST, inside, Some(&map)).await;
    let mut definition = support::widget_definition();
    definition["metadata"]["ownerReferences"] = owners;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    request(&server, Method::POST, definitions, Some(&definition)).await;

    request(&server, Method::DELETE, "/api/v1/nodes/n", None).await;
    for gone in [
        "/api/v1/namespaces/team",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io",
        "/apis/ex.io/v1/namespaces/default/widgets",
    ] {
        let (code, _) = request(&server, Method::GET, gone, None).await;
        assert_eq!(code, 404, "{gone}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_deletion_deletes_no_dependents() {
    let server = ApiServer::new();
    let owner = create(&server, "owner", &[]).await;
    create(&server, "child", &[&owner]).await;
    let dry = json!({ "dryRun": ["All"], "propagationPolicy": "Foreground" });
    let (code, shown) = request(&server, Method::DELETE, &at("owner"), Some(&dry)).await;
    assert_eq!(code, 200);
    assert_eq!(
        shown["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_eq!(names(&server).await, "child owner");
}

/// Creates a cluster role with this owner.
async fn own_role(server: &ApiServer, owner: &Value, api_version: &str, kind: &str) {
    let mut reference = reference(owner);
    reference["apiVersion"] = api_version.into();
    reference["kind"] = kind.into();
    let role =
        json!({ "metadata": { "name": "dependent", "ownerReferences": [reference] }, "rules": [] });
    let (code, created) = request(server, Method::POST, ROLES, Some(&role)).await;
    assert_eq!(code, 201, "{created}");
}

#[tokio::test(start_paused = true)]
async fn dependents_of_namespaces_and_definitions_are_deleted_in_the_same_request() {
    let server = ApiServer::new();
    let namespaces = "/api/v1/namespaces";
    let namespace = json!({ "metadata": { "name": "owner" } });
    let (_, owner) = request(&server, Method::POST, namespaces, Some(&namespace)).await;
    own_role(&server, &owner, "v1", "Namespace").await;
    request(
        &server,
        Method::DELETE,
        &format!("{namespaces}/owner"),
        None,
    )
    .await;
    let (code, _) = request(&server, Method::GET, &format!("{ROLES}/dependent"), None).await;
    assert_eq!(code, 404);

    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = support::widget_definition();
    let (_, owner) = request(&server, Method::POST, definitions, Some(&definition)).await;
    own_role(
        &server,
        &owner,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
    .await;
    let name = owner["metadata"]["name"].as_str().expect("a name");
    request(
        &server,
        Method::DELETE,
        &format!("{definitions}/{name}"),
        None,
    )
    .await;
    let (code, _) = request(&server, Method::GET, &format!("{ROLES}/dependent"), None).await;
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_orphans_its_dependents_by_default() {
    let server = ApiServer::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    } });
    for (name, query, left) in [
        ("a", "", true),
        ("b", "?propagationPolicy=Background", false),
    ] {
        let job = json!({ "metadata": { "name": name }, "spec": { "template": template } });
        let (code, owner) = request(&server, Method::POST, jobs, Some(&job)).await;
        assert_eq!(code, 201, "{owner}");
        let mut reference = reference(&owner);
        reference["apiVersion"] = "batch/v1".into();
        reference["kind"] = "Job".into();
        create_with(&server, name, vec![reference]).await;
        let path = format!("{jobs}/{name}");
        request(&server, Method::DELETE, &format!("{path}{query}"), None).await;
        let (code, _) = request(&server, Method::GET, &path, None).await;
        assert_eq!(code, 404, "{name}");
        let (code, dependent) = request(&server, Method::GET, &at(name), None).await;
        assert_eq!(code == 200, left, "{name}");
        assert_eq!(dependent["metadata"].get("ownerReferences"), None);
    }
}

//! Tests of forbidden requests: with an expired token, with an impersonated user, with a deletion of
//! other objects than requested, or with a change of fields that only the server writes.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Decision};

mod support;

use support::{answer, request};

const NAMESPACES: &str = "/api/v1/namespaces";

fn maps(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/configmaps")
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

async fn create(server: &ApiServer, collection: &str, body: &Value) -> Value {
    let (code, answer) = request(server, Method::POST, collection, Some(body)).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

/// The names of the objects of a list.
async fn list(server: &ApiServer, path: &str) -> (Vec<String>, Value) {
    let (code, list) = request(server, Method::GET, path, None).await;
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().expect("a list");
    let names = items
        .iter()
        .filter_map(|it| it["metadata"]["name"].as_str());
    (names.map(str::to_owned).collect(), list)
}

/// The token names a place before all objects of the other namespace.
#[tokio::test(start_paused = true)]
async fn a_continue_token_of_an_earlier_namespace_lists_all_of_a_later_one() {
    let server = ApiServer::new();
    for (namespace, name) in [("a", "one"), ("a", "two"), ("b", "three")] {
        _ = request(&server, Method::POST, NAMESPACES, Some(&named(namespace))).await;
        create(&server, &maps(namespace), &named(name)).await;
    }
    let (names, page) = list(&server, &format!("{}?limit=1", maps("a"))).await;
    assert_eq!(names, ["one"]);
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let (names, _) = list(&server, &format!("{}?continue={token}", maps("b"))).await;
    assert_eq!(names, ["three"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_account_token_is_valid_until_it_expires() {
    let server = ApiServer::new();
    let accounts = format!("{NAMESPACES}/default/serviceaccounts");
    create(&server, &accounts, &named("robot")).await;
    let wanted = json!({ "spec": { "expirationSeconds": 600 } });
    let issued = create(&server, &format!("{accounts}/robot/token"), &wanted).await;
    let token = &issued["status"]["token"];
    let review = async || {
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = json!({ "spec": { "token": token } });
        create(&server, reviews, &review).await["status"].clone()
    };
    // In virtual time: a token is valid for 600 s.
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(review().await["authenticated"], true);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let status = review().await;
    assert_ne!(status["authenticated"], true, "{status}");
    let token = token.as_str().expect("text");
    let late = Request::get(NAMESPACES).header("authorization", format!("Bearer {token}"));
    let late = late.body(Full::default()).expect("a request");
    let (parts, _) = answer(&server, late).await;
    assert_eq!(parts.status, 401);
}

/// The authorizer is called for each user and group that a request impersonates.
#[tokio::test(start_paused = true)]
async fn a_request_impersonates_only_users_and_groups_that_the_authorizer_allows() {
    let server = ApiServer::builder()
        .authorize(
            |asked| match (&*asked.verb, &*asked.resource, &*asked.name) {
                ("impersonate", "users", "bob") | ("impersonate", "groups", "devs") => {
                    Decision::Allow
                }
                ("impersonate", ..) => Decision::Deny,
                _ => Decision::Allow,
            },
        )
        .start();
    let (bob, devs) = (("impersonate-user", "bob"), ("impersonate-group", "devs"));
    let mut answers = Vec::new();
    for headers in [
        &[bob][..],
        &[("impersonate-user", "eve")],
        &[bob, devs],
        &[bob, devs, ("impersonate-group", "system:masters")],
    ] {
        let mut request = Request::get(NAMESPACES);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::default()).expect("a request");
        answers.push(answer(&server, request).await.0.status.as_u16());
    }
    assert_eq!(answers, [200, 403, 200, 403]);
}

#[tokio::test(start_paused = true)]
async fn a_collection_deletion_respects_its_limit() {
    let server = ApiServer::new();
    let maps = maps("default");
    for name in ["a", "b", "c"] {
        create(&server, &maps, &named(name)).await;
    }
    let path = format!("{maps}?limit=1");
    let (code, deleted) = request(&server, Method::DELETE, &path, None).await;
    assert_eq!(code, 200, "{deleted}");
    let (names, _) = list(&server, &maps).await;
    assert_eq!(names, ["b", "c"]);
}

/// The dependent of an object that is deleted is in the same collection.
#[tokio::test(start_paused = true)]
async fn a_collection_with_an_owner_and_its_dependent_is_deleted() {
    let server = ApiServer::new();
    let maps = maps("default");
    let owner = create(&server, &maps, &named("a-owner")).await;
    let mut dependent = named("b-dependent");
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "a-owner",
        "uid": owner["metadata"]["uid"],
    }]);
    create(&server, &maps, &dependent).await;
    create(&server, &maps, &named("c-other")).await;
    let (code, deleted) = request(&server, Method::DELETE, &maps, None).await;
    assert_eq!(code, 200, "{deleted}");
    let (names, _) = list(&server, &maps).await;
    assert!(names.is_empty(), "{names:?}");
}

/// Only the subresource `finalize` changes them.
#[tokio::test(start_paused = true)]
async fn an_update_of_a_namespace_leaves_its_finalizers() {
    let server = ApiServer::new();
    let mut shop = create(&server, NAMESPACES, &named("shop")).await;
    assert_eq!(shop["spec"]["finalizers"], json!(["kubernetes"]));
    shop["spec"]["finalizers"] = json!(["example.io/ours"]);
    shop["metadata"]["labels"] = json!({ "tier": "web" });
    let path = format!("{NAMESPACES}/shop");
    let (code, updated) = request(&server, Method::PUT, &path, Some(&shop)).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(updated["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(updated["metadata"]["labels"]["tier"], "web");
}

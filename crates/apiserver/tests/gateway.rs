//! Tests with the unchanged definitions and manifests of the Gateway API, in YAML.

use std::error::Error;
use std::path::{Path, PathBuf};

use http::{Method, StatusCode};
use serde::Deserialize as _;
use serde_json::Value;
use windlass_apiserver::ApiServer;

mod support;

use support::request;

/// Every manifest under `folder`, in the order of the names of the files.
fn manifests(folder: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/gateway-api");
    let mut folders = vec![root.join(folder)];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                None => folders.push(path),
                Some("yaml") => files.push(path),
                Some(_) => {}
            }
        }
    }
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let object = Value::deserialize(document)?;
            if object.is_object() {
                objects.push(object);
            }
        }
    }
    Ok(objects)
}

/// The URL at which objects of this kind are created.
fn collection(object: &Value, resources: &[(String, String, bool)]) -> Option<String> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let (_, plural, namespaced) = resources.iter().find(|(known, ..)| known == kind)?;
    let root = if version.contains('/') {
        "/apis"
    } else {
        "/api"
    };
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default");
    let inside = if *namespaced {
        format!("/namespaces/{namespace}")
    } else {
        String::new()
    };
    Some(format!("{root}/{version}{inside}/{plural}"))
}

#[tokio::test(start_paused = true)]
async fn the_gateway_api_is_served_from_its_own_manifests() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    let mut kinds = vec![("Namespace".to_owned(), "namespaces".to_owned(), false)];
    for (kind, plural) in [
        ("ConfigMap", "configmaps"),
        ("Secret", "secrets"),
        ("Service", "services"),
        ("Deployment", "deployments"),
        ("Pod", "pods"),
    ] {
        kinds.push((kind.to_owned(), plural.to_owned(), true));
    }
    for definition in manifests("crds")? {
        if definition["kind"] != "CustomResourceDefinition" {
            continue;
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = request(&server, Method::POST, path, Some(&definition)).await;
        assert_eq!(code, StatusCode::CREATED, "{}", answer["message"]);
        let names = &definition["spec"]["names"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespaced = definition["spec"]["scope"] == "Namespaced";
        kinds.push((text(&names["kind"]), text(&names["plural"]), namespaced));
    }
    let objects = manifests("examples")?;
    for object in &objects {
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            let body = serde_json::json!({ "metadata": { "name": namespace } });
            request(&server, Method::POST, "/api/v1/namespaces", Some(&body)).await;
        }
    }
    let mut created = 0;
    for object in &objects {
        let Some(path) = collection(object, &kinds) else {
            continue;
        };
        let (code, answer) = request(&server, Method::POST, &path, Some(object)).await;
        // The examples name some objects alike.
        assert!(
            matches!(code, StatusCode::CREATED | StatusCode::CONFLICT),
            "{path}: {}",
            answer["message"]
        );
        created += usize::from(code == StatusCode::CREATED);
    }
    assert!(created > 20, "{created} of {} were created", objects.len());
    Ok(())
}

//! Manifests that a test installs: definitions, roles, and objects that it needs.

use std::{future::Future, panic::Location, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_apiserver::{ManifestError, read_manifest};

use super::{Kit, LIMIT, objects::accepted};

// === impl Kit ===

impl Kit {
    /// Applies manifests by server-side apply, as the field manager `kit`, with force, and waits until
    /// the kinds of their definitions are served.
    ///
    /// `manifests` is an object such as a `CustomResourceDefinition`, a `Vec` of objects, or a text in
    /// YAML or JSON with any number of documents. Definitions are applied first, then namespaces, then
    /// the others in their order. An object without a namespace is in that of the kit.
    ///
    /// # Panics
    ///
    /// If the text is neither YAML nor JSON, the server refuses an object, or it does not serve a kind
    /// within one minute.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_simulate::kit::{self, Kit};
    ///
    /// const MANIFESTS: &str = "
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata:
    ///   name: settings
    ///   namespace: team-a
    /// ---
    /// apiVersion: v1
    /// kind: Namespace
    /// metadata:
    ///   name: team-a
    /// ";
    ///
    /// kit::run(async |kit: Kit| {
    ///     kit.install(MANIFESTS).await; // or `include_str!("../deploy/operator.yaml")`
    ///     assert!(kit.get::<ConfigMap>("team-a/settings").await.is_some());
    /// });
    /// ```
    #[track_caller]
    pub fn install(&self, manifests: &(impl Serialize + ?Sized)) -> impl Future<Output = ()> {
        let (place, kit) = (Location::caller(), self.clone());
        let manifests = serde_json::to_value(manifests);
        async move {
            let manifests = manifests.unwrap_or_else(|error| panic!("{place}: {error}"));
            let mut objects = Vec::new();
            if let Err(error) = read(manifests, &mut objects) {
                panic!("{place}: {error}");
            }
            objects.sort_by_key(|object| match object["kind"].as_str() {
                Some("CustomResourceDefinition") => 0,
                Some("Namespace") => 1,
                _ => 2,
            });
            for object in objects {
                let path = kit.path_of(&object, place).await;
                accepted(
                    kit.core.user.apply(&path, &object).await,
                    "install",
                    &path,
                    place,
                );
                if object["kind"] == "CustomResourceDefinition" {
                    kit.wait_until_served(&path, place).await;
                }
            }
        }
    }

    /// The path of an object, of which the server says whether it has a namespace.
    async fn path_of(&self, object: &Value, place: &Location<'_>) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let name = text(&object["metadata"]["name"]);
        assert!(
            !version.is_empty() && !kind.is_empty() && !name.is_empty(),
            "{place}: an object has no `apiVersion`, `kind` or `metadata.name`: {version} {kind} {name}"
        );
        let root = if version.contains('/') { "apis" } else { "api" };
        let version = format!("/{root}/{version}");
        let named = |it: &Value| {
            it["kind"] == *kind && it["name"].as_str().is_some_and(|it| !it.contains('/'))
        };
        let began = Instant::now();
        // A server can show a new kind a moment after it is established.
        let resource = loop {
            if let Some(resource) = self.served(&version, named).await {
                break resource;
            }
            assert!(
                began.elapsed() < LIMIT,
                "{place}: the server does not serve the kind {kind} of {version}"
            );
            sleep(Duration::from_millis(50)).await;
        };
        let plural = text(&resource["name"]);
        if resource["namespaced"] != true {
            return format!("{version}/{plural}/{name}");
        }
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or(&self.core.namespace);
        format!("{version}/namespaces/{namespace}/{plural}/{name}")
    }

    async fn wait_until_served(&self, path: &str, place: &Location<'_>) {
        let began = Instant::now();
        loop {
            let object = self.core.user.get(path).await.unwrap_or_default();
            let conditions = object["status"]["conditions"].as_array().cloned();
            let is = |it: &Value| it["type"] == "Established" && it["status"] == "True";
            if conditions.unwrap_or_default().iter().any(is) {
                return;
            }
            assert!(
                began.elapsed() < LIMIT,
                "{place}: the kind of {path} is not served after {LIMIT:?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The objects of texts, lists and objects of the kind `List`.
fn read(manifests: Value, objects: &mut Vec<Value>) -> Result<(), ManifestError> {
    match manifests {
        Value::String(text) => {
            for document in read_manifest(&text)? {
                read(document, objects)?;
            }
        }
        Value::Array(items) => {
            for item in items {
                read(item, objects)?;
            }
        }
        Value::Object(mut list) if list.get("kind").is_some_and(|it| it == "List") => {
            read(list.remove("items").unwrap_or_default(), objects)?;
        }
        Value::Null => {}
        object => objects.push(object),
    }
    Ok(())
}

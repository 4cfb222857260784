//! A custom resource definition for one test, because definitions are cluster-scoped.

use serde_json::{Value, json};

use super::raw::{Raw, named};

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The kind `Widget` in a group of the test's own.
pub(super) struct Widget<'a> {
    raw: &'a Raw,
    pub(super) group: String,
}

impl<'a> Widget<'a> {
    pub(super) fn new(raw: &'a Raw) -> Self {
        let group = format!("{}.windlass.dev", raw.namespace);
        Self { raw, group }
    }

    /// Defines the kind, with this schema of its `spec`, and waits until it is served.
    pub(super) async fn served(raw: &'a Raw, spec: &Value) -> Self {
        let widget = Self::new(raw);
        widget.define(&widget.definition(spec)).await;
        widget
    }

    /// Defines the kind, with this schema of the whole object, and waits until it is served.
    pub(super) async fn with_schema(raw: &'a Raw, schema: &Value) -> Self {
        let widget = Self::new(raw);
        let mut definition = widget.definition(&json!({}));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
        widget.define(&definition).await;
        widget
    }

    /// A definition with one version, and with a status of its own.
    pub(super) fn definition(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": self.name() },
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {
                    "plural": "widgets", "kind": "Widget",
                    "shortNames": ["wd"], "categories": ["all"],
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": spec,
                            "status": {
                                "type": "object",
                                "properties": { "ready": { "type": "boolean" } },
                            },
                        },
                    } },
                }],
            },
        })
    }

    /// Registers a definition, and waits until objects can be listed.
    pub(super) async fn define(&self, definition: &Value) {
        self.raw.post(DEFINITIONS, definition).await.ok();
        self.raw
            .until(&self.all(), |answer| answer.code == 200)
            .await;
    }

    /// What the definition is called.
    pub(super) fn name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    /// Where the definition is.
    pub(super) fn own_path(&self) -> String {
        format!("{DEFINITIONS}/{}", self.name())
    }

    /// Where the widgets of the test's namespace are.
    pub(super) fn all(&self) -> String {
        self.raw.at(&format!("/apis/{}/v1", self.group), "widgets")
    }

    /// Where one of them is.
    pub(super) fn one(&self, name: &str) -> String {
        format!("{}/{name}", self.all())
    }

    /// A widget.
    pub(super) fn object(&self, name: &str, spec: &Value) -> Value {
        let mut object = named(name);
        object["apiVersion"] = format!("{}/v1", self.group).into();
        object["kind"] = "Widget".into();
        object["spec"] = spec.clone();
        object
    }

    /// Creates one.
    pub(super) async fn create(&self, name: &str, spec: &Value) -> Value {
        let object = self.object(name, spec);
        self.raw.post(&self.all(), &object).await.ok()
    }
}

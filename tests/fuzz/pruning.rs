//! Custom resources with unknown fields: the stored object must differ only by these fields.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

use crate::{in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    size: i64,
    color: Option<u8>,
    #[generator(bolero::generator::produce::<Vec<u8>>().with().len(0_usize..4))]
    tags: Vec<u8>,
    #[generator(bolero::generator::produce::<Vec<Item>>().with().len(0_usize..4))]
    items: Vec<Item>,
    /// Of a field that keeps unknown fields.
    open: Option<Json>,
    /// Of a field that keeps them, and has no type.
    untyped: Option<Json>,
    /// In a map of strings.
    #[generator(bolero::generator::produce::<Vec<u8>>().with().len(0_usize..4))]
    more: Vec<u8>,
    /// Beside the fields of the specification.
    unknown: Vec<Json>,
    /// Beside `spec`.
    outer: Option<Json>,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Item {
    value: Option<u8>,
    unknown: Option<Json>,
}

/// Any JSON value, without `null` in objects, which is dropped for other reasons.
#[derive(Clone, Debug, TypeGenerator)]
enum Json {
    Bool(bool),
    Number(i32),
    Text(u8),
    List(#[generator(bolero::generator::produce::<Vec<Leaf>>().with().len(0_usize..3))] Vec<Leaf>),
    Object(
        #[generator(bolero::generator::produce::<Vec<Leaf>>().with().len(0_usize..3))] Vec<Leaf>,
    ),
}

#[derive(Clone, Debug, TypeGenerator)]
enum Leaf {
    Bool(bool),
    Text(u8),
    Numbers(#[generator(bolero::generator::produce::<Vec<u8>>().with().len(0_usize..3))] Vec<u8>),
    Named(u8, bool),
}

const DEFINED: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/ex.io/v1/namespaces/default/widgets";

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        let (status, answer) = post(&server, DEFINED, &definition()).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let (status, stored) = post(&server, ALL, &input.object(true)).await;
        assert_eq!(status, StatusCode::CREATED, "{stored}");
        let known = input.object(false);
        assert_eq!(stored["spec"], known["spec"], "nothing else is pruned");
        let fields: Vec<&String> = stored.as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec"]);
    });
}

async fn post(server: &ApiServer, path: &str, object: &Value) -> (StatusCode, Value) {
    let request = Request::post(path).body(object.to_string().into_bytes());
    let (status, answer) = send(server, request.expect("a request")).await;
    (
        status,
        serde_json::from_slice(&answer).expect("an answer is JSON"),
    )
}

fn definition() -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let item = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "value": { "type": "integer" } },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "size": { "type": "integer" },
            "color": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "items": { "type": "array", "items": item },
            "open": { "type": "object", "properties": { "it": open } },
            "untyped": { "x-kubernetes-preserve-unknown-fields": true },
            "more": { "type": "object", "additionalProperties": { "type": "string" } },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.ex.io" },
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
            }],
        },
    })
}

// === impl Input ===

impl Input {
    /// The object, with its unknown fields or without them.
    fn object(&self, unknown: bool) -> Value {
        let mut spec = Map::new();
        spec.insert("size".to_owned(), self.size.into());
        if let Some(color) = self.color {
            spec.insert("color".to_owned(), text(color).into());
        }
        let tags: Vec<String> = self.tags.iter().copied().map(text).collect();
        spec.insert("tags".to_owned(), tags.into());
        let items: Vec<Value> = self.items.iter().map(|item| item.value(unknown)).collect();
        spec.insert("items".to_owned(), items.into());
        if let Some(open) = &self.open {
            let it = json!({ "inner": open.value(), "other": 1 });
            let mut open = json!({ "it": it });
            if unknown {
                open["beside"] = json!({ "inner": 1 });
            }
            spec.insert("open".to_owned(), open);
        }
        if let Some(untyped) = &self.untyped {
            spec.insert("untyped".to_owned(), untyped.value());
        }
        let more = self
            .more
            .iter()
            .map(|key| (text(*key), Value::from(text(*key))));
        spec.insert("more".to_owned(), more.collect::<Map<_, _>>().into());
        if unknown {
            for (number, value) in self.unknown.iter().enumerate() {
                spec.insert(format!("unknown{number}"), value.value());
            }
        }
        let mut object = json!({
            "apiVersion": "ex.io/v1",
            "kind": "Widget",
            "metadata": { "name": "w" },
            "spec": spec,
        });
        if unknown && let Some(outer) = &self.outer {
            object["unknown"] = outer.value();
        }
        object
    }
}

// === impl Item ===

impl Item {
    fn value(&self, unknown: bool) -> Value {
        let mut item = Map::new();
        if let Some(value) = self.value {
            item.insert("value".to_owned(), value.into());
            item.insert("name".to_owned(), text(value).into());
        }
        if unknown && let Some(value) = &self.unknown {
            item.insert("unknown".to_owned(), value.value());
        }
        item.into()
    }
}

// === impl Json ===

impl Json {
    fn value(&self) -> Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Number(value) => (*value).into(),
            Self::Text(value) => text(*value).into(),
            Self::List(values) => values.iter().map(Leaf::value).collect(),
            Self::Object(values) => {
                let fields = (0_u8..).zip(values);
                let fields = fields.map(|(number, value)| (text(number), value.value()));
                fields.collect::<Map<_, _>>().into()
            }
        }
    }
}

// === impl Leaf ===

impl Leaf {
    fn value(&self) -> Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Text(value) => text(*value).into(),
            Self::Numbers(values) => values.clone().into(),
            Self::Named(name, value) => json!({ text(*name): value }),
        }
    }
}

/// One of some texts, some of them the names of fields.
fn text(number: u8) -> String {
    const TEXTS: [&str; 8] = [
        "size", "color", "items", "name", "\u{e9}", "", "a b", "metadata",
    ];
    let index = usize::from(number);
    TEXTS
        .get(index)
        .map_or_else(|| format!("t{number}"), |text| (*text).to_owned())
}

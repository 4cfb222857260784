//! Selectors: several requirements of labels select what each of them selects, and requirements of
//! labels or fields that are made from their parts select the objects that fit each part.

use std::collections::BTreeSet;

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    one: Edits,
    other: Edits,
    #[generator(bolero::generator::produce::<Vec<Requirement>>().with().len(0_usize..4))]
    requirements: Vec<Requirement>,
    #[generator(bolero::generator::produce::<Vec<Field>>().with().len(0_usize..4))]
    fields: Vec<Field>,
}

/// One requirement of a field, by its parts.
#[derive(Clone, Debug, TypeGenerator)]
struct Field {
    name: u8,
    operator: u8,
    value: u8,
}

/// The fields of secrets that can be selected by, and one that cannot.
const FIELDS: [&str; 4] = ["metadata.name", "metadata.namespace", "type", "data"];

/// The namespace, name and type of each secret.
const SECRETS: [[&str; 3]; 4] = [
    ["default", "s1", "Opaque"],
    ["default", "s2", "a,b"],
    ["kube-system", "s1", r"x=y\z"],
    ["kube-system", "s3", "a!=b"],
];

// === impl Field ===

impl Field {
    fn field(&self) -> usize {
        usize::from(self.name) % FIELDS.len()
    }

    /// The value of this field of one of the secrets, of another field, or none.
    fn value(&self) -> &'static str {
        let values = SECRETS.as_flattened();
        values
            .get(usize::from(self.value) % (values.len() + 1))
            .copied()
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        let operator = ["=", "==", "!="][usize::from(self.operator % 3)];
        let value = self.value().replace('\\', r"\\");
        let value = value.replace(',', r"\,").replace('=', r"\=");
        format!("{}{operator}{value}", FIELDS[self.field()])
    }

    fn selects(&self, secret: &[&str; 3]) -> bool {
        let [namespace, name, of] = *secret;
        let is_equal = [name, namespace, of][self.field()] == self.value();
        is_equal == (self.operator % 3 < 2)
    }

    /// Whether the server rejects this requirement.
    fn is_unknown(&self) -> bool {
        FIELDS[self.field()] == "data"
    }
}

/// One requirement, by its parts.
#[derive(Clone, Debug, TypeGenerator)]
struct Requirement {
    key: u8,
    operator: u8,
    #[generator(bolero::generator::produce::<Vec<u8>>().with().len(1_usize..4))]
    values: Vec<u8>,
    limit: i8,
    space: bool,
}

const KEYS: [&str; 4] = ["a", "n", "x.io/y", "none"];
const VALUES: [&str; 7] = ["b", "c", "", "x", "1", "4", "z"];

// === impl Requirement ===

impl Requirement {
    fn key(&self) -> &'static str {
        KEYS[usize::from(self.key) % KEYS.len()]
    }

    fn values(&self) -> impl Iterator<Item = &'static str> {
        let numbers = self.values.iter();
        numbers.map(|number| VALUES[usize::from(*number) % VALUES.len()])
    }

    /// The text of this requirement.
    fn text(&self) -> String {
        let key = self.key();
        let first = self.values().next().unwrap_or_default();
        let space = if self.space { " " } else { "" };
        let operator = |text: &str, value: &str| format!("{space}{key}{space}{text}{space}{value}");
        let list = format!(
            "({space}{}{space})",
            self.values().collect::<Vec<_>>().join(",")
        );
        match self.operator % 9 {
            0 => operator("=", first),
            1 => operator("==", first),
            2 => operator("!=", first),
            3 => format!("{key} in {list}"),
            4 => format!("{key} notin {list}"),
            5 => format!("{space}{key}{space}"),
            6 => format!("!{space}{key}"),
            7 => operator(">", &self.limit.unsigned_abs().to_string()),
            _ => operator("<", &self.limit.unsigned_abs().to_string()),
        }
    }

    /// Whether an object with these labels is selected, as the documentation of Kubernetes defines
    /// each operator: only `!=`, `notin` and `!` select an object without the label.
    fn selects(&self, labels: &Value) -> bool {
        let label = labels[self.key()].as_str();
        let first = self.values().next();
        let number = label.and_then(|label| label.parse::<i64>().ok());
        let limit = i64::from(self.limit.unsigned_abs());
        match self.operator % 9 {
            0 | 1 => label.is_some() && label == first,
            2 => label != first,
            3 => self.values().any(|value| label == Some(value)),
            4 => self.values().all(|value| label != Some(value)),
            5 => label.is_some(),
            6 => label.is_none(),
            7 => number.is_some_and(|number| number > limit),
            _ => number.is_some_and(|number| number < limit),
        }
    }
}

const REQUIREMENTS: [&str; 10] = [
    "a=b",
    "a==b",
    "a!=b",
    "a in (b,c)",
    "a notin (b)",
    "a",
    "!a",
    "n>1",
    "n<3",
    "x.io/y=",
];

/// The labels of the objects that are selected from.
const LABELS: [&str; 6] = [
    "{}",
    r#"{"a":"b"}"#,
    r#"{"a":"c","n":"2"}"#,
    r#"{"n":"4","x.io/y":""}"#,
    r#"{"a":"","n":"x"}"#,
    r#"{"a":"b","n":"1","x.io/y":"z"}"#,
];

/// A file has a selector of labels, or two.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    vec![Input {
        one: Edits::none(parts[0]),
        other: Edits::none(parts.get(1).copied().unwrap_or("a")),
        requirements: Vec::new(),
        fields: Vec::new(),
    }]
}

/// Lists the secrets that the requirements of fields select.
async fn check_fields(server: &ApiServer, fields: &[Field]) {
    for [namespace, name, of] in SECRETS {
        let object = json!({ "metadata": { "name": name }, "type": of });
        let request = Request::post(format!("/api/v1/namespaces/{namespace}/secrets"))
            .body(object.to_string().into_bytes());
        let (status, answer) = send(server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&answer);
        assert_eq!(status, StatusCode::CREATED, "{message}");
    }
    let text = fields.iter().map(Field::text).collect::<Vec<_>>().join(",");
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("fieldSelector", &text)
        .finish();
    let request = Request::get(format!("/api/v1/secrets?{query}")).body(Vec::new());
    let (status, body) = send(server, request.expect("a request")).await;
    if fields.iter().any(Field::is_unknown) {
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text:?}");
        return;
    }
    assert_eq!(status, StatusCode::OK, "{text:?}");
    let list: Value = serde_json::from_slice(&body).expect("a list");
    let items = list["items"].as_array().expect("items").iter();
    let found: BTreeSet<String> = items
        .map(|item| &item["metadata"])
        .map(|it| format!("{}/{}", it["namespace"], it["name"]).replace('"', ""))
        .collect();
    let fitting = SECRETS
        .iter()
        .filter(|it| fields.iter().all(|field| field.selects(it)));
    let fitting = fitting.map(|[namespace, name, _]| format!("{namespace}/{name}"));
    assert_eq!(found, fitting.collect(), "{text:?}");
}

pub(crate) fn check(input: &Input) {
    let one = input.one.text_of(&REQUIREMENTS);
    let other = input.other.text_of(&REQUIREMENTS);
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        for (number, labels) in LABELS.iter().enumerate() {
            let labels: Value = serde_json::from_str(labels).expect("labels");
            let object = json!({ "metadata": { "name": format!("m{number}"), "labels": labels } });
            let request = Request::post("/api/v1/namespaces/default/configmaps")
                .body(object.to_string().into_bytes());
            let (status, _) = send(&server, request.expect("a request")).await;
            assert_eq!(status, StatusCode::CREATED);
        }
        let texts = input.requirements.iter().map(Requirement::text);
        let text = texts.collect::<Vec<_>>().join(",");
        let fitting = LABELS.iter().enumerate().filter(|(_, labels)| {
            let labels: Value = serde_json::from_str(labels).expect("labels");
            input.requirements.iter().all(|it| it.selects(&labels))
        });
        let fitting = fitting.map(|(number, _)| format!("m{number}")).collect();
        assert_eq!(selected(&server, &text).await, Some(fitting), "{text:?}");

        check_fields(&server, &input.fields).await;

        let first = selected(&server, &one).await;
        let second = selected(&server, &other).await;
        let both = selected(&server, &format!("{one},{other}")).await;
        if let (Some(first), Some(second)) = (first, second) {
            // An empty selector selects everything, and is no requirement.
            if !one.trim().is_empty() && !other.trim().is_empty() {
                let common = first.intersection(&second).cloned().collect();
                assert_eq!(both, Some(common), "{one:?} and {other:?}");
            }
        }
    });
}

/// The names of the objects that a selector selects; none if it is refused.
async fn selected(server: &ApiServer, selector: &str) -> Option<BTreeSet<String>> {
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("labelSelector", selector)
        .finish();
    let path = format!("/api/v1/namespaces/default/configmaps?{query}");
    let request = Request::get(path).body(Vec::new()).expect("a request");
    let (status, body) = send(server, request).await;
    if status == StatusCode::BAD_REQUEST {
        return None;
    }
    assert_eq!(status, StatusCode::OK, "{selector:?}");
    let list: Value = serde_json::from_slice(&body).expect("a list");
    let items = list["items"].as_array().expect("items");
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    Some(items.iter().filter_map(name).collect())
}

//! The steps of a sequence: random requests about one object.

use http::Method;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use super::super::{change, collect};

const JSON: &str = "application/json";

/// Kinds with a number of replicas.
const SCALED: [&str; 5] = [
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "Widget",
];

/// One request about the object.
pub(super) struct Step {
    pub(super) method: Method,
    /// Of a watch, with `FIRST` and `LAST` for the versions in which a server first and last showed
    /// the object.
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Body,
}

/// The body of a request.
pub(super) enum Body {
    Nothing,
    /// The same for both servers.
    Same(Value),
    /// The object as each server last showed it, with this in the place that the pointer names.
    Current(String, Value),
    /// The same, with the version at which each server first showed it: mostly a conflict.
    Stale(String, Value),
    /// Options of a deletion, with the uid or the version of the object if it is to have one.
    Delete(Value, Option<&'static str>),
}

/// Makes requests.
pub(super) struct Generator<'a> {
    pub(super) random: StdRng,
    /// The object as it was created.
    pub(super) object: &'a Value,
    /// Where objects of its kind are.
    pub(super) place: &'a str,
    pub(super) name: &'a str,
    /// Statuses of its kind.
    pub(super) statuses: &'a [Value],
}

// === impl Generator ===

impl Generator<'_> {
    /// A place in the object that may be changed, and a value of its type, mostly.
    fn edit(&mut self) -> (String, Value) {
        let mut places = Vec::new();
        collect(self.object, String::new(), &mut places);
        places.retain(|place| !place.starts_with("/metadata") && place.len() > "/apiVersion".len());
        let texts = ["", "a", "b", "1Gi", "10"];
        let text = *texts.choose(&mut self.random).expect("there are some");
        let labels = ["/metadata/labels", "/metadata/annotations"];
        if places.is_empty() || self.random.random_bool(0.3) {
            let field = *labels.choose(&mut self.random).expect("there are some");
            return (format!("{field}/{}", text.len()), text.into());
        }
        let place = places
            .choose(&mut self.random)
            .expect("there are some")
            .clone();
        let value = match self.object.pointer(&place) {
            Some(Value::String(_)) => text.into(),
            Some(Value::Number(_)) => self.random.random_range(0..4).into(),
            Some(Value::Bool(old)) => (!old).into(),
            Some(other) => other.clone(),
            None => Value::Null,
        };
        let is_removed = self.random.random_bool(0.15);
        (place, if is_removed { Value::Null } else { value })
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(&mut self.random).expect("there are some")
    }

    /// The options of a write.
    fn options(&mut self) -> String {
        let mut options = format!("fieldManager={}", self.pick(&["m1", "m2"]));
        if self.random.random_bool(0.1) {
            options += "&dryRun=All";
        }
        if self.random.random_bool(0.2) {
            options += self.pick(&[
                "&fieldValidation=Strict",
                "&fieldValidation=Ignore",
                "&fieldValidation=Warn",
            ]);
        }
        options
    }

    /// A creation, and this number of steps after it.
    pub(super) fn steps(&mut self, count: usize) -> Vec<Step> {
        let mut steps = vec![self.creation(self.object.clone())];
        while steps.len() <= count {
            if self.random.random_bool(0.03) {
                let at = format!("{}/{}", self.place, self.name);
                steps.push(Step {
                    method: Method::DELETE,
                    path: format!("{at}?gracePeriodSeconds=0&propagationPolicy=Background"),
                    content_type: "",
                    body: Body::Nothing,
                });
                steps.push(self.creation(self.object.clone()));
            } else {
                steps.push(self.step());
            }
        }
        steps
    }

    fn creation(&self, object: Value) -> Step {
        Step {
            method: Method::POST,
            path: format!("{}?fieldManager=m1", self.place),
            content_type: JSON,
            body: Body::Same(object),
        }
    }

    fn step(&mut self) -> Step {
        let at = format!("{}/{}", self.place, self.name);
        let options = self.options();
        let (pointer, value) = self.edit();
        let write = |method, content_type, body| Step {
            method,
            path: format!("{at}?{options}"),
            content_type,
            body,
        };
        match self.random.random_range(0..26) {
            0..3 => write(Method::PUT, JSON, Body::Current(pointer, value)),
            3 => write(Method::PUT, JSON, Body::Stale(pointer, value)),
            4..6 => {
                let operation = if value.is_null() {
                    json!({ "op": "remove", "path": pointer })
                } else {
                    json!({ "op": "replace", "path": pointer, "value": value })
                };
                let body = Body::Same(json!([operation]));
                write(Method::PATCH, "application/json-patch+json", body)
            }
            kind @ 6..10 => {
                let content_type = if kind < 8 {
                    "application/merge-patch+json"
                } else {
                    "application/strategic-merge-patch+json"
                };
                let body = Body::Same(self.nested(&pointer, value));
                write(Method::PATCH, content_type, body)
            }
            kind @ 10..13 => {
                let mut config = self.object.clone();
                if kind > 10 {
                    change(&mut config, &mut self.random);
                }
                let force = self.random.random_bool(0.5);
                Step {
                    method: Method::PATCH,
                    path: format!("{at}?{options}&force={force}"),
                    content_type: "application/apply-patch+yaml",
                    body: Body::Same(config),
                }
            }
            13..16 => self.list(),
            16 => Step {
                method: Method::PATCH,
                path: format!("{at}/status?{options}"),
                content_type: "application/merge-patch+json",
                body: Body::Same(json!({ "metadata": { "labels": { "s": "t" } } })),
            },
            17 => write(
                Method::PATCH,
                "application/merge-patch+json",
                Body::Same(json!({ "metadata": {
                    "finalizers": self.pick(&[&["ex.io/f"][..], &[]]),
                } })),
            ),
            18..20 => self.deletion(&at),
            20..22 => self.watch(),
            22..24 => self.status(&at, &options),
            24 if SCALED.iter().any(|kind| self.object["kind"] == *kind) => {
                self.scale(&at, &options)
            }
            _ => {
                let mut object = self.object.clone();
                change(&mut object, &mut self.random);
                // Each server invents another name for an object without one.
                if object["metadata"]["name"] != self.name {
                    object["metadata"] = self.object["metadata"].clone();
                }
                self.creation(object)
            }
        }
    }

    /// A watch, with options that are right and wrong, and in combinations that are.
    fn watch(&mut self) -> Step {
        let name = format!("fieldSelector=metadata.name%3D{}", self.name);
        let selector = self.pick(&[
            &name,
            "labelSelector=1%3Da",
            "labelSelector=1!%3Da",
            "labelSelector=1+in+(a,b)",
            "labelSelector=!1",
            "labelSelector=",
            "fieldSelector=spec.nothing%3D1",
        ]);
        let version = self.pick(&[
            "",
            "&resourceVersion=",
            "&resourceVersion=0",
            "&resourceVersion=FIRST",
            "&resourceVersion=LAST",
            "&resourceVersion=x",
        ]);
        let initial = self.pick(&[
            "",
            "",
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            "&sendInitialEvents=true",
            "&resourceVersionMatch=Exact",
        ]);
        let bookmarks = self.pick(&["", "&allowWatchBookmarks=true", "&allowWatchBookmarks=x"]);
        Step {
            method: Method::GET,
            path: format!(
                "{}?{selector}&watch=true{version}{initial}{bookmarks}",
                self.place
            ),
            content_type: "",
            body: Body::Nothing,
        }
    }

    /// A write of the status, which is sometimes of a wrong type, and sometimes sent to the object.
    fn status(&mut self, at: &str, options: &str) -> Step {
        let status = self.statuses.choose(&mut self.random).cloned();
        let mut written = json!({ "status": status.unwrap_or_default() });
        let part = self.pick(&["/status", "/status", "/status", ""]);
        // A status of the wrong type that is sent to a custom resource itself is not compared: it
        // is not stored, but the real server drops `managedFields`.
        let is_compared = !part.is_empty() || self.object["kind"] != "Widget";
        if is_compared && self.random.random_bool(0.3) {
            change(&mut written, &mut self.random);
        }
        let path = format!("{at}{part}?{options}");
        match self.random.random_range(0..4) {
            0 => Step {
                method: Method::PUT,
                path,
                content_type: JSON,
                body: Body::Current("/status".to_owned(), written["status"].take()),
            },
            1 => {
                for field in ["apiVersion", "kind"] {
                    written[field] = self.object[field].clone();
                }
                written["metadata"] = json!({ "name": self.name });
                Step {
                    method: Method::PATCH,
                    path: format!("{path}&force=true"),
                    content_type: "application/apply-patch+yaml",
                    body: Body::Same(written),
                }
            }
            kind => {
                let is_strategic = self.pick(&[false, true]) && kind == 2;
                Step {
                    method: Method::PATCH,
                    path,
                    content_type: if is_strategic {
                        "application/strategic-merge-patch+json"
                    } else {
                        "application/merge-patch+json"
                    },
                    body: Body::Same(written),
                }
            }
        }
    }

    /// A request about the number of replicas.
    fn scale(&mut self, at: &str, options: &str) -> Step {
        let path = format!("{at}/scale?{options}");
        let numbers = [
            json!(0),
            json!(1),
            json!(3),
            Value::Null,
            // Of a custom resource, the servers reject it with different messages.
            json!(-1),
        ];
        let count = numbers.len() - usize::from(self.object["kind"] == "Widget");
        let number = numbers[..count]
            .choose(&mut self.random)
            .expect("there are some");
        let change = json!({ "spec": { "replicas": number } });
        let mut scale = change.clone();
        scale["apiVersion"] = "autoscaling/v1".into();
        scale["kind"] = "Scale".into();
        scale["metadata"] = json!({ "name": self.name });
        let (method, content_type, body) = match self.random.random_range(0..4) {
            0 => (Method::GET, "", Body::Nothing),
            1 => (Method::PUT, JSON, Body::Same(scale)),
            2 => (
                Method::PATCH,
                "application/merge-patch+json",
                Body::Same(change),
            ),
            _ => (
                Method::PATCH,
                "application/apply-patch+yaml",
                Body::Same(scale),
            ),
        };
        Step {
            method,
            path,
            content_type,
            body,
        }
    }

    /// A list, with options that are right and wrong.
    fn list(&mut self) -> Step {
        let name = self.name;
        let option = self.pick(&[
            "labelSelector=1%3Da",
            "labelSelector=1!%3Da",
            "labelSelector=1+in+(a,b)",
            "labelSelector=a%20b",
            "labelSelector=!1&limit=1",
            "limit=1&resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact",
            "resourceVersion=x",
            "fieldSelector=spec.nothing%3D1",
            "limit=-1",
            "continue=x",
            "timeoutSeconds=x",
        ]);
        if option.starts_with("fieldSelector=") {
            return Step {
                method: Method::GET,
                path: format!("{}?{option}", self.place),
                content_type: "",
                body: Body::Nothing,
            };
        }
        Step {
            method: Method::GET,
            path: format!(
                "{}?fieldSelector=metadata.name%3D{name}&{option}",
                self.place
            ),
            content_type: "",
            body: Body::Nothing,
        }
    }

    /// A deletion, with options that are right and wrong.
    fn deletion(&mut self, at: &str) -> Step {
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
        let with = |name: &str, value: Value| {
            let mut options = options.clone();
            options[name] = value;
            options
        };
        let body = match self.random.random_range(0..9) {
            0 => Body::Nothing,
            1 => Body::Delete(with("propagationPolicy", "Background".into()), None),
            2 => Body::Delete(with("propagationPolicy", "Foreground".into()), None),
            3 => Body::Delete(with("propagationPolicy", "Orphan".into()), None),
            4 => Body::Delete(with("propagationPolicy", "Nothing".into()), None),
            5 => Body::Delete(options.clone(), Some("uid")),
            6 => Body::Delete(options.clone(), Some("resourceVersion")),
            7 => Body::Delete(with("dryRun", json!(["All"])), None),
            _ => Body::Delete(with("gracePeriodSeconds", 0.into()), None),
        };
        let content_type = match body {
            Body::Nothing => "",
            _ => JSON,
        };
        Step {
            method: Method::DELETE,
            path: at.to_owned(),
            content_type,
            body,
        }
    }

    /// A merge patch that sets one place; lists are sent whole.
    fn nested(&self, pointer: &str, value: Value) -> Value {
        let mut whole = self.object.clone();
        let parts: Vec<_> = pointer.split('/').skip(1).collect();
        let mut depth = parts.len();
        let mut at = &whole;
        for (number, part) in parts.iter().enumerate() {
            if at.is_array() {
                depth = number;
                break;
            }
            at = &at[part.replace("~1", "/").as_str()];
        }
        let mut patch = if depth == parts.len() {
            value
        } else {
            if let Some(place) = whole.pointer_mut(pointer) {
                *place = value;
            }
            let list = format!("/{}", parts[..depth].join("/"));
            whole.pointer(&list).cloned().unwrap_or_default()
        };
        for part in parts[..depth].iter().rev() {
            patch = json!({ part.replace("~1", "/"): patch });
        }
        patch
    }
}

// === impl Step ===

impl Step {
    pub(super) fn is_watch(&self) -> bool {
        self.path.contains("&watch=true")
    }
}

// === impl Body ===

impl Body {
    /// The text for a server that first showed the object as the first one of `shown`, and last
    /// as the second one, or not yet, and then as it is created.
    pub(super) fn text(&self, [first, last]: &[Value; 2], created: &Value) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Same(body) => body.to_string(),
            Self::Current(pointer, value) | Self::Stale(pointer, value) => {
                let mut object = if last.is_null() { created } else { last }.clone();
                match object.pointer_mut(pointer) {
                    Some(place) if !value.is_null() => *place = value.clone(),
                    None if pointer == "/status" => object["status"] = value.clone(),
                    _ if pointer.starts_with("/metadata") => {
                        let name = pointer.rsplit('/').next().unwrap_or_default();
                        object["metadata"]["labels"][name] = value.clone();
                    }
                    _ => {}
                }
                if matches!(self, Self::Stale(..)) {
                    let version = first["metadata"]["resourceVersion"].clone();
                    object["metadata"]["resourceVersion"] = version;
                }
                object.to_string()
            }
            Self::Delete(options, precondition) => {
                let mut options = options.clone();
                if let Some(field) = precondition {
                    let value = first["metadata"][*field].clone();
                    options["preconditions"] = json!({ *field: value });
                }
                options.to_string()
            }
        }
    }
}

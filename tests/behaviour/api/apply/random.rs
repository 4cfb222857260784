//! Random writes and applies, the same on both servers: what one answers, the other answers.

use http::Method;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

use super::super::raw::{Answer, Raw};
use super::super::recorded::Recorded;
use super::super::widget::Widget;
use crate::cluster::{Cluster, number};

/// How many objects are written to, and how often each.
const OBJECTS: u32 = 12;
const STEPS: u32 = 10;

/// One request about an object.
#[derive(Debug)]
struct Step {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Value,
}

/// The schema of `spec`, with each kind of list and map.
fn schema() -> Value {
    let text = json!({ "type": "string" });
    let pair = json!({ "type": "object", "properties": { "a": text, "b": text } });
    let mut leaf = pair.clone();
    leaf["x-kubernetes-map-type"] = "atomic".into();
    let tags = json!({ "type": "array", "x-kubernetes-list-type": "set", "items": text });
    json!({ "type": "object", "properties": {
        "size": { "type": "integer", "default": 1 },
        "tags": tags,
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "proto"],
            "items": { "type": "object", "required": ["port"], "properties": {
                "port": { "type": "integer" },
                "proto": { "type": "string", "default": "T" },
                "pair": pair, "tags": tags,
            } },
        },
        "list": { "type": "array", "items": text },
        "leaf": leaf,
        "map": { "type": "object", "additionalProperties": text },
        "pairs": { "type": "object", "additionalProperties": pair },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
        "open": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": { "pair": pair },
        },
    } })
}

/// Makes values for the schema.
struct Generator {
    random: StdRng,
}

impl Generator {
    fn text(&mut self) -> Value {
        let texts = ["p", "q", "r"];
        (*texts.choose(&mut self.random).expect("there are some")).into()
    }

    fn some(&mut self, names: &[&str], mut value: impl FnMut(&mut Self) -> Value) -> Value {
        let chosen: Vec<_> = names
            .iter()
            .filter(|_| self.random.random_bool(0.5))
            .collect();
        let members = chosen
            .into_iter()
            .map(|name| ((*name).to_owned(), value(self)));
        Value::Object(members.collect::<Map<_, _>>())
    }

    fn pair(&mut self) -> Value {
        self.some(&["a", "b"], Self::text)
    }

    fn tags(&mut self) -> Value {
        let tags = self.some(&["p", "q", "r"], |_| Value::Null);
        let tags = tags.as_object().into_iter().flatten();
        tags.map(|(tag, _)| Value::from(tag.as_str())).collect()
    }

    fn free(&mut self, depth: u32) -> Value {
        match self.random.random_range(0..4) {
            0 if depth < 3 => self.some(&["u", "v"], |it| it.free(depth + 1)),
            1 if depth < 3 => vec![self.free(depth + 1)].into(),
            2 => self.random.random_range(0..3).into(),
            _ => self.text(),
        }
    }

    fn ports(&mut self) -> Value {
        let mut ports = Vec::new();
        for (port, proto) in [(1, None), (1, Some("U")), (2, Some("T")), (2, Some("U"))] {
            if !self.random.random_bool(0.4) {
                continue;
            }
            let mut item = self.some(&["pair"], Self::pair);
            item["port"] = port.into();
            if let Some(proto) = proto {
                item["proto"] = proto.into();
            }
            if self.random.random_bool(0.3) {
                item["tags"] = self.tags();
            }
            let at = self.random.random_range(0..=ports.len());
            ports.insert(at, item);
        }
        ports.into()
    }

    fn spec(&mut self) -> Value {
        let mut spec = Map::new();
        for field in [
            "size", "tags", "ports", "list", "leaf", "map", "pairs", "free", "open",
        ] {
            if !self.random.random_bool(0.35) {
                continue;
            }
            let value = match field {
                "size" => self.random.random_range(0..3).into(),
                "tags" => self.tags(),
                "ports" => self.ports(),
                "list" => vec![self.text(); self.random.random_range(0..3)].into(),
                "leaf" => self.pair(),
                "map" => self.some(&["x", "y"], Self::text),
                "pairs" => self.some(&["x", "y"], Self::pair),
                "free" => self.free(0),
                _ => {
                    let mut open = self.some(&["u"], |it| it.free(1));
                    open["pair"] = self.pair();
                    open
                }
            };
            spec.insert(field.to_owned(), value);
        }
        spec.into()
    }

    fn step(&mut self, widgets: &Widget<'_>, name: &str, is_new: bool) -> Step {
        let managers = ["m1", "m2", "m3"];
        let manager = *managers.choose(&mut self.random).expect("there are some");
        let status = !is_new && self.random.random_bool(0.2);
        let part = if status { "/status" } else { "" };
        let path = format!("{}{part}?fieldManager={manager}", widgets.one(name));
        let mut object = widgets.object(name, &self.spec());
        if self.random.random_bool(0.2) {
            object["metadata"]["labels"] = self.some(&["a", "b"], Self::text);
        }
        if status {
            object["status"] = json!({ "ready": self.random.random_bool(0.5) });
        }
        let (method, path, content_type) = match self.random.random_range(0..10) {
            0..6 => {
                let force = self.random.random_bool(0.5);
                let path = format!("{path}&force={force}");
                (Method::PATCH, path, "application/apply-patch+yaml")
            }
            6 if is_new => (Method::POST, widgets.all(), "application/json"),
            9 => {
                object = json!({ "metadata": { "managedFields": [{}] } });
                (Method::PATCH, path, "application/merge-patch+json")
            }
            _ => {
                let part = if status { "status" } else { "spec" };
                object = json!({ part: object[part] });
                (Method::PATCH, path, "application/merge-patch+json")
            }
        };
        Step {
            method,
            path,
            content_type,
            body: object,
        }
    }
}

/// An answer without what differs between two servers: versions, times, uids, and the order
/// of entries and causes, which depends on times and on Go's maps.
fn masked(answer: &Answer) -> (u16, Value) {
    let mut body = answer.body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    for list in ["/metadata/managedFields", "/details/causes"] {
        if let Some(list) = body.pointer_mut(list).and_then(Value::as_array_mut) {
            for entry in list.iter_mut() {
                entry.as_object_mut().map(|entry| entry.remove("time"));
            }
            list.sort_by_key(ToString::to_string);
        }
    }
    // The causes once more, in the same order of Go's maps.
    let message = body["message"].as_str().and_then(|message| {
        let (start, faults) = message.strip_suffix(']')?.split_once(" is invalid: [")?;
        let mut faults: Vec<_> = faults.split(", ").collect();
        faults.sort_unstable();
        Some(format!("{start} is invalid: [{}]", faults.join(", ")))
    });
    if let Some(message) = message {
        body["message"] = message.into();
    }
    (answer.code, body)
}

async fn ask(raw: &Raw, step: &Step) -> Answer {
    let headers = [
        ("content-type", step.content_type),
        ("user-agent", "random/1"),
    ];
    raw.ask(
        step.method.clone(),
        &step.path,
        &headers,
        &step.body.to_string(),
    )
    .await
}

/// Sends the random requests of `seed` to both servers. Returns the answers of the embedded one.
async fn play(cluster: &Cluster, seed: u64) -> Recorded {
    println!("WINDLASS_SEED={seed}");
    let mut generator = Generator {
        random: StdRng::seed_from_u64(seed),
    };
    let raw = Raw::new(cluster).await;
    let widgets = Widget::served(&raw, &schema()).await;
    let server = ApiServer::new();
    let client = kube::Client::new(server.service(), "default");
    let embedded = Raw::of(client, &raw.namespace);
    let namespace = json!({ "metadata": { "name": raw.namespace } });
    embedded.post("/api/v1/namespaces", &namespace).await.ok();
    Widget::served(&embedded, &schema()).await;

    let mut recorded = Recorded::new("applies", cluster);
    for object in 0..OBJECTS {
        let name = format!("o{object}");
        let mut steps = Vec::new();
        let mut answers = Vec::new();
        for number in 0..STEPS {
            steps.push(generator.step(&widgets, &name, number == 0));
            let step = &steps[steps.len() - 1];
            let (theirs, ours) = (ask(&raw, step).await, ask(&embedded, step).await);
            assert_eq!(
                masked(&theirs),
                masked(&ours),
                "seed {seed}: the server, and the embedded one, after {steps:#?}"
            );
            let (code, body) = masked(&ours);
            answers.push(json!({ "code": code, "body": body }));
        }
        recorded.add_all(&format!("{steps:#?}"), &answers);
    }
    recorded
}

on_both_servers! {
    /// docs/apiserver.md: rows 83 to 86.
    async fn random_writes_and_applies_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let seed = number("WINDLASS_SEED");
        play(&cluster, seed.unwrap_or_else(|| rand::rng().random())).await;
    }

    /// docs/apiserver.md: rows 83 to 86.
    async fn recorded_writes_and_applies_are_answered_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        play(&cluster, 1).await.check();
    }
}

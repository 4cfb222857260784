//! Valid and invalid objects of every built-in kind: both servers must send equal responses.

use std::collections::HashMap;

use http::Method;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use windlass_apiserver::ApiServer;

use super::{
    raw::{Answer, Raw},
    recorded::{Recorded, address},
    selectors::every_list,
    widget::Widget,
};
use crate::cluster::{Cluster, number};

pub(crate) mod requests;
pub(crate) mod sequences;
pub(crate) mod statuses;
pub(crate) mod tables;
pub(crate) mod warnings;

/// What stands before the uids in a message.
const UIDS: &str = "UID in precondition: ";

/// Objects of every kind; `NS` is the namespace of the test, and `ADDRESS` an address of its own.
const KINDS: &str = include_str!("kinds.yaml");

/// Objects that are refused, and how they are made.
const REFUSED: &str = include_str!("refused.yaml");

/// Many values of one field.
const VALUES: &str = include_str!("kinds/values.yaml");

/// Fields of a custom kind.
const FIELDS: &str = include_str!("kinds/formats.yaml");

/// Kinds whose names follow from other fields or have another syntax.
const NAMED_BY_CONTENT: [&str; 3] = ["APIService", "CustomResourceDefinition", "IPAddress"];

/// The formats of texts, each a field of the custom kind.
const TEXTS: [&str; 21] = [
    "byte",
    "cidr",
    "date",
    "date-time",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "k8s-short-name",
    "k8s-long-name",
    "mac",
    "password",
    "rgbcolor",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "unknown",
];

/// The formats of numbers.
const NUMBERS: [(&str, &str); 4] = [
    ("int32", "integer"),
    ("int64", "integer"),
    ("float", "number"),
    ("double", "number"),
];

/// The server of the test, and an embedded one beside it.
struct Pair {
    theirs: Raw,
    ours: Raw,
    /// Where the objects of each kind are.
    places: HashMap<(String, String), String>,
    /// What was answered differently.
    differences: Vec<String>,
    /// What the embedded server answered.
    recorded: Recorded,
}

// === impl Pair ===

impl Pair {
    /// `name`: of the file with the recorded answers.
    async fn new(name: &'static str, cluster: &Cluster) -> Self {
        let theirs = Raw::new(cluster).await;
        let server = ApiServer::builder();
        let server = server.garbage_collection(false).quota_status(false).start();
        let ours = Raw::of(
            kube::Client::new(server.service(), "default"),
            &theirs.namespace,
        );
        let namespace = serde_json::json!({ "metadata": { "name": theirs.namespace } });
        ours.post("/api/v1/namespaces", &namespace).await.ok();
        Self {
            theirs,
            ours,
            places: HashMap::new(),
            differences: Vec::new(),
            recorded: Recorded::new(name, cluster),
        }
    }

    /// Where objects of each kind are, and one or more objects of it.
    async fn placed_objects(&mut self) -> Vec<(String, Value)> {
        let mut placed = Vec::new();
        for object in self.documents(KINDS) {
            placed.push((self.place(&object).await, object));
        }
        placed
    }

    /// The documents of a text.
    fn documents(&self, text: &str) -> Vec<Value> {
        let namespace = &self.theirs.namespace;
        let text = text.replace("NS", namespace);
        let text = text.replace("ADDRESS", &address(namespace, 0));
        serde_yaml_ng::Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).expect("YAML that is JSON"))
            .collect()
    }

    /// Where objects of this kind are.
    async fn place(&mut self, object: &Value) -> String {
        let text = |field: &str| object[field].as_str().expect("a text").to_owned();
        let key = (text("apiVersion"), text("kind"));
        if !self.places.contains_key(&key) {
            let root = match key.0.as_str() {
                "v1" => "/api/v1".to_owned(),
                version => format!("/apis/{version}"),
            };
            let found = self.ours.get(&root).await.ok();
            let resources = found["resources"].as_array().into_iter().flatten();
            for resource in resources {
                let name = resource["name"].as_str().expect("a name");
                if name.contains('/') {
                    continue;
                }
                let place = if resource["namespaced"] == true {
                    self.theirs.at(&root, name)
                } else {
                    format!("{root}/{name}")
                };
                let kind = resource["kind"].as_str().expect("a kind").to_owned();
                self.places.insert((key.0.clone(), kind), place);
            }
        }
        let place = self.places.get(&key);
        place
            .unwrap_or_else(|| panic!("{key:?} is not served"))
            .clone()
    }

    /// Sends the same to both, and notes how the answers differ.
    async fn compare(
        &mut self,
        what: &str,
        method: &Method,
        path: &str,
        bodies: [&Value; 2],
    ) -> [Value; 2] {
        let headers = [
            ("content-type", "application/json"),
            ("user-agent", "kinds/1"),
        ];
        let [first, second] = bodies.map(ToString::to_string);
        let theirs = self
            .theirs
            .ask(method.clone(), path, &headers, &first)
            .await;
        let ours = self.ours.ask(method.clone(), path, &headers, &second).await;
        let (left, right) = (masked(&theirs), masked(&ours));
        self.recorded.add(what, &right);
        if left != right {
            self.differences.push(format!(
                "{what}:\n  the server: {left}\n  the embedded one: {right}"
            ));
        }
        [theirs.body, ours.body]
    }

    #[track_caller]
    fn check(&self, cases: usize) {
        let differences = &self.differences;
        assert!(
            differences.is_empty(),
            "{} of {cases} answers differ:\n{}",
            differences.len(),
            differences.join("\n")
        );
    }
}

/// The objects of every built-in kind with their places, for a test in another module.
pub(super) async fn objects_of_every_kind(cluster: &Cluster) -> Vec<(String, Value)> {
    Pair::new("created", cluster).await.placed_objects().await
}

/// An answer without what differs between two servers, in one order.
fn masked(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    let is_invalid = body["reason"] == "Invalid";
    if is_invalid {
        // The causes say the same, and here they can be sorted.
        body["message"] = Value::Null;
    }
    mask(&mut body);
    if let Some(causes) = body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    {
        causes.sort_by_key(ToString::to_string);
    }
    serde_json::json!({ "code": answer.code, "warnings": answer.warnings, "body": body })
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => mask_members(members),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => {
            // After the first line, the real server shows how two objects of Go differ; it
            // shows others in the middle of a message.
            if let Some((first, _)) = text.split_once('\n') {
                *text = first.to_owned();
            }
            if let (Some(from), Some(to)) = (text.find(" value: {"), text.rfind("}: "))
                && from < to
            {
                text.replace_range(from..to, " value: {");
            }
            if let Some(at) = text.find(UIDS) {
                text.truncate(at);
            }
            *text = text.replace("Invalid value: null: ", "Invalid value: {}: ");
            // A time of the server that a request may not change.
            if text.starts_with("Invalid value: ") {
                let parts = text.split('"').map(|it| if is_time(it) { "*" } else { it });
                *text = parts.collect::<Vec<_>>().join("\"");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether it has the form of a time that a server sets.
fn is_time(text: &str) -> bool {
    text.len() == "2026-01-02T03:04:05Z".len() && text.ends_with('Z') && text.contains('T')
}

fn mask_members(members: &mut Map<String, Value>) {
    // The two servers have other users.
    if members.contains_key("signerName") {
        for user in ["username", "uid", "groups", "extra"] {
            members.remove(user);
        }
    }
    // What a controller takes away again, and a server without controllers does not set.
    let is_protection = |it: &Value| it.as_str().is_some_and(|it| it.ends_with("-protection"));
    if let Some(finalizers) = members.get_mut("finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| !is_protection(finalizer));
        if finalizers.is_empty() {
            members.remove("finalizers");
        }
    }
    for (name, value) in members.iter_mut() {
        let differs = match name.as_str() {
            "uid"
            | "resourceVersion"
            | "creationTimestamp"
            | "time"
            | "lastTransitionTime"
            | "deletionTimestamp"
            | "lastPhaseTransitionTime" => value.is_string(),
            "nodePort" | "healthCheckNodePort" => value.is_number(),
            "clusterIP" => value != "None" && value != "",
            "clusterIPs" => value[0] != "None",
            name => name.ends_with("controller-uid"),
        };
        if differs {
            *value = "*".into();
        } else {
            mask(value);
        }
    }
}

/// Sets the place in `object` that `pointer` names; `null` takes it away.
fn set(object: &mut Value, pointer: &str, value: &Value) {
    let mut parts: Vec<_> = pointer.split('/').skip(1).collect();
    let last = parts.pop().expect("a pointer").replace("~1", "/");
    let mut at = object;
    for part in parts {
        at = match at {
            Value::Array(items) => &mut items[part.parse::<usize>().expect("a number")],
            other => &mut other[part],
        };
    }
    match at {
        Value::Array(items) => match last.parse::<usize>().expect("a number") {
            place if place == items.len() => items.push(value.clone()),
            place => items[place] = value.clone(),
        },
        other if value.is_null() => _ = other.as_object_mut().expect("an object").remove(&last),
        other => other[last] = value.clone(),
    }
}

/// Changes one place of an object: another value, none, or a field that there is not.
fn change(object: &mut Value, random: &mut StdRng) {
    let mut places = Vec::new();
    collect(object, String::new(), &mut places);
    // Who an object is stays as it is.
    places.retain(|place| !["/apiVersion", "/kind", "/metadata/name"].contains(&place.as_str()));
    let place = places
        .choose(random)
        .expect("each object has fields")
        .clone();
    let values = [
        serde_json::json!(1),
        serde_json::json!(-1),
        serde_json::json!(1.5),
        serde_json::json!(4_294_967_296_u64),
        serde_json::json!(true),
        serde_json::json!(""),
        serde_json::json!("x"),
        serde_json::json!("1024Mi"),
        serde_json::json!("2026-01-02T03:04:05Z"),
        serde_json::json!({}),
        serde_json::json!({ "a": 1 }),
        serde_json::json!([1]),
        serde_json::json!(["x"]),
        Value::Null,
    ];
    match random.random_range(0..6) {
        0 => {
            if let Some(Value::Object(members)) = object.pointer_mut(&place) {
                members.insert("colour".to_owned(), "red".into());
            }
        }
        _ => {
            if let Some(found) = object.pointer_mut(&place) {
                let is_like = |value: &&Value| {
                    std::mem::discriminant(*value) == std::mem::discriminant(&*found)
                };
                let like: Vec<_> = values.iter().filter(is_like).collect();
                // Mostly a value of the same type.
                let one = match like.choose(random) {
                    Some(like) if random.random_bool(0.8) => (*like).clone(),
                    _ => values.choose(random).expect("there are some").clone(),
                };
                *found = one;
            }
        }
    }
}

/// The pointers of all places in a value.
fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(number, value)| (number.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        collect(value, format!("{at}/{name}"), places);
    }
    if !at.is_empty() {
        places.push(at);
    }
}

on_both_servers! {
    /// Random changes of right objects. Where one server refuses an object because of a rule,
    /// the other may lack the rule (`docs/apiserver.md` says which there are); what both take
    /// is the same, and what does not fit its type is refused in the same words.
    ///
    /// `WINDLASS_SEED` chooses other objects, `WINDLASS_OBJECTS` says how many are sent.
    async fn random_objects_are_decoded_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let seed = number("WINDLASS_SEED").unwrap_or(11_687_049_978_708_613_494);
        let count = number("WINDLASS_OBJECTS").unwrap_or(60);
        println!("WINDLASS_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut pair = Pair::new("random", &cluster).await;
        let objects = pair.documents(KINDS);
        let (mut taken, mut refused, mut lacking) = (0, 0, 0);
        for round in 0..count {
            let mut object = objects.choose(&mut random).expect("there are some").clone();
            if !NAMED_BY_CONTENT.iter().any(|kind| object["kind"] == *kind) {
                object["metadata"]["name"] = format!("r{round}-{}", pair.theirs.namespace).into();
            }
            for _ in 0..random.random_range(1..4) {
                change(&mut object, &mut random);
            }
            let how = ["Strict", "Warn", "Ignore"][random.random_range(0..3)];
            let place = pair.place(&object).await;
            let path = format!("{place}?fieldValidation={how}&dryRun=All");
            let before = pair.differences.len();
            let what = format!("seed {seed}, create {object}");
            let [theirs, ours] = pair.compare(&what, &Method::POST, &path, [&object, &object]).await;
            let code = |answer: &Value| answer["code"].as_u64().unwrap_or(201);
            match (code(&theirs), code(&ours)) {
                (201, 201) => {
                    taken += 1;
                    // Each server invents the name of a limit range without one.
                    if object.pointer("/metadata/name").is_none() {
                        pair.differences.truncate(before);
                    }
                }
                (400, 400) => refused += 1,
                // A rule, of which either server may have more.
                (201 | 403 | 422 | 500, 403 | 422) | (403 | 422 | 500, 201)
                    if pair.differences.len() > before =>
                {
                    lacking += 1;
                    for difference in pair.differences.drain(before..) {
                        println!("{difference}");
                    }
                    pair.recorded.forget_last();
                }
                _ => {}
            }
        }
        println!("{taken} were taken, {refused} did not fit their type, {lacking} broke a rule that one server words otherwise or lacks");
        pair.check(usize::try_from(count).expect("a small number"));
        if number("WINDLASS_SEED").is_none() {
            pair.recorded.check_first();
        }
    }

    /// Types, defaults, what strategies and admission fill in, and who owns it.
    ///
    /// docs/apiserver.md: "built-in kinds".
    async fn objects_of_every_kind_are_created_as_by_the_embedded_server(cluster: Cluster) {
        let mut pair = Pair::new("created", &cluster).await;
        let objects = pair.documents(KINDS);
        for (place, kind) in every_list(&pair.theirs).await {
            assert!(objects.iter().any(|object| object["kind"] == kind), "{kind} of {place} has no object");
        }
        for object in &objects {
            // Other tests read the groups of the real server, which this one would add to.
            let dry_run = if object["kind"] == "APIService" { "&dryRun=All" } else { "" };
            let path = format!("{}?fieldValidation=Strict{dry_run}", pair.place(object).await);
            let what = format!("create {object}");
            pair.compare(&what, &Method::POST, &path, [object, object]).await;
        }
        pair.check(objects.len());
        pair.recorded.check();
    }

    /// Wrong types, unknown fields, values that are not allowed, and changes that are not.
    ///
    /// docs/apiserver.md: "built-in kinds".
    async fn invalid_objects_are_rejected_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("refused", &cluster).await;
        let cases = pair.documents(REFUSED).remove(0);
        let list = |name: &str| cases[name].as_array().expect("a list").clone();
        let (creates, updates) = (list("creates"), list("updates"));
        let namespace = pair.theirs.namespace.clone();
        for (number, case) in creates.iter().enumerate() {
            let mut object = cases["bases"][case[0].as_str().expect("a base")].clone();
            object["metadata"] = serde_json::json!({ "name": format!("c{number}-{namespace}") });
            set(&mut object, case[1].as_str().expect("a pointer"), &case[2]);
            let path = format!("{}?fieldValidation=Strict", pair.place(&object).await);
            pair.compare(&case.to_string(), &Method::POST, &path, [&object, &object]).await;
        }
        for (number, case) in updates.iter().enumerate() {
            let mut object = cases["bases"][case[0].as_str().expect("a base")].clone();
            let name = format!("u{number}-{namespace}");
            object["metadata"] = serde_json::json!({ "name": name });
            let path = pair.place(&object).await;
            let what = format!("create {object}");
            let [mut theirs, mut ours] =
                pair.compare(&what, &Method::POST, &path, [&object, &object]).await;
            for made in [&mut theirs, &mut ours] {
                set(made, case[1].as_str().expect("a pointer"), &case[2]);
            }
            let what = format!("update {case}");
            let path = format!("{path}/{name}");
            pair.compare(&what, &Method::PUT, &path, [&theirs, &ours]).await;
        }
        pair.check(creates.len() + 2 * updates.len());
        pair.recorded.check();
    }

    /// Values of fields: quantities, times, names, formats and the limits of schemas.
    ///
    /// docs/apiserver.md: "built-in kinds", rows 8, 108.
    async fn values_of_fields_are_accepted_and_rejected_as_by_the_embedded_server(cluster: Cluster) {
        cluster.require_the_default_version();
        let mut pair = Pair::new("values", &cluster).await;
        let mut fields = pair.documents(FIELDS).remove(0);
        for format in TEXTS {
            fields[format] = serde_json::json!({ "type": "string", "format": format });
        }
        for (format, kind) in NUMBERS {
            fields[format] = serde_json::json!({ "type": kind, "format": format });
        }
        let schema = serde_json::json!({ "type": "object", "properties": fields });
        for raw in [&pair.theirs, &pair.ours] {
            Widget::served(raw, &schema).await;
        }
        let mut bases = pair.documents(REFUSED).remove(0)["bases"].take();
        bases["widget"] = Widget::new(&pair.theirs).object("w", &serde_json::json!({}));
        let rows = pair.documents(VALUES).remove(0);
        let namespace = pair.theirs.namespace.clone();
        let mut count = 0;
        for row in rows.as_array().expect("rows") {
            let base = &bases[row[0].as_str().expect("a base")];
            let place = pair.place(base).await;
            let pointer = row[1].as_str().expect("a pointer");
            let known = row[3].as_array();
            let same = row[2].as_array().expect("values").iter().map(|value| (value, false));
            for (value, is_known) in same.chain(known.into_iter().flatten().map(|value| (value, true))) {
                let mut object = base.clone();
                object["metadata"] = serde_json::json!({ "name": format!("v-{namespace}") });
                match (object.pointer_mut(pointer), value) {
                    // Here it is `null`, and not that the field is missing.
                    (Some(place), Value::Null) => *place = Value::Null,
                    _ => set(&mut object, pointer, value),
                }
                let path = format!("{place}?fieldValidation=Strict&dryRun=All");
                let what = format!("{} {pointer} {value}", row[0]);
                pair.compare(&what, &Method::POST, &path, [&object, &object]).await;
                count += 1;
                if is_known {
                    pair.recorded.forget_last();
                    match pair.differences.pop_if(|it| it.starts_with(&what)) {
                        Some(difference) => println!("FIXME {difference}"),
                        None if cluster.is_embedded() => {}
                        None => pair.differences.push(format!("{what}: no difference any more, move the value")),
                    }
                }
            }
        }
        pair.check(count);
        pair.recorded.check();
    }
}

//! Strategic merge patches and applies of a map of texts and a list with a key: the object must have
//! what a plain model of both has.
//!
//! The map is `metadata.labels`, the list is `secrets` with the key `name`: of a service account for
//! strategic merge patches, and of a custom resource for applies, because each item of a service
//! account has one owner for all its fields.

use std::collections::{BTreeMap, BTreeSet};

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Map, Value, json};
use windlass_apiserver::ApiServer;

use crate::{in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) enum Input {
    Strategic(
        #[generator(bolero::generator::produce::<Vec<Patch>>().with().len(1_usize..6))] Vec<Patch>,
    ),
    Applies(
        #[generator(bolero::generator::produce::<Vec<Apply>>().with().len(1_usize..6))] Vec<Apply>,
    ),
}

/// A strategic merge patch.
#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Patch {
    /// Whether the labels of the patch replace all others.
    replaces_labels: bool,
    labels: [Option<Change>; 3],
    /// Whether the items of the patch replace all others.
    replaces_items: bool,
    items: [Option<ItemPatch>; 3],
}

#[derive(Clone, Debug, TypeGenerator)]
enum ItemPatch {
    Delete,
    Merge([Option<Change>; 2]),
}

/// A new value, or `null`.
#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    Set(u8),
    Remove,
}

/// A server-side apply of one of three managers.
#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Apply {
    manager: u8,
    force: bool,
    labels: [Option<u8>; 3],
    items: [Option<[Option<u8>; 2]>; 3],
}

/// One value in the object: a label, a field of an item, or the key of an item.
type Place = (&'static str, &'static str);

/// The values of an object. An item without other fields has only its key.
type Values = BTreeMap<Place, String>;

const LABEL: &str = "";
const LABELS: [&str; 3] = ["a", "b", "x.io/c"];
const ITEMS: [&str; 3] = ["s", "t", "u"];
const FIELDS: [&str; 2] = ["kind", "fieldPath"];
const KEY: &str = "name";

const ALL: &str = "/api/v1/namespaces/default/serviceaccounts";
const ONE: &str = "/api/v1/namespaces/default/serviceaccounts/x";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const APPLIED: &str = "/apis/x.io/v1/keyeds/x";

fn value(number: u8) -> String {
    ["v", "w"][usize::from(number % 2)].to_owned()
}

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        match input {
            Input::Strategic(patches) => check_patches(&server, patches).await,
            Input::Applies(applies) => check_applies(&server, applies).await,
        }
    });
}

async fn check_patches(server: &ApiServer, patches: &[Patch]) {
    let object = json!({ "metadata": { "name": "x" } });
    let (status, answer) = call(server, "POST", ALL, "application/json", &object).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let mut values = Values::new();
    for patch in patches {
        patch.apply(&mut values);
        let body = patch.body();
        let content_type = "application/strategic-merge-patch+json";
        let (status, answer) = call(server, "PATCH", ONE, content_type, &body).await;
        assert_eq!(status, StatusCode::OK, "{body}: {answer}");
        assert_eq!(read(&answer), values, "{body}: {answer}");
    }
}

async fn check_applies(server: &ApiServer, applies: &[Apply]) {
    let text = json!({ "type": "string" });
    let definition = json!({
        "metadata": { "name": "keyeds.x.io" },
        "spec": {
            "group": "x.io", "scope": "Cluster", "names": { "plural": "keyeds", "kind": "Keyed" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "secrets": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": [KEY],
                    "items": {
                        "type": "object",
                        "required": [KEY],
                        "properties": { KEY: text, FIELDS[0]: text, FIELDS[1]: text },
                    },
                } } } },
            }],
        },
    });
    let json = "application/json";
    let (status, answer) = call(server, "POST", DEFINITIONS, json, &definition).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let mut values = Values::new();
    let mut owners = [(); 3].map(|()| BTreeSet::<Place>::new());
    let mut exists = false;
    for apply in applies {
        let manager = usize::from(apply.manager % 3);
        let new = apply.values();
        let others = |place: &Place| {
            let sets = owners.iter().enumerate();
            let mut sets = sets.filter(|(other, _)| *other != manager);
            sets.any(|(_, set)| set.contains(place))
        };
        let changed = |(place, value): &(&Place, &String)| values.get(*place) != Some(*value);
        let conflicts: Vec<Place> = (new.iter().filter(changed))
            .map(|(place, _)| *place)
            .filter(others)
            .collect();
        let path = format!("{APPLIED}?fieldManager=m{manager}&force={}", apply.force);
        let body = apply.body();
        let (status, answer) = call(
            server,
            "PATCH",
            &path,
            "application/apply-patch+yaml",
            &body,
        )
        .await;
        if !conflicts.is_empty() && !apply.force {
            assert_eq!(
                status,
                StatusCode::CONFLICT,
                "{conflicts:?} of {body}: {answer}"
            );
            continue;
        }
        let expected = if exists {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        };
        exists = true;
        assert_eq!(status, expected, "{body}: {answer}");
        // What only this manager has applied before, and does not apply any more, is removed.
        let dropped: Vec<Place> = (owners[manager].iter())
            .filter(|place| !new.contains_key(*place) && !others(place))
            .copied()
            .collect();
        for place in dropped {
            values.remove(&place);
        }
        for set in &mut owners {
            set.retain(|place| !conflicts.contains(place));
        }
        owners[manager] = new.keys().copied().collect();
        values.extend(new);
        assert_eq!(read(&answer), values, "{body}: {answer}");
    }
}

async fn call(
    server: &ApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.to_string().into_bytes());
    let (status, answer) = send(server, request.expect("a request")).await;
    (status, serde_json::from_slice(&answer).expect("JSON"))
}

/// The values of an object that the server returned.
fn read(object: &Value) -> Values {
    let mut values = Values::new();
    let mut insert = |of: &'static str, names: &[&'static str], members: &Value| {
        let members = members.as_object().into_iter().flatten();
        for (name, value) in members {
            let name = names.iter().find(|it| *it == name).expect("a known name");
            let text = value.as_str().expect("a text").to_owned();
            assert_eq!(
                values.insert((of, *name), text),
                None,
                "{of} is there twice"
            );
        }
    };
    insert(LABEL, &LABELS, &object["metadata"]["labels"]);
    for item in object["secrets"].as_array().into_iter().flatten() {
        let name = ITEMS.iter().find(|it| item[KEY] == **it);
        insert(
            name.expect("a known item"),
            &[KEY, FIELDS[0], FIELDS[1]],
            item,
        );
    }
    values
}

// === impl Patch ===

impl Patch {
    fn apply(&self, values: &mut Values) {
        // A directive in a map that the object does not have sets nothing, as on the real server.
        let has_labels = values.keys().any(|(of, _)| *of == LABEL);
        if self.replaces_labels {
            values.retain(|(of, _), _| *of != LABEL);
        }
        if self.replaces_items {
            values.retain(|(of, _), _| *of == LABEL);
        }
        if has_labels || !self.replaces_labels {
            for (name, change) in LABELS.into_iter().zip(&self.labels) {
                apply(values, (LABEL, name), change.as_ref());
            }
        }
        for (item, patch) in ITEMS.into_iter().zip(&self.items) {
            match patch {
                None => {}
                Some(ItemPatch::Delete) => values.retain(|(of, _), _| *of != item),
                Some(ItemPatch::Merge(fields)) => {
                    values.insert((item, KEY), item.to_owned());
                    for (field, change) in FIELDS.into_iter().zip(fields) {
                        apply(values, (item, field), change.as_ref());
                    }
                }
            }
        }
    }

    fn body(&self) -> Value {
        let mut labels = Map::new();
        if self.replaces_labels {
            labels.insert("$patch".to_owned(), "replace".into());
        }
        for (name, change) in LABELS.into_iter().zip(&self.labels) {
            // A map that is replaced would have the `null`.
            let change = change
                .as_ref()
                .filter(|it| !self.replaces_labels || matches!(it, Change::Set(_)));
            labels.extend(change.map(|it| (name.to_owned(), it.json())));
        }
        let mut items = Vec::new();
        if self.replaces_items {
            items.push(json!({ "$patch": "replace" }));
        }
        for (item, patch) in ITEMS.into_iter().zip(&self.items) {
            match patch {
                // Nothing is left to delete.
                Some(ItemPatch::Delete) if self.replaces_items => {}
                Some(ItemPatch::Delete) => items.push(json!({ "$patch": "delete", KEY: item })),
                Some(ItemPatch::Merge(fields)) => {
                    let mut members = Map::from_iter([(KEY.to_owned(), item.into())]);
                    let fields = FIELDS.into_iter().zip(fields);
                    let fields = fields
                        .filter_map(|(name, it)| Some((name.to_owned(), it.as_ref()?.json())));
                    members.extend(fields);
                    items.push(members.into());
                }
                None => {}
            }
        }
        json!({ "metadata": { "labels": labels }, "secrets": items })
    }
}

fn apply(values: &mut Values, place: Place, change: Option<&Change>) {
    match change {
        Some(Change::Set(number)) => _ = values.insert(place, value(*number)),
        Some(Change::Remove) => _ = values.remove(&place),
        None => {}
    }
}

// === impl Change ===

impl Change {
    fn json(&self) -> Value {
        match self {
            Self::Set(number) => value(*number).into(),
            Self::Remove => Value::Null,
        }
    }
}

// === impl Apply ===

impl Apply {
    fn values(&self) -> Values {
        let labels = LABELS.into_iter().zip(self.labels);
        let labels = labels.filter_map(|(name, it)| Some(((LABEL, name), value(it?))));
        let items = ITEMS.into_iter().zip(self.items);
        let items = items.filter_map(|(item, fields)| {
            let fields = FIELDS.into_iter().zip(fields?);
            let fields = fields.filter_map(move |(name, it)| Some(((item, name), value(it?))));
            Some(fields.chain([((item, KEY), item.to_owned())]))
        });
        labels.chain(items.flatten()).collect()
    }

    fn body(&self) -> Value {
        let (mut labels, mut items) = (Map::new(), BTreeMap::<_, Map<_, _>>::new());
        for ((of, name), value) in self.values() {
            let members = if of == LABEL {
                &mut labels
            } else {
                items.entry(of).or_default()
            };
            members.insert(name.to_owned(), value.into());
        }
        let mut body = json!({
            "apiVersion": "x.io/v1", "kind": "Keyed", "metadata": { "name": "x" },
        });
        // An empty map or list would be a value that the manager owns.
        if !labels.is_empty() {
            body["metadata"]["labels"] = labels.into();
        }
        if !items.is_empty() {
            body["secrets"] = items.into_values().collect();
        }
        body
    }
}

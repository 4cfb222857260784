//! Decoding: an informer and `serde_json` must decode the same object, without the trimmed fields.

use std::borrow::Cow;

use bolero::TypeGenerator;
use bytes::Bytes;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::{Api, Resource, core::ClusterResourceScope};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use windlass_informer::{ListWatch, Stored, Trim};

use crate::{
    edits::Edits,
    in_virtual_time,
    scripted::{Running, Script},
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    object: Edits,
    pod: bool,
    /// The paths of trimmed fields, with names of [`NAMES`].
    #[generator(bolero::generator::produce::<Vec<[Option<u8>; 3]>>().with().len(0_usize..4))]
    trim: Vec<[Option<u8>; 3]>,
}

/// Names of fields that are trimmed. Not those that identify an object.
const NAMES: [&str; 16] = [
    "spec",
    "labels",
    "managedFields",
    "creationTimestamp",
    "source",
    "name",
    "count",
    "tagged",
    "a",
    "type",
    "numbers",
    "more",
    "deep",
    "containers",
    "status",
    "x",
];

/// A kind with every shape that serde buffers or dispatches on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shapes {
    metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<IntOrString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tagged: Option<Tagged>,
    #[serde(default)]
    numbers: Vec<f64>,
    #[serde(default)]
    letter: Option<char>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Source {
    Name(String),
    Count(u64),
    Both { name: String, count: i8 },
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    A { a: bool },
    B(Map<String, Value>),
}

const OBJECTS: [&str; 3] = [
    r#"{"metadata":{"name":"a","uid":"ua","resourceVersion":"3"},"port":80,"source":{"name":"x","count":3},"tagged":{"type":"A","a":true},"numbers":[1,2.5,-1e3],"letter":"\u00e9","more":{"deep":[null,true]}}"#,
    r#"{"port":"http","source":"name","tagged":{"a":1,"type":"B"},"metadata":{"name":"b","uid":"ub","resourceVersion":"4","managedFields":[{"manager":"m"}]},"x":18446744073709551615}"#,
    r#"{"metadata":{"uid":"uc","name":"c","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"}},"source":7,"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":"http"}},"resources":{"limits":{"cpu":"1"}}}]}}"#,
];

/// A file has an object, and the trimmed fields, one path a line.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let number = |name: &str| {
        let place = NAMES.iter().position(|it| *it == name);
        u8::try_from(place.unwrap_or_else(|| panic!("{name} is not in the list"))).ok()
    };
    let paths = parts.get(1).copied().unwrap_or_default().lines();
    let trim = paths.map(|path| {
        let mut names = path.trim_start_matches("metadata.").split('.').map(number);
        let first = if path.starts_with("metadata.") {
            None
        } else {
            names.next()
        };
        [
            first.flatten(),
            names.next().flatten(),
            names.next().flatten(),
        ]
    });
    let trim: Vec<_> = trim.collect();
    let input = |pod| Input {
        object: Edits::none(parts[0]),
        pod,
        trim: trim.clone(),
    };
    [false, true].map(input).into()
}

pub(crate) fn check(input: &Input) {
    let text = input.object.text_of(&OBJECTS);
    let paths: Vec<_> = input.trim.iter().copied().filter_map(path).collect();
    if input.pod {
        compare::<Pod>(&text, false, &paths);
    } else {
        compare::<Shapes>(&text, true, &paths);
    }
}

/// The path of a trimmed field: a name, or names below it. Without the first name it is below
/// `metadata`.
fn path(names: [Option<u8>; 3]) -> Option<Vec<&'static str>> {
    let name = |number: u8| NAMES[usize::from(number) % NAMES.len()];
    let mut path = vec![names[0].map_or("metadata", name)];
    path.extend(names[1..].iter().map_while(|number| number.map(name)));
    let is_identity = matches!(*path, ["metadata"] | ["metadata", "name", ..]);
    (!is_identity).then_some(path)
}

/// Removes the field at `path`, unless it is in a list.
fn remove(value: &mut Value, path: &[&str]) {
    let Some(members) = value.as_object_mut() else {
        return;
    };
    match path {
        [] => {}
        [last] => _ = members.remove(*last),
        [first, rest @ ..] => {
            if let Some(below) = members.get_mut(*first) {
                remove(below, rest);
            }
        }
    }
}

/// Whether an object in `text` has a member twice: `value` has only the last one.
fn has_duplicates(text: &str, value: &Value) -> bool {
    fn members(value: &Value) -> usize {
        match value {
            Value::Object(all) => all.values().map(|it| 1 + members(it)).sum(),
            Value::Array(all) => all.iter().map(members).sum(),
            _ => 0,
        }
    }
    let (mut colons, mut within, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => within = !within,
            b':' if !within => colons += 1,
            _ => {}
        }
    }
    colons != members(value)
}

/// `keeps_types` says that `K` has what the object says of its own type. Besides managed fields, the
/// informer trims the fields at `paths`.
fn compare<K>(text: &str, keeps_types: bool, paths: &[Vec<&str>])
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Stored,
{
    let Some((name, source_value)) = identified(text) else {
        return;
    };
    // serde rejects a duplicate member that may be trimmed.
    let paths = if has_duplicates(text, &source_value) {
        &[]
    } else {
        paths
    };
    let trim = paths.iter().fold(Trim::default(), |trim, path| {
        trim.field(path.iter().copied())
    });
    let page = format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{text}]}}"#
    );
    let ours: Option<Value> = in_virtual_time(async {
        let script = Script::new([vec![Bytes::from(page)]]);
        let api: Api<K> = Api::all(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(false).trim(trim);
        let running = Running::for_a_minute(script, source).await;
        let store = running.informer.store();
        let key = store.keys().into_iter().find(|key| key.name() == name)?;
        let object = store.get(&key)?;
        let mut value = serde_json::to_value(&*object).expect("an object has a JSON form");
        // The items of a list do not say what they are; the informer adds it.
        for member in ["apiVersion", "kind"] {
            if keeps_types
                && let Some(members) = value.as_object_mut()
                && source_value.get(member).is_none()
            {
                members.remove(member);
            }
        }
        Some(value)
    });
    let theirs = if paths.is_empty() {
        serde_json::from_str::<K>(text)
    } else {
        let mut trimmed = source_value.clone();
        for path in paths {
            remove(&mut trimmed, path);
        }
        remove(&mut trimmed, &["metadata", "managedFields"]);
        serde_json::from_str(&trimmed.to_string())
    };
    if theirs.is_err() && text.contains("managedFields") {
        // What is wrong may be what the informer does not read.
        return;
    }
    let theirs = theirs.ok().map(|mut object| {
        object.meta_mut().managed_fields = None;
        serde_json::to_value(&object).expect("an object has a JSON form")
    });
    assert_eq!(ours, theirs, "{text} without {paths:?}");
}

/// The name and the members of the object in `text`, if it is an object with all that identifies
/// it: how another one is handled is not serde's to say.
fn identified(text: &str) -> Option<(String, Value)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let metadata = value.get("metadata")?.as_object()?;
    let text_of = |field| Some(metadata.get(field)?.as_str()?.to_owned());
    text_of("uid")?;
    text_of("resourceVersion")?.parse::<u64>().ok()?;
    // Duplicate members are not compared here, because a server sends none.
    let is_once = |member| text.matches(member).count() <= 1;
    if !is_once("\"metadata\"") || !is_once("\"managedFields\"") {
        return None;
    }
    let is_clustered = metadata.get("namespace").is_none();
    let name = is_clustered.then(|| text_of("name"))??;
    Some((name, value))
}

impl Resource for Shapes {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Shapes".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "fuzz.example.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "shapes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

//! Decoding: an informer and `serde_json` must decode the same object, except managed fields.

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
use windlass_informer::{ListWatch, Stored};

use crate::{
    edits::Edits,
    in_virtual_time,
    scripted::{Running, Script},
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    object: Edits,
    pod: bool,
}

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

pub(crate) fn check(input: &Input) {
    let text = input.object.text_of(&OBJECTS);
    if input.pod {
        compare::<Pod>(&text, false);
    } else {
        compare::<Shapes>(&text, true);
    }
}

/// `keeps_types` says that `K` has what the object says of its own type.
fn compare<K>(text: &str, keeps_types: bool)
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Stored,
{
    let Some((name, source_value)) = identified(text) else {
        return;
    };
    let page = format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{text}]}}"#
    );
    let ours: Option<Value> = in_virtual_time(async {
        let script = Script::new([vec![Bytes::from(page)]]);
        let api: Api<K> = Api::all(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(false);
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
    let theirs = serde_json::from_str::<K>(text);
    if theirs.is_err() && text.contains("managedFields") {
        // What is wrong may be what the informer does not read.
        return;
    }
    let theirs = theirs.ok().map(|mut object| {
        object.meta_mut().managed_fields = None;
        serde_json::to_value(&object).expect("an object has a JSON form")
    });
    assert_eq!(ours, theirs, "{text}");
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

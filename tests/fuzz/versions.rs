//! Watches with random versions: in the end, the store and the events must equal the last list.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bolero::TypeGenerator;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use windlass_informer::{Event, Informer, ListWatch, Subscription};

use crate::{
    in_virtual_time,
    scripted::{Running, Script},
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    streamed: bool,
    #[generator(bolero::generator::produce::<Vec<Vec<Line>>>().with().len(0_usize..5))]
    watches: Vec<Vec<Line>>,
    last: [Option<u8>; 3],
}

#[derive(Clone, Debug, TypeGenerator)]
enum Line {
    Added { name: u8, uid: u8, version: u8 },
    Modified { name: u8, uid: u8, version: u8 },
    Deleted { name: u8, uid: u8, version: u8 },
    Bookmark { version: u8, ends_list: bool },
    Expired,
}

/// One object, as a name and a uid.
type Objects = BTreeMap<String, String>;

pub(crate) fn check(input: &Input) {
    let first = list("100", [Some(0), None, Some(1)]);
    let last = list(LAST, input.last);
    let mut watches: VecDeque<String> = (input.watches.iter())
        .map(|lines| lines.iter().map(Line::text).collect())
        .collect();
    // After the random watches the history is compacted. The next list may be rejected once.
    for _ in 0..4 {
        watches.push_back(Line::Expired.text());
    }
    in_virtual_time(async {
        let script = Script::answering(move |uri| {
            // A streamed list is answered as a watch that is garbled, or expired.
            let body = if uri.contains("watch=true") {
                watches.pop_front()?
            } else if watches.len() > 4 {
                first.clone()
            } else {
                last.clone()
            };
            Some(vec![body.into()])
        });
        let api: Api<ConfigMap> = Api::default_namespaced(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(input.streamed);
        let informer = Informer::new(source);
        let replayed = tokio::spawn(replay(informer.subscribe()));
        let running = Running::within(script, informer, Duration::from_secs(3600)).await;
        assert!(!running.has_ended(), "no history ends an informer");
        let version = running.informer.last_sync_resource_version();
        assert_eq!(version.as_deref(), Some(LAST), "it gets the last list");
        let shown: Objects = (running.informer.store().list().iter())
            .map(|object| (object.name_any(), object.uid().unwrap_or_default()))
            .collect();
        let names = (0_u8..).zip(input.last);
        let wanted: Objects = names
            .filter_map(|(name, uid)| Some((format!("n{name}"), uid_of(name, uid?))))
            .collect();
        assert_eq!(shown, wanted, "the store is the last list");
        drop(running);
        let replayed = replayed.await.expect("the events are in order");
        assert_eq!(replayed, wanted, "the events lead to the last list");
    });
}

/// The objects that the events of a subscription lead to.
async fn replay(mut events: Subscription<ConfigMap>) -> Objects {
    let mut objects = Objects::new();
    while let Some(event) = events.next().await {
        let Some(object) = event.object() else {
            continue;
        };
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let before = match event {
            Event::Deleted { .. } => objects.remove(&name),
            _ => objects.insert(name.clone(), uid.clone()),
        };
        let before = before.as_deref();
        match event {
            Event::Added(_) => assert_eq!(before, None, "{name} is added"),
            // A new uid is a delete and an add.
            _ => assert_eq!(before, Some(&*uid), "{name} was there: {event:?}"),
        }
    }
    objects
}

/// The version of the last list.
const LAST: &str = "1000";

/// A list of those of three objects that exist.
fn list(version: &str, uids: [Option<u8>; 3]) -> String {
    let items = uids.into_iter().enumerate().filter_map(|(name, uid)| {
        let name = u8::try_from(name).ok()?;
        Some(object(name, uid?, 255))
    });
    let items: Vec<String> = items.collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn uid_of(name: u8, uid: u8) -> String {
    format!("uid-{name}-{}", uid % 3)
}

fn object(name: u8, uid: u8, version: u8) -> String {
    let name = name % 3;
    let uid = uid_of(name, uid);
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"n{name}","namespace":"default","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    )
}

// === impl Line ===

impl Line {
    fn text(&self) -> String {
        let (event, object) = match *self {
            Self::Added { name, uid, version } => ("ADDED", object(name, uid, version)),
            Self::Modified { name, uid, version } => ("MODIFIED", object(name, uid, version)),
            Self::Deleted { name, uid, version } => ("DELETED", object(name, uid, version)),
            Self::Bookmark { version, ends_list } => {
                let annotations = if ends_list {
                    r#","annotations":{"k8s.io/initial-events-end":"true"}"#
                } else {
                    ""
                };
                let object = format!(
                    r#"{{"kind":"ConfigMap","metadata":{{"resourceVersion":"{version}"{annotations}}}}}"#
                );
                ("BOOKMARK", object)
            }
            Self::Expired => (
                "ERROR",
                r#"{"kind":"Status","code":410,"reason":"Expired"}"#.to_owned(),
            ),
        };
        format!("{{\"type\":\"{event}\",\"object\":{object}}}\n")
    }
}

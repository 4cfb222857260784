//! Lists and watches with random versions, which also go back: in the end, the store and the events
//! must equal the last list.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
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
    /// The lists until the last watch.
    #[generator(bolero::generator::produce::<Vec<Listed>>().with().len(1_usize..5))]
    lists: Vec<Listed>,
    last: Listed,
}

/// A list: its version, and the uid of each of three objects that it contains.
#[derive(Clone, Debug, TypeGenerator)]
struct Listed {
    version: u8,
    uids: [Option<u8>; 3],
}

#[derive(Clone, Debug, TypeGenerator)]
enum Line {
    Added { name: u8, uid: u8, version: u8 },
    Modified { name: u8, uid: u8, version: u8 },
    Deleted { name: u8, uid: u8, version: u8 },
    Bookmark { version: u8, ends_list: bool },
    Expired,
}

/// The versions that the server has sent.
#[derive(Clone, Debug)]
struct Sent {
    /// Of the first list.
    first: Option<u16>,
    newest: u16,
    lists: u32,
    /// Whether no list was older than anything that was sent before.
    lists_go_forward: bool,
}

/// One object, as a name and a uid.
type Objects = BTreeMap<String, String>;

pub(crate) fn check(input: &Input) {
    // The last of them is repeated.
    let mut lists: VecDeque<Listed> = input.lists.iter().cloned().collect();
    let last = input.last.clone();
    let mut watches: VecDeque<Vec<Line>> = input.watches.clone().into();
    // After the random watches the history is compacted. The next list may be rejected once.
    for _ in 0..4 {
        watches.push_back(vec![Line::Expired]);
    }
    let sent = Arc::new(Mutex::new(Sent::default()));
    let versions = Arc::clone(&sent);
    in_virtual_time(async {
        let script = Script::answering(move |uri| {
            let mut sent = versions.lock().expect("no panic");
            // A streamed list is answered as a watch that is garbled, or expired.
            let body: String = if uri.contains("watch=true") {
                let lines = watches.pop_front()?;
                sent.watch(&lines);
                lines.iter().map(Line::text).collect()
            } else {
                let next = match lists.len() {
                    _ if watches.len() <= 4 => Some(last.clone()),
                    1 => lists.front().cloned(),
                    _ => lists.pop_front(),
                };
                let next = next?;
                sent.list(next.version());
                next.text()
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
        let last = input.last.version();
        assert_eq!(version, Some(last.to_string()), "it gets the last list");
        let went_back = running.informer.history_went_back();
        let sent = sent.lock().expect("no panic").clone();
        if sent.lists_go_forward {
            assert_eq!(
                went_back, None,
                "no list is older than what was sent before"
            );
        }
        if !input.streamed && sent.first.is_some_and(|first| last < first) {
            assert_ne!(went_back, None, "the last list is older than the first");
        }
        assert!(
            went_back.is_none() || sent.lists >= 2,
            "one stale list is rejected: {went_back:?}"
        );
        let shown: Objects = (running.informer.store().list().iter())
            .map(|object| (object.name_any(), object.uid().unwrap_or_default()))
            .collect();
        let names = (0_u8..).zip(input.last.uids);
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

fn uid_of(name: u8, uid: u8) -> String {
    format!("uid-{name}-{}", uid % 3)
}

fn object(name: u8, uid: u8, version: u16) -> String {
    let name = name % 3;
    let uid = uid_of(name, uid);
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"n{name}","namespace":"default","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    )
}

// === impl Listed ===

impl Listed {
    /// Not 0, which no list has.
    fn version(&self) -> u16 {
        u16::from(self.version) + 1
    }

    /// A list of those of three objects that exist.
    fn text(&self) -> String {
        let version = self.version();
        // Newer than the objects of all watches, so that the list decides. Those of an older list are
        // older, and replace newer ones only if the informer notices that history went back.
        let of_objects = version + 256;
        let uids = (0_u8..).zip(self.uids);
        let items = uids.filter_map(|(name, uid)| Some(object(name, uid?, of_objects)));
        let items: Vec<String> = items.collect();
        format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
            items.join(",")
        )
    }
}

// === impl Sent ===

impl Sent {
    fn list(&mut self, version: u16) {
        self.lists += 1;
        self.first.get_or_insert(version);
        self.lists_go_forward &= version >= self.newest;
        self.newest = self.newest.max(version);
    }

    fn watch(&mut self, lines: &[Line]) {
        let versions = lines.iter().filter_map(Line::version);
        self.newest = versions.fold(self.newest, u16::max);
    }
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            first: None,
            newest: 0,
            lists: 0,
            lists_go_forward: true,
        }
    }
}

// === impl Line ===

impl Line {
    fn version(&self) -> Option<u16> {
        match *self {
            Self::Added { version, .. }
            | Self::Modified { version, .. }
            | Self::Deleted { version, .. }
            | Self::Bookmark { version, .. } => Some(version.into()),
            Self::Expired => None,
        }
    }

    fn text(&self) -> String {
        let (event, object) = match *self {
            Self::Added { name, uid, version } => ("ADDED", object(name, uid, version.into())),
            Self::Modified { name, uid, version } => {
                ("MODIFIED", object(name, uid, version.into()))
            }
            Self::Deleted { name, uid, version } => ("DELETED", object(name, uid, version.into())),
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

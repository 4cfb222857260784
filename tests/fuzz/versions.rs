//! Watches whose versions go anywhere: in the end the store is what a consistent list says.

use std::collections::BTreeMap;

use bolero::TypeGenerator;
use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use windlass_informer::ListWatch;

use crate::{
    in_virtual_time,
    scripted::{Running, Script, contents},
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

pub(crate) fn check(input: &Input) {
    // Two lists from the past in a row are believed, so the last list comes more than once.
    let mut bodies: Vec<Vec<Bytes>> = Vec::new();
    for lines in &input.watches {
        bodies.push(vec![
            lines.iter().map(Line::text).collect::<String>().into(),
        ]);
    }
    let expired = Line::Expired.text();
    let last = list(input.last);
    for _ in 0..4 {
        bodies.push(vec![expired.clone().into()]);
        bodies.push(vec![last.clone().into()]);
    }
    in_virtual_time(async {
        let script = Script::new(bodies);
        let api: Api<ConfigMap> = Api::default_namespaced(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(input.streamed);
        let running = Running::for_a_minute(script, source).await;
        assert!(!running.has_ended(), "no history ends an informer");
        for (key, text) in contents(&running.informer) {
            assert!(text.contains("uid"), "{key}: {text}");
        }
        if running.informer.last_sync_resource_version().as_deref() == Some(LAST) {
            let shown: BTreeMap<String, String> = contents(&running.informer);
            let wanted = input.last.iter().flatten().count();
            assert_eq!(shown.len(), wanted, "{shown:?}");
        }
    });
}

/// The version of the last list.
const LAST: &str = "1000";

/// A list of those of three objects that exist.
fn list(uids: [Option<u8>; 3]) -> String {
    let items = uids.into_iter().enumerate().filter_map(|(name, uid)| {
        let name = u8::try_from(name).ok()?;
        Some(object(name, uid?, 255))
    });
    let items: Vec<String> = items.collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{LAST}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn object(name: u8, uid: u8, version: u8) -> String {
    let (name, uid) = (name % 3, uid % 3);
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"n{name}","namespace":"default","uid":"uid-{name}-{uid}","resourceVersion":"{version}"}}}}"#
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

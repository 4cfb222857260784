//! Watch lines in random chunks: the result of an informer must not depend on the chunks.

use bolero::TypeGenerator;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use windlass_informer::ListWatch;

use crate::{
    edits::Edits,
    in_virtual_time,
    scripted::{Running, Script, contents, cut},
};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    lines: Edits,
    cuts: Vec<u8>,
    /// Whether the lines are a streamed list, or a watch after a list in pages.
    streamed: bool,
}

const LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"z","namespace":"default","uid":"uz","resourceVersion":"3"}}]}"#;

const LINES: [&str; 3] = [
    r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"ua","resourceVersion":"7"},"data":{"k":"v"}}}
{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"ua","resourceVersion":"11","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]},"data":{"k":"w"}}}
{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"ua","resourceVersion":"12"}}}
"#,
    r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"default","uid":"ub","resourceVersion":"13"},"binaryData":{"x":"AAEC"}}}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old resource version"}}
"#,
    r#"{"object":{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}},"type":"BOOKMARK"}
{"type":"ADDED","object":{"metadata":{"name":"c\u00e9","namespace":"default","uid":"uc","resourceVersion":"14","labels":{"a":"\ud83e\udd80"}},"immutable":true,"data":{"q":"\"\\\n"}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20"}}}
"#,
];

/// A file has the lines of a watch.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let lines = format!("{}\n", parts[0]);
    let input = |(streamed, cut)| Input {
        lines: Edits::none(&lines),
        cuts: vec![cut],
        streamed,
    };
    [(false, 0), (false, 63), (true, 0), (true, 63)]
        .map(input)
        .into()
}

pub(crate) fn check(input: &Input) {
    let lines = input.lines.of(&LINES);
    let whole = outcome(input.streamed, &lines, &[]);
    let in_chunks = outcome(input.streamed, &lines, &input.cuts);
    assert_eq!(
        whole, in_chunks,
        "a watch in one chunk, and the same in chunks"
    );
}

/// The store and the requests after a minute.
fn outcome(streamed: bool, lines: &[u8], cuts: &[u8]) -> (Vec<(String, String)>, Vec<String>) {
    in_virtual_time(async {
        let lines = cut(lines, cuts);
        let bodies = if streamed {
            vec![lines]
        } else {
            vec![vec![LIST.into()], lines]
        };
        let script = Script::new(bodies);
        let api: Api<ConfigMap> = Api::default_namespaced(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(streamed);
        let running = Running::for_a_minute(script, source).await;
        assert!(!running.has_ended(), "no line ends an informer");
        let contents = contents(&running.informer).into_iter().collect();
        (contents, running.requests())
    })
}

//! List pages in random chunks: the result of an informer must not depend on the chunks.

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
    first: Edits,
    second: Edits,
    cuts: Vec<u8>,
}

const FIRST: [&str; 2] = [
    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"more","remainingItemCount":1},"items":[{"metadata":{"name":"a","namespace":"default","uid":"ua","resourceVersion":"3"},"data":{"k":"v"}},{"metadata":{"name":"b","namespace":"default","uid":"ub","resourceVersion":"4"}}]}"#,
    r#"{"items":[{"metadata":{"name":"a","namespace":"default","uid":"ua","resourceVersion":"3","managedFields":[]}}],"apiVersion":"v1","kind":"ConfigMapList","metadata":{"continue":"","resourceVersion":"9"}}"#,
];

const SECOND: [&str; 2] = [
    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"c","namespace":"default","uid":"uc","resourceVersion":"5"},"data":{"q":"\"\\\u00e9"}}]}"#,
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"expired","reason":"Expired","code":410}"#,
];

/// A file has the two pages of a list.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let [first, second] = parts else {
        panic!("two pages, not {parts:?}");
    };
    let input = |cut| Input {
        first: Edits::none(first),
        second: Edits::none(second),
        cuts: vec![cut],
    };
    // Chunks of 1 byte, of 64, and of 200.
    [0, 63, 199].map(input).into()
}

pub(crate) fn check(input: &Input) {
    let pages = [input.first.of(&FIRST), input.second.of(&SECOND)];
    let whole = outcome(&pages, &[]);
    let in_chunks = outcome(&pages, &input.cuts);
    assert_eq!(
        whole, in_chunks,
        "pages in one chunk, and the same in chunks"
    );
}

/// The store and the requests after a minute.
fn outcome(pages: &[Vec<u8>], cuts: &[u8]) -> (Vec<(String, String)>, Vec<String>) {
    in_virtual_time(async {
        let script = Script::new(pages.iter().map(|page| cut(page, cuts)));
        let api: Api<ConfigMap> = Api::default_namespaced(script.client());
        let source = ListWatch::new(api).seed(7).streamed_lists(false);
        let running = Running::for_a_minute(script, source).await;
        assert!(!running.has_ended(), "no page ends an informer");
        let contents = contents(&running.informer).into_iter().collect();
        (contents, running.requests())
    })
}

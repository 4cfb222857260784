//! Kinds that cannot be watched, and servers without streamed lists: no failures.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use windlass_informer::Informer;

use crate::{
    canary::Log,
    server::{Answer, Server},
    text::{added, bad, bookmark, list, object},
    wire::{Wire, source},
};

const NOT_ALLOWED: &str =
    r#"{"kind":"Status","code":405,"reason":"MethodNotAllowed","message":"not supported"}"#;

/// A list of a kind without versions, such as the metrics of Pods.
fn unversioned(metadata: &str, name: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1",{metadata}"items":[{{"metadata":{{"name":"{name}","namespace":"default"}},"data":{{"value":"1"}}}}]}}"#
    )
}

/// An informer, and the problems that it reports.
pub(crate) fn reporting(server: Server) -> (Wire, Arc<Mutex<Vec<String>>>) {
    let problems = Arc::new(Mutex::new(Vec::new()));
    let informer = Informer::builder(source(&server))
        .on_error({
            let problems = Arc::clone(&problems);
            move |problem| problems.lock().expect("no panic").push(problem.to_string())
        })
        .build();
    (Wire::follow(informer, server), problems)
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_versions_is_polled() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let (mut wire, problems) = reporting(Server::new([
        Answer::json(405, NOT_ALLOWED),
        Answer::json(200, &unversioned(r#""metadata":{},"#, "a")),
        Answer::json(200, &unversioned(r#""metadata":null,"#, "a")),
        Answer::json(200, &unversioned("", "b")),
    ]));
    let began = Instant::now();
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(wire.receive(1).await, ["updated a"]);
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert_eq!(wire.receive(2).await, ["added b", "missed a"]);
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    assert!(problems.lock().expect("no panic").is_empty());
    let logged = log.0.lock().expect("no panic");
    assert_eq!(logged.matches("polling it").count(), 1, "{logged}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_watch_is_refused_is_polled() {
    let server = Server::new([
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::json(405, NOT_ALLOWED),
        Answer::json(200, &list("8", &[("a", 1), ("b", 8)])),
        Answer::json(200, &list("9", &[("b", 8)])),
    ]);
    let source = source(&server)
        .streamed_lists(false)
        .poll_interval(Duration::from_secs(5));
    let mut wire = Wire::run(source, server);
    let began = Instant::now();
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added b"]);
    assert_eq!(wire.receive(1).await, ["missed a"]);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let watches = (0..4).filter(|request| wire.asked(*request).contains("watch=true"));
    assert_eq!(watches.count(), 1, "the watch is tried once");
}

/// Otherwise the answer of a proxy would remove all objects.
#[tokio::test(start_paused = true)]
async fn a_document_without_items_is_not_an_empty_list() {
    let mut wire = Wire::pages([
        Answer::json(200, "{}"),
        Answer::json(200, r#"{"kind":"Status","metadata":{},"status":"Success"}"#),
        Answer::json(200, r#"{"metadata":null}"#),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(2).await, ["added a", "synced"]);
}

/// A list without a version after one that had a version is a fault of a proxy.
#[tokio::test(start_paused = true)]
async fn a_kind_that_had_versions_is_not_polled() {
    let mut wire = Wire::pages([
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Gone"}"#),
        Answer::json(200, &unversioned(r#""metadata":{},"#, "b")),
        Answer::json(200, &list("8", &[("a", 1), ("c", 8)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added c"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streamed_lists_is_no_problem() {
    let refusal = r#"{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;
    let (mut wire, problems) = reporting(Server::new([
        Answer::json(422, refusal),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::lines([added("b", 8, "1")]).then_hang(),
    ]));
    assert_eq!(wire.receive(3).await, ["added a", "synced", "added b"]);
    assert!(problems.lock().expect("no panic").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_report_of_an_undecodable_object_that_is_being_deleted_says_how_to_release_it() {
    let deleting = bad("a", 1).replace(
        r#""uid":"#,
        r#""deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["others.io/x","example.io/cleanup","a'; rm\n#"],"uid":"#,
    );
    let line = added("a", 1, "1").replace(&object("a", 1, "1"), &deleting);
    let (mut wire, problems) = reporting(Server::new([Answer::lines([
        line,
        crate::text::END.to_owned(),
    ])
    .then_hang()]));
    assert_eq!(wire.receive(1).await, ["synced"]);
    let problems = problems.lock().expect("no panic").clone();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].ends_with(
            "; it is being deleted, and its finalizers keep it (others.io/x, example.io/cleanup, \
             a'; rm #): correct the object, or clean up by hand and remove the finalizer of this \
             operator, and no other; `kubectl patch configmaps a -n default --type=json -p \
             '[{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"others.io/x\"},\
             {\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}]'`; `kubectl patch configmaps a \
             -n default --type=json -p '[{\"op\":\"test\",\"path\":\"/metadata/finalizers/1\",\
             \"value\":\"example.io/cleanup\"},{\"op\":\"remove\",\
             \"path\":\"/metadata/finalizers/1\"}]'`"
        ),
        "{}",
        problems[0]
    );
}

/// The scripted server has no namespace `default`.
#[tokio::test(start_paused = true)]
async fn an_informer_of_a_namespace_that_does_not_exist_is_reported_once() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let minute = || Answer::lines([]).then_after(Duration::from_secs(70), &(bookmark(8) + "\n"));
    let wire = Wire::pages([
        Answer::json(200, &list("7", &[])),
        minute(),
        minute(),
        Answer::lines([]).then_hang(),
    ]);
    wire.requests(4).await;
    let logged = log.0.lock().expect("no panic").clone();
    assert_eq!(
        logged.matches("the namespace does not exist").count(),
        1,
        "{logged}"
    );
    assert!(logged.contains("namespace=default"), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn an_informer_with_objects_does_not_look_up_its_namespace() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let minute = || Answer::lines([]).then_after(Duration::from_secs(70), &(bookmark(8) + "\n"));
    let wire = Wire::pages([
        Answer::json(200, &list("7", &[("a", 1)])),
        minute(),
        Answer::lines([]).then_hang(),
    ]);
    wire.requests(3).await;
    let logged = log.0.lock().expect("no panic").clone();
    assert!(!logged.contains("the namespace does not exist"), "{logged}");
}

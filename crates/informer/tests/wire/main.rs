//! What an informer makes of whatever comes over the wire, on paused time.
//!
//! Each test scripts a server answer by answer, and looks at what is told and at when the
//! next request is sent.

mod server;

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _};
use server::{Answer, Server};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_informer::{Event, HealthState, Informer, InformerError, ListWatch, Subscription};

const END: &str = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

#[tokio::test(start_paused = true)]
async fn lines_are_whole_however_the_network_cuts_them() {
    let stream = [added("a", 1, "1"), END.to_owned(), added("\u{e9}", 11, "1")].join("\n") + "\n";
    let bytes = stream.as_bytes().chunks(1).map(<[u8]>::to_vec);
    let mut wire = Wire::start([Answer::watch(bytes.collect()).then_hang()]);
    assert_eq!(wire.told(3).await, ["added a", "synced", "added \u{e9}"]);
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_is_dropped_and_comes_again() {
    let broken = added("b", 11, "1");
    let (half, _) = broken.split_at(40);
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1"), END.to_owned()]).then(half),
        Answer::lines([broken.clone()]).then_hang(),
    ]);
    assert_eq!(wire.told(3).await, ["added a", "synced", "added b"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

/// A line that cannot be read may be a change that must not be missed: the watch does not
/// read on past it.
#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_json_is_asked_for_again() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned(), "{garbage".to_owned(), added("c", 13, "1")]),
        Answer::lines([added("b", 12, "1"), added("c", 13, "1")]).then_hang(),
    ]);
    assert_eq!(wire.told(3).await, ["synced", "added b", "added c"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_type_from_the_future_is_not_passed_over() {
    let strange = added("b", 11, "1").replace("ADDED", "MERGED");
    let mut wire = Wire::start([
        Answer::lines([END.to_owned(), strange]),
        Answer::lines([added("b", 11, "1")]).then_hang(),
    ]);
    assert_eq!(wire.told(2).await, ["synced", "added b"]);
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_twice_is_told_once() {
    let mut wire = Wire::start([Answer::lines([
        added("a", 1, "1"),
        END.to_owned(),
        added("a", 1, "1"),
        modified("a", 11, "2"),
        modified("a", 11, "2"),
        modified("a", 1, "1"),
        deleted("nobody", 12),
        deleted("a", 13),
    ])
    .then_hang()]);
    assert_eq!(
        wire.told(4).await,
        ["added a", "synced", "updated a", "deleted a"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_at_once_is_not_asked_in_a_hot_loop() {
    let mut answers = vec![Answer::lines([END.to_owned()])];
    answers.extend((0..20).map(|_| Answer::lines([])));
    let mut wire = Wire::start(answers);
    assert_eq!(wire.told(1).await, ["synced"]);
    wire.requests(21).await;
    let waits = wire.waits();
    assert!(waits[0] >= Duration::from_millis(400), "{waits:?}");
    assert!(waits[19] >= Duration::from_secs(15), "{waits:?}");
    let lists = (0..21).filter(|i| wire.asked(*i).contains("sendInitialEvents"));
    assert_eq!(lists.count(), 1, "a hang-up is no reason to list again");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_cut_and_resumed() {
    let mut wire = Wire::start([
        Answer::lines([END.to_owned()]).then_hang(),
        Answer::lines([added("a", 11, "1")]).then_hang(),
    ]);
    assert_eq!(wire.told(2).await, ["synced", "added a"]);
    let silence = wire.waits()[0];
    assert!(
        silence >= ListWatch::<ConfigMap>::DEFAULT_SILENCE,
        "{silence:?}"
    );
    assert!(
        silence < ListWatch::<ConfigMap>::DEFAULT_SILENCE * 2,
        "{silence:?}"
    );
    assert!(
        wire.asked(1).contains("resourceVersion=10"),
        "{}",
        wire.asked(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_head_never_comes_is_given_up() {
    let mut wire = Wire::start([Answer::never(), Answer::lines([END.to_owned()]).then_hang()]);
    assert_eq!(wire.told(1).await, ["synced"]);
}

/// A proxy that swallows bookmarks would make a streamed list wait for ever.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_whose_end_never_comes_falls_back_to_pages() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "1")]).then_hang(),
        Answer::lines([added("a", 1, "1")]).then_hang(),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::lines([]).then_hang(),
    ]);
    let began = tokio::time::Instant::now();
    assert_eq!(wire.told(2).await, ["added a", "synced"]);
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
    assert!(wire.asked(2).contains("limit=500"), "{}", wire.asked(2));
    wire.requests(4).await;
    assert!(
        wire.asked(3).contains("resourceVersion=7"),
        "{}",
        wire.asked(3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_asked_once() {
    let refusal = r#"{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#;
    let mut wire = Wire::start([
        Answer::json(422, refusal),
        Answer::json(200, &list("7", &[("a", 1)])),
        Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Gone"}"#),
        Answer::json(200, &list("9", &[("b", 8)])),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(
        wire.told(4).await,
        ["added a", "synced", "added b", "missed a"]
    );
    let streams = (0..4).filter(|i| wire.asked(*i).contains("sendInitialEvents"));
    assert_eq!(streams.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_way_to_say_that_history_is_gone_leads_to_a_list() {
    for answer in [
        Answer::lines([error(410, "Expired")]),
        Answer::json(410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#),
        Answer::json(410, "gone"),
        Answer::lines([added("b", 11, "1"), error(410, "Expired")]),
    ] {
        let mut wire = Wire::start([
            Answer::lines([END.to_owned()]),
            answer,
            Answer::lines([added("c", 12, "1"), END.replace("10", "20")]).then_hang(),
        ]);
        assert_eq!(wire.told(1).await, ["synced"]);
        while wire.told(1).await != ["added c"] {}
        assert!(
            wire.asked(2).contains("sendInitialEvents"),
            "{}",
            wire.asked(2)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_says_nothing_of_history_resumes() {
    for answer in [
        Answer::lines([error(500, "InternalError")]),
        Answer::lines([r#"{"type":"ERROR","object":{"what":"ever"}}"#.to_owned()]),
        Answer::json(
            500,
            "This request caused apiserver to panic. Look in the logs for details.",
        ),
        Answer::json(503, ""),
        Answer::json(200, "<html>maintenance</html>\n"),
    ] {
        let mut wire = Wire::start([
            Answer::lines([END.to_owned()]),
            answer,
            Answer::lines([added("a", 11, "1")]).then_hang(),
        ]);
        assert_eq!(wire.told(2).await, ["synced", "added a"]);
        assert!(
            wire.asked(2).contains("resourceVersion=10"),
            "{}",
            wire.asked(2)
        );
    }
}

/// Rows: BO-51
#[tokio::test(start_paused = true)]
async fn a_server_that_names_a_wait_is_not_asked_sooner() {
    let mut wire = Wire::start([
        Answer::json(429, "Too many requests, please try again later.").retry_after(7),
        Answer::json(
            429,
            r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#,
        ),
        Answer::json(429, "slow down"),
        Answer::lines([END.to_owned()]).then_hang(),
    ]);
    assert_eq!(wire.told(1).await, ["synced"]);
    let waits = wire.waits();
    assert!(waits[0] >= Duration::from_secs(7), "{waits:?}");
    assert!(waits[1] >= Duration::from_secs(3), "{waits:?}");
    assert!(waits[2] >= Duration::from_millis(400), "{waits:?}");
}

/// kube's own client repeats such answers by itself, up to fifteen times, and tells nobody.
#[tokio::test(start_paused = true)]
async fn no_middleware_repeats_our_requests() {
    let server = Server::new([
        Answer::json(503, "").retry_after(1),
        Answer::lines([END.to_owned()]).then_hang(),
    ]);
    let retry = tower::retry::RetryLayer::new(kube::client::retry::RetryPolicy::server_retry());
    let service = tower::Layer::layer(&retry, server.clone());
    let mut wire = Wire::of(Client::new(service, "default"), server);
    let down = |state: &HealthState| matches!(state, HealthState::Down { .. });
    let health = wire.informer.until(down).await;
    assert!(health.to_string().contains("503"), "{health}");
    assert_eq!(wire.told(1).await, ["synced"]);
    assert_eq!(wire.server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_is_an_error_and_not_a_memory_leak() {
    let endless = vec![b'x'; 4096];
    let server = Server::new([
        Answer::lines([END.to_owned()]),
        Answer::watch(vec![endless; 16]).then_hang(),
        Answer::lines([added("a", 11, "1")]).then_hang(),
    ]);
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let mut wire = Wire::run(ListWatch::new(api).seed(7).max_bytes(16 * 1024), server);
    assert_eq!(wire.told(2).await, ["synced", "added a"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_contradicts_itself_is_not_believed() {
    let page = |version: &str, name: &str, next: &str| {
        list(version, &[(name, 1)]).replace(r#""continue":"""#, &format!(r#""continue":"{next}""#))
    };
    let mut wire = Wire::pages([
        Answer::json(200, &page("7", "a", "more")),
        Answer::json(200, &page("8", "b", "")),
        Answer::json(200, &page("9", "b", "")),
        Answer::lines([]).then_hang(),
    ]);
    // `a` was there when its page came, so it is told, and then missed.
    assert_eq!(
        wire.told(4).await,
        ["added a", "added b", "missed a", "synced"]
    );
    let mut wire = Wire::pages([
        Answer::json(200, r#"{"kind":"ConfigMapList","metadata":{},"items":[]}"#),
        Answer::json(
            200,
            r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":null}"#,
        ),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.told(1).await, ["synced"]);
}

/// A list from another, older API server would bring back what is gone.
#[tokio::test(start_paused = true)]
async fn a_list_from_the_past_does_not_replace_what_is_known() {
    let mut wire = Wire::pages([
        Answer::json(200, &list("20", &[("a", 20)])),
        Answer::json(410, ""),
        Answer::json(200, &list("5", &[("ghost", 4)])),
        Answer::json(200, &list("21", &[("a", 20)])),
        Answer::lines([added("b", 22, "1")]).then_hang(),
    ]);
    assert_eq!(wire.told(3).await, ["added a", "synced", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_seldom() {
    let wire = Wire::start((0..10).map(|_| Answer::json(404, "404 page not found\n")));
    wire.requests(10).await;
    let waits = wire.waits();
    assert!(waits[8] >= Duration::from_secs(15), "{waits:?}");
    assert!(waits[8] <= Duration::from_secs(30), "{waits:?}");
    let health = wire.informer.health();
    assert!(
        health.to_string().contains("does not serve this kind"),
        "{health}"
    );
    assert!(!wire.informer.has_synced());
}

/// An object that does not decode is looked at again by itself: what mends it may be
/// something that no watch shows.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_set_aside_is_looked_at_again() {
    let bad = added("a", 1, "1").replace(r#"{"value":"1"}"#, "7");
    let mut wire = Wire::start([
        Answer::lines([bad, END.to_owned()]).then_hang(),
        Answer::json(200, &object("a", 1, "1")),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(wire.told(1).await, ["synced"]);
    assert_eq!(wire.informer.health().undecodable.len(), 1);
    assert_eq!(wire.told(1).await, ["added a"]);
    assert!(
        wire.asked(1).ends_with("/configmaps/a"),
        "{}",
        wire.asked(1)
    );
    assert!(wire.informer.health().undecodable.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_of_a_relist_are_neither_decoded_nor_told() {
    // The second list holds an object that would not decode, in a state that is known.
    let undecodable = list("30", &[("a", 1), ("b", 12)]).replacen(r#"{"value":"1"}"#, "7", 1);
    let mut wire = Wire::pages([
        Answer::json(200, &list("10", &[("a", 1), ("b", 2)])),
        Answer::json(410, ""),
        Answer::json(200, &undecodable),
        Answer::lines([]).then_hang(),
    ]);
    assert_eq!(
        wire.told(4).await,
        ["added a", "added b", "synced", "updated b"]
    );
    wire.requests(4).await;
    assert!(wire.informer.health().undecodable.is_empty());
}

/// Rows: GA-91
#[tokio::test(start_paused = true)]
async fn a_resync_tells_each_object_once_a_period_spread_over_it() {
    let server =
        Server::new([
            Answer::lines([added("a", 1, "1"), added("b", 2, "1"), END.to_owned()])
                .then_hang_for_good(),
        ]);
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let period = Duration::from_secs(60);
    let informer = Informer::builder(api).resync(period).build();
    let began = tokio::time::Instant::now();
    let mut wire = Wire::follow(informer, server);
    assert_eq!(wire.told(3).await, ["added a", "added b", "synced"]);
    let mut first = wire.told(1).await;
    assert_eq!(began.elapsed().as_secs(), 15);
    first.extend(wire.told(1).await);
    assert_eq!(began.elapsed().as_secs(), 45);
    first.sort();
    assert_eq!(first, ["resynced a", "resynced b"]);
    wire.told(1).await;
    assert_eq!(began.elapsed().as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_slow_makes_the_watch_wait_and_loses_nothing() {
    let mut lines = vec![END.to_owned()];
    lines.extend((0..2000).map(|i| added(&format!("c-{i:04}"), 11 + i, "1")));
    let mut wire = Wire::start([Answer::lines(lines).then_hang()]);
    assert_eq!(wire.told(1).await, ["synced"]);
    // Everything that could move has moved, and it is not all 2000.
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..5000 {
        tokio::task::yield_now().await;
    }
    let ahead = wire.informer.store().len();
    assert!(
        ahead < 500,
        "{ahead} objects ahead of a handler that takes none"
    );
    let told = wire.told(2000).await;
    assert_eq!(told[1999], "added c-1999");
}

/// An informer that runs against a scripted server.
struct Wire {
    server: Server,
    informer: Informer<ConfigMap>,
    events: Subscription<ConfigMap>,
    _running: AbortOnDropHandle<Result<(), InformerError>>,
}

impl Wire {
    fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Server::new(answers);
        Self::of(Client::new(server.clone(), "default"), server)
    }

    /// As `start`, without streamed lists.
    fn pages(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Server::new(answers);
        let api = Api::default_namespaced(Client::new(server.clone(), "default"));
        Self::run(ListWatch::new(api).seed(7).streamed_lists(false), server)
    }

    fn of(client: Client, server: Server) -> Self {
        Self::run(
            ListWatch::new(Api::default_namespaced(client)).seed(7),
            server,
        )
    }

    fn run(source: ListWatch<ConfigMap>, server: Server) -> Self {
        Self::follow(Informer::new(source), server)
    }

    fn follow(informer: Informer<ConfigMap>, server: Server) -> Self {
        let events = informer.subscribe();
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run(CancellationToken::new()).await }
        });
        Self {
            server,
            informer,
            events,
            _running: AbortOnDropHandle::new(running),
        }
    }

    /// The next events, in words.
    async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < count {
            let event = within_a_day(self.events.next()).await;
            told.push(match event.expect("the informer runs") {
                Event::Added(object) => format!("added {}", object.name_any()),
                Event::Updated { new, .. } => format!("updated {}", new.name_any()),
                Event::Deleted {
                    last,
                    missed: false,
                } => format!("deleted {}", last.name_any()),
                Event::Deleted { last, .. } => format!("missed {}", last.name_any()),
                Event::Resynced(object) => format!("resynced {}", object.name_any()),
                _ => "synced".to_owned(),
            });
        }
        told
    }

    /// Waits until so many requests were sent.
    async fn requests(&self, count: usize) {
        within_a_day(self.server.received(count)).await;
    }

    /// The path and query of a request.
    fn asked(&self, index: usize) -> String {
        self.server.requests()[index].1.clone()
    }

    /// The times between the requests.
    fn waits(&self) -> Vec<Duration> {
        let requests = self.server.requests();
        requests.windows(2).map(|two| two[1].0 - two[0].0).collect()
    }
}

/// Time is paused, and so a day is nothing; but a test that waits for what never comes must
/// end.
async fn within_a_day<T>(waiting: impl Future<Output = T>) -> T {
    let day = Duration::from_secs(24 * 3600);
    let waited = tokio::time::timeout(day, waiting).await;
    waited.expect("what the test waits for does not come")
}

fn object(name: &str, version: usize, value: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"uid-{name}","resourceVersion":"{version}"}},"data":{{"value":"{value}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn added(name: &str, version: usize, value: &str) -> String {
    event("ADDED", &object(name, version, value))
}

fn modified(name: &str, version: usize, value: &str) -> String {
    event("MODIFIED", &object(name, version, value))
}

fn deleted(name: &str, version: usize) -> String {
    event("DELETED", &object(name, version, "1"))
}

fn error(code: u16, reason: &str) -> String {
    event(
        "ERROR",
        &format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}"}}"#),
    )
}

fn list(version: &str, objects: &[(&str, usize)]) -> String {
    let items: Vec<String> = objects
        .iter()
        .map(|(name, version)| object(name, *version, "1"))
        .collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":""}},"items":[{}]}}"#,
        items.join(",")
    )
}

//! Logs have no content of objects, and no long texts of a server.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    server::{Answer, Server},
    text::{END, added, bad, deleted, list as list_of, modified, object},
    wire::{Wire, source},
};

const CANARY: &str = "hunter2-canary";

/// Everything that is logged, at every level, spans included.
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<String>>);

/// Rows: GA-43
#[tokio::test(start_paused = true)]
async fn no_content_of_an_object_and_no_long_text_of_a_server_is_logged() {
    // A server that quotes the object in its answer does so behind what it has to say.
    let message = format!("{} {CANARY}", "why not? ".repeat(50));
    let mut answers: Vec<Box<dyn Fn() -> Answer>> = Vec::new();
    for code in [
        400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504,
    ] {
        // The message of a failure of the server may be a stack trace, and no part of it is shown.
        let (reason, message) = match code {
            500.. => ("Other", format!("{CANARY} {message}")),
            _ => (&*message, message.clone()),
        };
        let status = format!(
            r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"{message}"}}"#
        );
        let event = format!(r#"{{"type":"ERROR","object":{status}}}"#);
        answers.push(Box::new(move || Answer::json(code, &status)));
        answers.push(Box::new(move || Answer::json(code, &message)));
        answers.push(Box::new(move || Answer::lines([event.clone()])));
    }
    let secret = added("a", 11, CANARY);
    for line in [
        secret.clone(),
        secret.replace("ADDED", &message),
        secret.replace(r#""kind":"ConfigMap""#, &format!(r#""kind":"{message}""#)),
        secret.replace(r#""data":{"#, &format!(r#""data":{{"{message}":7,"#)),
        secret.replace(r#""name":"a""#, &format!(r#""name":["{CANARY}"]"#)),
        secret.replace("}}", "}"),
        format!("{CANARY} is no JSON"),
        END.replace(r#""10""#, &format!(r#""{message}""#)),
    ] {
        answers.push(Box::new(move || Answer::lines([line.clone()])));
    }
    for answer in answers {
        let bad = added("b", 2, "1").replace(r#"{"value":"1"}"#, &format!(r#"["{CANARY}"]"#));
        let list = || Answer::lines([added("a", 1, CANARY), bad.clone(), END.to_owned()]);
        let scripts = [
            (true, vec![answer()]),
            (false, vec![answer()]),
            (true, vec![list(), answer()]),
            // The second answer is that to the request for the object that does not decode.
            (true, vec![list().then_hang(), answer()]),
        ];
        for (is_streamed, script) in scripts {
            let log = Log::default();
            let _guard = tracing::subscriber::set_default(log.clone());
            let count = script.len() + 1;
            let server = Server::new(script);
            let wire = Wire::run(source(&server).streamed_lists(is_streamed), server);
            wire.requests(count).await;
            let logged = log.0.lock().expect("no panic").clone();
            assert!(!logged.contains(CANARY), "{logged}");
            assert!(logged.contains("informer-"), "{logged}");
            let longest = logged.lines().map(str::len).max();
            assert!(longest < Some(1500), "{logged}");
        }
    }
}

/// Kubernetes itself allows line breaks and any length in names of some kinds, such as `ClusterRole`.
#[tokio::test(start_paused = true)]
async fn an_object_is_logged_in_one_short_line_whatever_its_name_uid_and_version_are() {
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        for value in ["a\\nFORGED", "a\\u2028FORGED", &"F".repeat(1024 * 1024)] {
            let strange = |text: &str, number: u8| {
                let (head, tail) = text.split_once("\"metadata\":{").expect("metadata");
                let kept = tail.replace(&format!("\"{field}\":"), "\"was\":");
                format!("{head}\"metadata\":{{\"{field}\":\"{value}{number}\",{kept}")
            };
            let bad = strange(&bad("b", 2), 2);
            let bad_event = added("x", 2, "1").replace(&object("x", 2, "1"), &bad);
            let watch = || {
                [
                    strange(&modified("a", 11, "2"), 1),
                    bad_event.clone(),
                    strange(&deleted("a", 12), 1),
                ]
            };
            let list = [
                strange(&added("a", 1, "1"), 1),
                bad_event.clone(),
                END.into(),
            ];
            let items = format!("{},{bad}", strange(&object("a", 1, "1"), 1));
            let page = list_of("10", &[]).replace("\"items\":[]", &format!("\"items\":[{items}]"));
            for (is_streamed, script) in [
                (true, vec![Answer::lines(list.into_iter().chain(watch()))]),
                (
                    false,
                    vec![Answer::json(200, &page), Answer::lines(watch())],
                ),
            ] {
                let log = Log::default();
                let _guard = tracing::subscriber::set_default(log.clone());
                let server = Server::new(script);
                let mut wire = Wire::run(source(&server).streamed_lists(is_streamed), server);
                // An update is none if its version is the same.
                wire.receive(3).await;
                // On paused time: until the object that does not decode was requested.
                tokio::time::sleep(Duration::from_secs(60)).await;
                let logged = log.0.lock().expect("no panic").clone();
                for part in [
                    "informer-event-add",
                    "informer-event-delete",
                    "object does not decode",
                ] {
                    assert!(logged.contains(part), "{part}: {logged:.9999}");
                }
                let lines = || logged.lines().flat_map(|line| line.split('\u{2028}'));
                assert!(
                    !lines().any(|line| line.starts_with("FORGED")),
                    "{field}: {logged}"
                );
                let longest = lines().map(str::len).max();
                assert!(longest < Some(1500), "{field}: {longest:?}");
            }
        }
    }
}

/// Each request has a span with its outcome, which is the label of the metric.
#[tokio::test(start_paused = true)]
async fn the_span_of_a_request_ends_with_its_outcome() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let wire = Wire::start([
        Answer::json(422, ""),
        Answer::json(200, &crate::text::list("10", &[("a", 1)])),
        Answer::lines([added("b", 11, "1")]),
        Answer::lines([crate::text::error(410, "Expired")]),
        Answer::never(),
    ]);
    wire.requests(5).await;
    let logged = log.0.lock().expect("no panic").clone();
    let outcomes: Vec<_> = (logged.lines())
        .filter_map(|line| line.strip_prefix("record outcome="))
        .collect();
    assert_eq!(outcomes, ["invalid", "ended", "ended", "expired"]);
    // The span of an event has its object.
    let event =
        "informer-event-add resource=configmaps object=default/b uid=uid-b resource_version=11";
    assert!(logged.contains(event), "{logged}");
}

// === impl Log ===

impl Log {
    fn line(&self, what: &str, fields: impl FnOnce(&mut dyn Visit)) {
        struct Line<'a>(&'a mut String);

        impl Visit for Line<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                _ = write!(self.0, " {field}={value:?}");
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                _ = write!(self.0, " {field}={value}");
            }
        }

        let mut log = self.0.lock().expect("no panic");
        log.push_str(what);
        fields(&mut Line(&mut log));
        log.push('\n');
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.line(span.metadata().name(), |line| span.record(line));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.line("record", |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().to_string();
        self.line(&level, |line| event.record(line));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

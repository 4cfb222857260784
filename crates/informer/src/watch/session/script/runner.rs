//! Runs the scripts of a session.

use std::{sync::Arc, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    DecodeError,
    api_request::ServerStatus,
    decode::PageMeta,
    watch::{
        Backoff, Verb, WatchError, WatchErrorCause,
        session::{NextRequest, Session},
    },
};

pub(super) fn session() -> Session {
    let silence = Duration::from_secs(180);
    Session::new(Arc::from("pods"), Backoff::CLIENT_GO.into(), true, silence)
}

pub(super) fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

pub(super) fn from_status(code: u16) -> WatchError {
    let status = ServerStatus {
        code,
        ..ServerStatus::default()
    };
    WatchError::from_status(&Arc::from("pods"), Verb::List, status)
}

/// Runs `script`. `asked` are the requests at the start and after each step.
#[track_caller]
pub(super) fn check(script: &str, asked: &str) {
    let mut session = session();
    let mut rng = rng();
    let mut asks = vec![say(&session.next_request())];
    for step in script.split(", ") {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["streamed", version] => {
                if let Err(error) = session.end_streamed_list(version) {
                    session.on_error(&error, Duration::ZERO, &mut rng);
                }
            }
            ["silent"] => {
                let limit = Duration::ZERO;
                let cause = WatchErrorCause::Silent { limit };
                let error = WatchError::new("pods", Verb::Watch, cause);
                session.on_error(&error, Duration::ZERO, &mut rng);
            }
            ["future"] => {
                let status = ServerStatus {
                    code: 504,
                    message: "Timeout: Too large resource version: 7, current: 5".to_owned(),
                    ..ServerStatus::default()
                };
                let error = WatchError::from_status(&Arc::from("pods"), Verb::Watch, status);
                session.on_error(&error, Duration::ZERO, &mut rng);
            }
            ["version", version] => {
                let page = PageMeta {
                    resource_version: Some(version.to_owned()),
                    continue_token: None,
                };
                if let Err(error) = session.on_version(&page) {
                    session.on_error(&error, Duration::ZERO, &mut rng);
                }
            }
            ["follow", version] => session.advance_to(version),
            ["eof"] => _ = session.on_end(Duration::ZERO, &mut rng),
            ["malformed"] => {
                let source = serde_json::from_str::<u8>("x").expect_err("no number");
                let source = DecodeError::Syntax {
                    line: source.line(),
                    column: source.column(),
                };
                let cause = WatchErrorCause::Malformed { source };
                let error = WatchError::new("pods", Verb::Watch, cause);
                session.on_error(&error, Duration::ZERO, &mut rng);
            }
            ["page", version, ref more @ ..] => {
                let token = more.first().unwrap_or(&"");
                let is_new = more.get(1) != Some(&"-");
                let page = PageMeta {
                    resource_version: Some((*version).to_owned()),
                    continue_token: Some((*token).to_owned()),
                };
                let used = session.check(&page);
                if let Err(error) = used.and_then(|_| session.end_page(&page, is_new)) {
                    session.on_error(&error, Duration::ZERO, &mut rng);
                }
            }
            [code] => {
                let error = from_status(code.parse().expect("a code"));
                session.on_error(&error, Duration::ZERO, &mut rng);
            }
            _ => panic!("no such step: {step}"),
        }
        asks.push(say(&session.next_request()));
    }
    assert_eq!(asks.join(", "), asked, "{script}");
}

pub(super) fn say(request: &NextRequest) -> String {
    match request {
        NextRequest::StreamedList => "stream".to_owned(),
        NextRequest::List {
            token: Some(token), ..
        } => format!("list {token}"),
        NextRequest::List { paged: false, .. } => "list whole".to_owned(),
        NextRequest::List { .. } => "list".to_owned(),
        NextRequest::Version => "version".to_owned(),
        NextRequest::Watch { after } => format!("watch {after}"),
    }
}

//! Scripts of what a server does, and what it is asked in turn.

use std::{sync::Arc, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    DecodeError,
    decode::PageMeta,
    watch::{
        Answer, Backoff, Verb, WatchError,
        session::{Ask, Session},
    },
};

#[test]
fn a_server_that_streams_lists_is_asked_for_one_and_then_followed() {
    check("pictured 7", "stream, watch 7");
}

#[test]
fn a_server_that_refuses_to_stream_is_asked_for_pages_for_good() {
    check("422, page 7, 410", "stream, list, watch 7, list");
}

#[test]
fn a_streamed_list_that_comes_to_nothing_twice_is_given_up() {
    check(
        "eof, eof, page 7, 410",
        "stream, stream, list, watch 7, list",
    );
}

#[test]
fn a_server_that_is_away_says_nothing_about_streaming() {
    check(
        "403, 403, 404, 429",
        "stream, stream, stream, stream, stream",
    );
}

#[test]
fn a_watch_resumes_where_it_was_after_any_break_but_one() {
    check(
        "pictured 7, follow 9, eof, 500, 429, garbled, 410",
        "stream, watch 7, watch 9, watch 9, watch 9, watch 9, watch 9, stream",
    );
}

#[test]
fn a_line_that_stays_unreadable_ends_in_a_fresh_list() {
    check(
        "pictured 7, garbled, garbled, garbled",
        "stream, watch 7, watch 7, watch 7, stream",
    );
}

#[test]
fn a_list_goes_page_by_page_and_starts_over_in_one_piece_when_its_token_expires() {
    check(
        "422, page 7 a, page 7 b, 410, page 8",
        "stream, list, list a, list b, list whole, watch 8",
    );
}

#[test]
fn pages_of_different_versions_are_no_list() {
    check("422, page 7 a, page 8", "stream, list, list a, list");
}

#[test]
fn a_list_from_the_past_is_not_believed_until_it_insists() {
    check(
        "422, page 7, 410, page 5, page 5, page 5, page 5, page 5",
        "stream, list, watch 7, list, list, list, list, list, watch 5",
    );
}

#[test]
fn a_version_never_goes_back() {
    check(
        "pictured 7, follow 9, follow 8",
        "stream, watch 7, watch 9, watch 9",
    );
}

#[test]
fn what_is_wrong_for_good_is_only_final_before_the_first_list() {
    let mut session = session();
    let error = answered(422);
    assert!(!session.is_final(&error), "a refusal to stream");
    session.broke(&error, Duration::ZERO, &mut rng());
    assert!(session.is_final(&error), "a refusal to list");
    session.pictured("7");
    assert!(!session.is_final(&error), "it worked before");
}

#[test]
fn waits_grow_until_a_watch_has_stood_for_a_while() {
    let mut session = session();
    let mut rng = rng();
    session.pictured("1");
    let waits = [0, 0, 0, 0, 60, 0].map(|stood| {
        let wait = session.ended(Duration::from_secs(stood), &mut rng);
        // Jitter is the upper half, so the double ceiling tells the step.
        let steps = (wait.as_secs_f64() / 0.8).log2().ceil().max(-1.0);
        format!("{:.0}", steps + 0.0)
    });
    assert_eq!(waits, ["0", "1", "2", "3", "-1", "0"]);
}

#[test]
fn the_wait_that_the_server_asks_for_is_never_undercut() {
    let mut session = session();
    session.pictured("1");
    let error = WatchError::Throttled {
        resource: Arc::from("pods"),
        verb: Verb::Watch,
        retry_after: Some(Duration::from_secs(20)),
    };
    let wait = session.broke(&error, Duration::ZERO, &mut rng());
    assert!(wait > Duration::from_secs(20), "{wait:?}");
}

fn session() -> Session {
    Session::new(Arc::from("pods"), Backoff::CLIENT_GO, true)
}

fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn answered(code: u16) -> WatchError {
    let answer = Answer {
        code,
        ..Answer::default()
    };
    WatchError::answered(&Arc::from("pods"), Verb::List, answer)
}

/// Runs `script`; `asked` is what was asked at the start and after each step.
#[track_caller]
fn check(script: &str, asked: &str) {
    let mut session = session();
    let mut rng = rng();
    let mut asks = vec![say(&session.ask())];
    for step in script.split(", ") {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["pictured", version] => session.pictured(version),
            ["follow", version] => session.followed(version),
            ["eof"] => _ = session.ended(Duration::ZERO, &mut rng),
            ["garbled"] => {
                let source = serde_json::from_str::<u8>("x").expect_err("no number");
                let error = WatchError::Garbled {
                    resource: Arc::from("pods"),
                    verb: Verb::Watch,
                    source: DecodeError::Syntax {
                        line: source.line(),
                        column: source.column(),
                    },
                };
                session.broke(&error, Duration::ZERO, &mut rng);
            }
            ["page", version, ref token @ ..] => {
                let token = token.first().unwrap_or(&"");
                let page = PageMeta {
                    resource_version: Some((*version).to_owned()),
                    continue_token: Some((*token).to_owned()),
                };
                match session.check(&page) {
                    Ok(()) => _ = session.paged(&page),
                    Err(error) => _ = session.broke(&error, Duration::ZERO, &mut rng),
                }
            }
            [code] => {
                let error = answered(code.parse().expect("a code"));
                session.broke(&error, Duration::ZERO, &mut rng);
            }
            _ => panic!("no such step: {step}"),
        }
        asks.push(say(&session.ask()));
    }
    assert_eq!(asks.join(", "), asked, "{script}");
}

fn say(ask: &Ask) -> String {
    match ask {
        Ask::StreamedList => "stream".to_owned(),
        Ask::List {
            token: Some(token), ..
        } => format!("list {token}"),
        Ask::List { paged: false, .. } => "list whole".to_owned(),
        Ask::List { .. } => "list".to_owned(),
        Ask::Watch { after } => format!("watch {after}"),
    }
}

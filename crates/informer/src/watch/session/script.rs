//! Scripts of the responses of a server, and the requests that follow.

use std::time::Duration;

use rand::rngs::StdRng;

use crate::{
    decode::PageMeta,
    watch::{Verb, WatchError, WatchErrorCause},
};

mod runner;

use self::runner::{check, from_status, rng, say, session};

#[test]
fn a_streamed_list_is_followed_by_a_watch() {
    check("streamed 7", "stream, watch 7");
}

#[test]
fn after_a_refused_stream_all_lists_are_paged() {
    check("422, page 7, 410", "stream, list, watch 7, list");
}

#[test]
fn after_two_failed_streamed_lists_lists_are_paged() {
    check(
        "eof, eof, page 7, 410",
        "stream, stream, list, watch 7, list",
    );
}

#[test]
fn an_unreachable_server_does_not_disable_streaming() {
    check(
        "401, 401, 403, 403, 404, 404, 429, 429",
        "stream, stream, stream, stream, stream, stream, stream, stream, stream",
    );
}

#[test]
fn a_watch_resumes_after_each_error_except_an_expired_version() {
    check(
        "streamed 7, follow 9, eof, 500, 429, malformed, 410",
        "stream, watch 7, watch 9, watch 9, watch 9, watch 9, watch 9, stream",
    );
}

#[test]
fn a_repeatedly_malformed_line_causes_a_relist() {
    check(
        "streamed 7, malformed, malformed, malformed",
        "stream, watch 7, watch 7, watch 7, stream",
    );
}

#[test]
fn an_expired_continue_token_causes_an_unpaged_list() {
    check(
        "422, page 7 a, page 7 b, 410, page 8",
        "stream, list, list a, list b, list whole, watch 8",
    );
}

#[test]
fn a_failed_page_is_requested_again_without_the_pages_before_it() {
    check(
        "422, page 7 a, 500, 429, 403, malformed, page 7",
        "stream, list, list a, list a, list a, list a, list a, watch 7",
    );
}

#[test]
fn pages_of_different_versions_are_rejected() {
    check(
        "422, page 7 a, page 8, page 9 a, page 9",
        "stream, list, list a, list whole, list a, watch 9",
    );
}

#[test]
fn a_repeated_list_from_the_past_is_accepted() {
    check(
        "422, page 7, 410, page 5, page 5",
        "stream, list, watch 7, list, list, watch 5",
    );
    check(
        "streamed 7, 410, streamed 5, page 5, 410, streamed 6",
        "stream, watch 7, stream, list, watch 5, stream, watch 6",
    );
}

#[test]
fn each_list_from_the_past_is_repeated_once() {
    check(
        "422, page 7, 410, page 5, page 8, 410, page 6, page 9",
        "stream, list, watch 7, list, list, watch 8, list, list, watch 9",
    );
}

#[test]
fn a_streamed_list_from_the_past_is_rejected_and_does_not_disable_streaming() {
    check(
        "streamed 7, 410, streamed 5, page 8, 410, streamed 6, page 9, 410",
        "stream, watch 7, stream, list, watch 8, stream, list, watch 9, stream",
    );
}

#[test]
fn after_a_silence_the_version_of_the_server_is_requested() {
    check(
        "streamed 7, silent, version 7, silent, version 9",
        "stream, watch 7, version, watch 7, version, watch 7",
    );
    check(
        "streamed 7, silent, version 5, page 5",
        "stream, watch 7, version, list, watch 5",
    );
    check(
        "streamed 7, silent, version 5, page 8",
        "stream, watch 7, version, list, watch 8",
    );
}

#[test]
fn a_failed_version_request_does_not_prevent_a_resume() {
    check(
        "streamed 7, silent, 403, silent, version , silent, 500",
        "stream, watch 7, version, watch 7, version, watch 7, version, watch 7",
    );
}

#[test]
fn the_version_of_a_server_that_is_behind_the_watch_is_requested() {
    check(
        "streamed 7, future, version 5",
        "stream, watch 7, version, list",
    );
}

#[test]
fn short_watches_without_an_event_add_up_to_a_silence() {
    let mut session = session();
    let mut rng = rng();
    session.end_streamed_list("7").expect("the first");
    for connected in [100, 79] {
        session.on_end(Duration::from_secs(connected), &mut rng);
        assert_eq!(
            say(&session.next_request()),
            "watch 7",
            "after {connected} more seconds"
        );
    }
    session.on_progress();
    session.on_end(Duration::from_secs(100), &mut rng);
    session.on_end(Duration::from_secs(79), &mut rng);
    assert_eq!(
        say(&session.next_request()),
        "watch 7",
        "an event came in between"
    );
    session.on_end(Duration::from_secs(101), &mut rng);
    assert_eq!(say(&session.next_request()), "version");
    // The next silence is counted from its start.
    let page = PageMeta {
        resource_version: Some("7".to_owned()),
        continue_token: None,
    };
    session.on_version(&page).expect("the same version");
    session.on_end(Duration::from_secs(60), &mut rng);
    assert_eq!(say(&session.next_request()), "watch 7");
}

#[test]
fn non_numeric_versions_are_ordered_by_arrival() {
    check(
        "422, page y, follow x, 410, page a",
        "stream, list, watch y, watch x, list, watch a",
    );
}

#[test]
fn a_version_that_is_too_long_is_not_stored() {
    let long = "7".repeat(300);
    check(
        &format!("streamed 7, follow {long}, 410, eof, eof, page {long}"),
        "stream, watch 7, watch 7, stream, stream, list, list",
    );
}

#[test]
fn an_endless_list_is_an_error() {
    // The token with which the page was requested; with new objects, that is a list.
    check(
        "422, page 7 a, page 7 a, page 7 a, page 7 a -, page 7 a -",
        "stream, list, list a, list a, list a, list a, list whole",
    );
    let long = "a".repeat(20_000);
    check(&format!("422, page 7 {long}"), "stream, list, list");
    // The longest token that is followed.
    let long = "a".repeat(16 * 1024);
    check(
        &format!("422, page 7 {long}"),
        &format!("stream, list, list {long}"),
    );
    // Pages without a new object; one page in between has one.
    check(
        "422, page 7 a, page 7 b -, page 7 c, page 7 d -, page 7 e -, page 7 f -, \
         page 7 g -, page 7 h -, page 7 i -, page 7 j -, page 7 k -",
        "stream, list, list a, list b, list c, list d, list e, list f, \
         list g, list h, list i, list j, list whole",
    );
}

#[test]
fn a_version_never_decreases() {
    check(
        "streamed 7, follow 9, follow 8",
        "stream, watch 7, watch 9, watch 9",
    );
}

#[test]
fn version_0_of_an_event_is_not_where_a_watch_resumes() {
    check(
        "streamed 7, follow 0, follow 3, 410",
        "stream, watch 7, watch 7, watch 7, stream",
    );
}

/// Rows: BO-51
#[test]
fn a_refused_request_is_repeated() {
    check(
        "422, 422, 400, page 7 a, 400, page 7",
        "stream, list, list, list, list a, list whole, watch 7",
    );
    check(
        "streamed 7, 400, 422, follow 8, 400, 422, 400",
        "stream, watch 7, watch 7, watch 7, watch 8, watch 8, watch 8, stream",
    );
}

#[test]
fn consecutive_failed_streams_are_counted() {
    check(
        "eof, streamed 7, 410, eof, streamed 8, 410",
        "stream, stream, watch 7, stream, stream, watch 8, stream",
    );
}

#[test]
fn consecutive_malformed_lines_are_counted() {
    check(
        "streamed 7, malformed, malformed, follow 8, malformed, malformed",
        "stream, watch 7, watch 7, watch 7, watch 8, watch 8, watch 8",
    );
}

#[test]
fn the_backoff_grows_until_a_watch_has_been_open_for_ten_seconds() {
    let mut session = session();
    let mut rng = rng();
    session.end_streamed_list("1").expect("the first");
    let waits = [0, 0, 0, 0, 60, 0].map(|connected| {
        let wait = session.on_end(Duration::from_secs(connected), &mut rng);
        // Jitter is the upper half, so that the doubled delay shows the step of the backoff.
        let steps = (wait.as_secs_f64() / 0.8).log2().ceil().max(-1.0);
        format!("{:.0}", steps + 0.0)
    });
    assert_eq!(waits, ["0", "1", "2", "3", "-1", "0"]);
}

#[test]
fn the_backoff_after_disconnects_grows_until_a_watch_has_been_open_for_ten_seconds() {
    let mut session = session();
    let mut rng = rng();
    session.end_streamed_list("1").expect("the first");
    let waits = [0, 0, 0, 0, 0, 0, 60, 0].map(|connected| {
        session.on_error(&from_status(500), Duration::from_secs(connected), &mut rng)
    });
    assert!(waits[5] > Duration::from_secs(10), "{waits:?}");
    assert!(waits[6] < Duration::from_secs(1), "{waits:?}");
    assert!(waits[7] < Duration::from_secs(2), "{waits:?}");
}

#[test]
fn a_watch_is_healthy_after_ten_seconds() {
    let mut rng = rng();
    let broken = |stood, rng: &mut StdRng| {
        let mut session = session();
        session.end_streamed_list("1").expect("the first");
        for _ in 0..5 {
            session.on_error(&from_status(500), Duration::ZERO, rng);
        }
        let stood = Duration::from_secs(stood);
        let ended = session.on_end(stood, rng);
        for _ in 0..5 {
            session.on_error(&from_status(500), Duration::ZERO, rng);
        }
        (ended, session.on_error(&from_status(500), stood, rng))
    };
    let (ended, broke) = broken(9, &mut rng);
    let long = Duration::from_secs(10);
    assert!(ended > long && broke > long, "{ended:?} {broke:?}");
    let (ended, broke) = broken(11, &mut rng);
    assert_eq!(ended, Duration::ZERO);
    assert!(broke < Duration::from_secs(1), "{broke:?}");
}

#[test]
fn the_backoff_is_at_least_the_retry_delay_of_the_server_and_never_overflows() {
    for least in [Duration::from_secs(20), Duration::MAX] {
        let mut session = session();
        session.end_streamed_list("1").expect("the first");
        let cause = WatchErrorCause::Throttled {
            retry_after: Some(least),
        };
        let error = WatchError::new("pods", Verb::Watch, cause);
        let wait = session.on_error(&error, Duration::ZERO, &mut rng());
        assert!(wait > least || wait == Duration::MAX, "{wait:?}");
    }
}

#[test]
fn a_failed_unpaged_list_is_followed_by_a_paged_list() {
    check(
        "422, page 7 a, 410, 500, page 9 a, page 9",
        "stream, list, list a, list whole, list, list a, watch 9",
    );
}

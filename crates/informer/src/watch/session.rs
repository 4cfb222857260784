//! State machine of one list and watch: what to request next. *(pure)*
//!
//! The reflector asks for [`next_request`](Session::next_request), sends it, and reports what the
//! server did. The complete version is the newest version up to which no change was missed: the
//! watch resumes there.
//!
//! ```text
//!              ┌──────── expired, or the server went back ───┐
//!              ▼                                             │
//!  ┌──────▶ Listing ── all listed ──▶ Following ◀──┐         │
//!  │           │                          │        │         │
//!  └── broke ──┘                          └─ broke ┴─────────┘
//! ```
//!
//! A list is streamed if the server supports it, and paged otherwise. While following, only `410`
//! and a server whose history went back lead to another list. After every other error the watch
//! resumes at the last complete version.
//!
//! # Versions that go back
//!
//! A version lower than the last complete one comes from a stale replica, or from a cluster that
//! was restored from a backup. Streamed lists and the first paged list with such a version are
//! rejected. Only a paged list without `resourceVersion`, which the API server answers from
//! committed data, is accepted, and only if the response before it was stale too. After a watch
//! that ended in silence, the version of the server is requested, because a watch from a future
//! version stays silent forever.
//!
//! Source: KEP-3157 (watch-list) for the streamed list; client-go's reflector for the rule
//! that a short watch without events is a failure.

mod ends;
mod list;

use std::{sync::Arc, time::Duration};

use super::{Waits, WatchError, WatchErrorCause, is_older, is_version};

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextRequest {
    /// One page of a consistent list.
    List {
        /// The `continue` token; `None` for the first page.
        token: Option<String>,
        /// Whether to use pages.
        paged: bool,
    },
    /// A watch that begins with all objects.
    StreamedList,
    /// A watch from this version.
    Watch {
        /// The version.
        after: String,
    },
    /// A consistent list of one object, to learn the version of the server.
    Version,
}

/// The state of one list and watch.
#[derive(Debug)]
pub(crate) struct Session {
    resource: Arc<str>,
    phase: Phase,
    streaming: Streaming,
    waits: Waits,

    /// How long watches may deliver no event or bookmark before the version of the server is
    /// requested.
    silence: Duration,

    /// Failures in a row, since a watch was last connected for
    /// [`HEALTHY_AFTER`](Self::HEALTHY_AFTER).
    failures: u32,

    /// The complete version, from which the watch resumes.
    complete: Option<String>,

    /// Stale responses in a row, to requests without a version.
    stale: u32,

    /// Unusable lines or responses in a row, after the same version.
    unusable: u32,

    /// Pages in a row without a new object.
    empty_pages: u32,

    /// How long watches were connected since the last event or bookmark.
    quiet: Duration,

    /// Whether the current watch has delivered an event or bookmark.
    has_received: bool,

    /// Whether the server sends bookmarks: it has sent one since the last silence.
    bookmarks: bool,

    /// Whether to request the version of the server before the watch resumes, because the history
    /// may have gone back.
    checks_version: bool,
}

#[derive(Debug)]
enum Phase {
    /// No list is complete.
    Listing(Paging),
    /// A list is complete, and the watch follows it.
    Following,
}

#[derive(Debug)]
enum Paging {
    /// The first page is next.
    FirstPage,
    /// Another page is next.
    Within { token: String, version: String },
    /// A `continue` token has expired, or the pages contradicted each other. The next list is
    /// requested without pages, and the one after it is paged again.
    Unpaged,
}

/// Whether the server streams lists.
#[derive(Clone, Copy, Debug)]
enum Streaming {
    /// It may. The number of attempts in a row that did not end with a list.
    Tried(u32),
    /// It does not, or streaming is turned off.
    Never,
    /// It does not even watch the kind. The number of lists since a watch was refused.
    Unwatchable(u32),
}

// === impl Session ===

impl Session {
    /// A watch that was connected for this time is healthy: the next failure counts as the first.
    const HEALTHY_AFTER: Duration = Duration::from_secs(10);

    /// Streamed lists that may fail before all lists are paged. A proxy that swallows the final
    /// bookmark does so each time.
    const STREAMED_TRIES: u32 = 2;

    /// Unusable lines or responses in a row before the session stops resuming and relists.
    const UNUSABLE: u32 = 3;

    pub(crate) fn new(
        resource: Arc<str>,
        waits: Waits,
        streamed_lists: bool,
        silence: Duration,
    ) -> Self {
        Self {
            resource,
            phase: Phase::Listing(Paging::FirstPage),
            streaming: if streamed_lists {
                Streaming::Tried(0)
            } else {
                Streaming::Never
            },
            waits,
            silence,
            failures: 0,
            complete: None,
            stale: 0,
            unusable: 0,
            empty_pages: 0,
            quiet: Duration::ZERO,
            has_received: false,
            bookmarks: false,
            checks_version: false,
        }
    }

    /// Continues after a run that missed no change up to `version`.
    pub(crate) fn after(mut self, version: Option<&str>) -> Self {
        let version = version.filter(|version| is_version(version));
        self.complete = version.map(str::to_owned);
        self
    }

    /// The next request. While a response is read, the request that it answers: a streamed list that
    /// has ended counts as a watch.
    pub(crate) fn next_request(&self) -> NextRequest {
        match (&self.phase, self.streaming, &self.complete) {
            _ if self.polls() => NextRequest::List {
                token: None,
                paged: true,
            },
            (Phase::Following, _, Some(_)) if self.checks_version => NextRequest::Version,
            (Phase::Following, _, Some(complete)) => NextRequest::Watch {
                after: complete.clone(),
            },
            // A stale streamed list is not accepted; a stale paged list can be.
            (Phase::Listing(Paging::FirstPage), Streaming::Tried(_), _) if self.stale == 0 => {
                NextRequest::StreamedList
            }
            (Phase::Listing(Paging::Within { token, .. }), _, _) => NextRequest::List {
                token: Some(token.clone()),
                paged: true,
            },
            (Phase::Listing(Paging::Unpaged), _, _) => NextRequest::List {
                token: None,
                paged: false,
            },
            (Phase::Listing(Paging::FirstPage) | Phase::Following, _, _) => NextRequest::List {
                token: None,
                paged: true,
            },
        }
    }

    /// Whether the next page is the first of a new list.
    pub(crate) fn begins_list(&self) -> bool {
        self.polls()
            || matches!(
                self.phase,
                Phase::Listing(Paging::FirstPage | Paging::Unpaged)
            )
    }

    /// Whether a list is complete, and the next one follows after a wait because the kind cannot be
    /// watched: its lists have no version, or its watches are refused.
    pub(crate) fn polls(&self) -> bool {
        self.is_following()
            && (self.complete.is_none() || matches!(self.streaming, Streaming::Unwatchable(_)))
    }

    /// Whether `error` is no failure: the server does not support the request, and another request
    /// replaces it from now on.
    pub(crate) fn is_expected(&self, error: &WatchError) -> bool {
        matches!(
            (self.next_request(), &error.cause),
            (
                NextRequest::StreamedList,
                WatchErrorCause::Invalid { .. } | WatchErrorCause::NotWatchable
            ) | (NextRequest::Watch { .. }, WatchErrorCause::NotWatchable)
        )
    }

    /// Handles the end of a quiet watch by the read timeout of the client, after `connected`. The
    /// connection was healthy.
    pub(crate) fn on_read_timeout(&mut self, connected: Duration) {
        self.count_silence(connected);
        self.failures = 0;
    }

    /// Whether a list is complete and the watch follows it.
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Following)
    }

    /// Notes an event or bookmark of a watch.
    pub(crate) fn on_progress(&mut self) {
        self.has_received = true;
        self.quiet = Duration::ZERO;
    }

    /// Notes that the watch was ended because of silence, although no error shows that it is
    /// broken.
    pub(crate) fn on_silence(&mut self) {
        self.checks_version = true;
    }

    /// Notes a bookmark of a watch: this server sends them.
    pub(crate) fn on_bookmark(&mut self) {
        self.bookmarks = true;
    }

    /// Whether the server is known to send bookmarks, so that a watch without them is broken.
    pub(crate) fn expects_bookmarks(&self) -> bool {
        self.bookmarks
    }

    /// Notes that no change up to `version` was missed. The events of a streamed list come in any
    /// order and do not count. Neither does version `0`, which no object has: in a request it means
    /// any version, so that a watch that resumes there could miss deletes.
    pub(crate) fn advance_to(&mut self, version: &str) {
        if !matches!(self.phase, Phase::Following) || !is_version(version) || version == "0" {
            return;
        }
        if !self.is_stale(version) {
            // In place, because this happens for each event.
            let complete = self.complete.get_or_insert_default();
            complete.clear();
            complete.push_str(version);
            self.unusable = 0;
        }
    }

    /// The complete version: the newest one up to which no change was missed.
    pub(crate) fn complete(&self) -> Option<&str> {
        self.complete.as_deref()
    }

    /// Whether `version` is older than the newest complete version.
    pub(crate) fn is_stale(&self, version: &str) -> bool {
        let complete = self.complete.as_deref();
        complete.is_some_and(|complete| is_older(version, complete))
    }
}

#[cfg(test)]
mod script;

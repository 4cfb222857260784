//! State machine of one list and watch: what to request next. *(pure)*
//!
//! ```text
//!              ┌──────── expired, or the server went back ───┐
//!              ▼                                             │
//!  ┌──────▶ Listing ── all listed ──▶ Following ◀──┐         │
//!  │           │                          │        │         │
//!  └── broke ──┘                          └─ broke ┴─────────┘
//! ```
//!
//! A list is streamed where the server can stream lists, and comes in pages where it cannot.
//! While following, only `410` and a server that went back lead to another list; after every
//! other break the watch resumes at the last complete version.
//!
//! # Versions that go back
//!
//! A version lower than the last complete one comes from a stale replica, or from a cluster
//! that was restored from a backup. Streamed lists and the first such list in pages are
//! refused. Only a list in pages without `resourceVersion`, which the API server answers with
//! all that was committed, is believed, and only when the answer before it was from the past
//! too. After a watch that ended in silence the server is asked for its version, because a
//! watch after a version from the future stays silent for good.
//!
//! Source: KEP-3157 (watch-list) for the streamed list; client-go's reflector for the rule
//! that a short watch without events is a failure.

mod list;

use std::{sync::Arc, time::Duration};

use rand::Rng;

pub(crate) use self::list::History;
use super::{Backoff, WatchError, is_older, is_version};

/// What to send next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextRequest {
    /// One page of a consistent list.
    List {
        /// Where the page begins, unless it is the first.
        token: Option<String>,
        /// Whether the list may come in pages.
        paged: bool,
    },
    /// A watch that begins with everything there is.
    StreamedList,
    /// A watch of what comes after this version.
    Watch {
        /// The version.
        after: String,
    },
    /// A consistent list of one object, for the version of the list.
    Version,
}

/// The state of one list and watch.
#[derive(Debug)]
pub(crate) struct Session {
    resource: Arc<str>,
    phase: Phase,
    streaming: Streaming,
    backoff: Backoff,

    /// How long watches may stand without an event or bookmark before the server is asked
    /// for its version.
    silence: Duration,

    /// Breaks in a row, since a watch last stood for [`STOOD`](Self::STOOD).
    failures: u32,

    /// The newest version up to which nothing was missed.
    complete: Option<String>,

    /// Answers in a row, to requests without a version, that were older than `complete`.
    stale: u32,

    /// Lines or answers in a row, after the same version, that could not be used.
    unusable: u32,

    /// Pages in a row that held no object that the list had not shown before.
    barren: u32,

    /// How long watches stood since the last event or bookmark.
    quiet: Duration,

    /// Whether an event or bookmark came in this watch.
    has_received: bool,

    /// Whether the server has ever sent a bookmark in a watch.
    bookmarks: bool,

    /// Whether the server is asked for its version before the watch resumes.
    doubtful: bool,
}

#[derive(Debug)]
enum Phase {
    /// There is no whole list.
    Listing(Paging),
    /// There is, and it is kept current.
    Following,
}

#[derive(Debug)]
enum Paging {
    /// No page was read yet.
    FirstPage,
    /// Some were.
    Within { token: String, version: String },
    /// A token expired before: the next try is in one piece, and the one after it in pages again.
    OnePiece,
}

/// Whether the server streams lists.
#[derive(Clone, Copy, Debug)]
enum Streaming {
    /// It may; this many tries in a row did not end in a list.
    Tried(u32),
    /// It does not, or should not.
    Never,
}

// === impl Session ===

impl Session {
    /// A watch that stood this long is healthy: the next break counts as the first.
    const STOOD: Duration = Duration::from_secs(10);

    /// Streamed lists that may fail before lists are paged for good. A proxy that swallows
    /// the closing bookmark does so each time.
    const STREAMED_TRIES: u32 = 2;

    /// Unusable lines or answers in a row before the watch gives up resuming and lists anew.
    const UNUSABLE: u32 = 3;

    pub(crate) fn new(
        resource: Arc<str>,
        backoff: Backoff,
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
            backoff,
            silence,
            failures: 0,
            complete: None,
            stale: 0,
            unusable: 0,
            barren: 0,
            quiet: Duration::ZERO,
            has_received: false,
            bookmarks: false,
            doubtful: false,
        }
    }

    /// The same, after an earlier session that missed nothing up to `version`.
    pub(crate) fn after(mut self, version: Option<&str>) -> Self {
        let version = version.filter(|version| is_version(version));
        self.complete = version.map(str::to_owned);
        self
    }

    /// What to send next.
    pub(crate) fn next_request(&self) -> NextRequest {
        match (&self.phase, self.streaming, &self.complete) {
            (Phase::Following, _, Some(_)) if self.doubtful => NextRequest::Version,
            (Phase::Following, _, Some(complete)) => NextRequest::Watch {
                after: complete.clone(),
            },
            // A streamed list is not believed where it is from the past; a list in pages is.
            (Phase::Listing(Paging::FirstPage), Streaming::Tried(_), _) if self.stale == 0 => {
                NextRequest::StreamedList
            }
            (Phase::Listing(Paging::Within { token, .. }), _, _) => NextRequest::List {
                token: Some(token.clone()),
                paged: true,
            },
            (Phase::Listing(Paging::OnePiece), _, _) => NextRequest::List {
                token: None,
                paged: false,
            },
            (Phase::Listing(Paging::FirstPage) | Phase::Following, _, _) => NextRequest::List {
                token: None,
                paged: true,
            },
        }
    }

    /// Whether the page that is requested next is the first of a new list.
    pub(crate) fn begins_list(&self) -> bool {
        matches!(
            self.phase,
            Phase::Listing(Paging::FirstPage | Paging::OnePiece)
        )
    }

    /// Whether there is a whole list, which is kept current.
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Following)
    }

    /// An event or bookmark came in a watch.
    pub(crate) fn received(&mut self) {
        self.has_received = true;
        self.quiet = Duration::ZERO;
    }

    /// The watch is given up because it is silent, though nothing says that it is broken.
    pub(crate) fn fell_silent(&mut self) {
        self.doubtful = true;
    }

    /// A bookmark came in a watch: this server sends them.
    pub(crate) fn bookmarked(&mut self) {
        self.bookmarks = true;
    }

    /// Whether the server sends bookmarks, as far as is known, so that a watch without any
    /// is broken.
    pub(crate) fn expects_bookmarks(&self) -> bool {
        self.bookmarks
    }

    /// Nothing up to `version` was missed. Only what follows a whole list moves the version
    /// to resume from: the events of a streamed list come in any order.
    pub(crate) fn followed(&mut self, version: &str) {
        if !matches!(self.phase, Phase::Following) || !is_version(version) {
            return;
        }
        if !self.is_past(version) {
            // In place: this is once per event.
            let complete = self.complete.get_or_insert_default();
            complete.clear();
            complete.push_str(version);
            self.unusable = 0;
        }
    }

    /// The newest version up to which nothing was missed.
    pub(crate) fn complete(&self) -> Option<&str> {
        self.complete.as_deref()
    }

    /// Whether `version` is older than one up to which nothing was missed.
    pub(crate) fn is_past(&self, version: &str) -> bool {
        let complete = self.complete.as_deref();
        complete.is_some_and(|complete| is_older(version, complete))
    }

    /// The request, or the stream that it opened, broke after standing for `stood`. Returns
    /// how long to wait before the next.
    pub(crate) fn on_error(
        &mut self,
        error: &WatchError,
        stood: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        let unwilling = matches!(error, WatchError::Invalid { .. });
        match (self.next_request(), error) {
            (NextRequest::StreamedList, _) if unwilling => {
                self.streaming = Streaming::Never;
                return Duration::ZERO;
            }
            (NextRequest::StreamedList, error) => {
                // What keeps a list in pages from us too says nothing about streaming.
                let says_nothing = matches!(
                    error,
                    WatchError::Connection { .. }
                        | WatchError::Unauthenticated { .. }
                        | WatchError::Forbidden { .. }
                        | WatchError::UnknownKind { .. }
                        | WatchError::Throttled { .. }
                );
                if !says_nothing {
                    self.stream_failed();
                }
            }
            (NextRequest::List { token: Some(_), .. }, WatchError::Expired { .. }) => {
                self.relist(Paging::OnePiece);
            }
            (
                NextRequest::List { token: Some(_), .. },
                WatchError::Inconsistent { .. } | WatchError::Invalid { .. },
            )
            | (NextRequest::Watch { .. }, WatchError::Expired { .. }) => {
                self.relist(Paging::FirstPage);
            }
            (
                NextRequest::Watch { .. },
                WatchError::Malformed { .. }
                | WatchError::TooLong { .. }
                | WatchError::Invalid { .. },
            ) => {
                self.unusable += 1;
                if self.unusable >= Self::UNUSABLE {
                    self.unusable = 0;
                    self.relist(Paging::FirstPage);
                }
            }
            // The next list comes in pages again.
            (NextRequest::List { paged: false, .. }, _) => self.relist(Paging::FirstPage),
            (NextRequest::Watch { .. }, WatchError::Silent { .. }) => self.doubtful = true,
            (NextRequest::Watch { .. }, error) if error.is_from_the_future() => {
                self.doubtful = true
            }
            // Whatever the answer, the watch goes on: the next silence asks again.
            (NextRequest::Version, _) => self.doubtful = false,
            _ => {}
        }
        self.stood(stood);
        let wait = self.wait(stood, rng);
        // What the server names is the least wait; ours comes on top, so that a thousand
        // watches that are all to wait for one second do not all come after one second.
        let least = error.retry_after().unwrap_or_default();
        least.saturating_add(wait)
    }

    /// The stream ended cleanly after standing for `stood`. Returns how long to wait before
    /// the next; a server that hangs up at once is not asked again at once.
    pub(crate) fn on_end(&mut self, stood: Duration, rng: &mut impl Rng) -> Duration {
        if matches!(self.next_request(), NextRequest::StreamedList) {
            self.stream_failed();
        }
        self.stood(stood);
        if stood >= Self::STOOD {
            self.failures = 0;
            return Duration::ZERO;
        }
        self.wait(stood, rng)
    }

    /// A watch stood for `stood`; if it heard nothing for too long, the server is asked for
    /// its version before the next.
    fn stood(&mut self, stood: Duration) {
        if !std::mem::take(&mut self.has_received) && self.is_following() {
            self.quiet = self.quiet.saturating_add(stood);
            if self.quiet >= self.silence {
                self.quiet = Duration::ZERO;
                self.doubtful = true;
            }
        }
    }

    fn relist(&mut self, paging: Paging) {
        self.phase = Phase::Listing(paging);
        self.barren = 0;
    }

    fn stream_failed(&mut self) {
        if let Streaming::Tried(tries) = self.streaming {
            self.streaming = if tries + 1 < Self::STREAMED_TRIES {
                Streaming::Tried(tries + 1)
            } else {
                Streaming::Never
            };
        }
    }

    fn wait(&mut self, stood: Duration, rng: &mut impl Rng) -> Duration {
        if stood >= Self::STOOD {
            self.failures = 0;
        }
        let wait = self.backoff.wait(self.failures, rng);
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

#[cfg(test)]
mod script;

//! Where a watch stands, and what it asks for next. *(pure)*
//!
//! ```text
//!              ┌─────────────── expired ────────────────┐
//!              ▼                                        │
//!  ┌──────▶ Picture ── all listed ──▶ Following ◀──┐    │
//!  │           │                          │        │    │
//!  └── broke ──┘                          └─ broke ┴────┘
//! ```
//!
//! `Picture` is taken by a streamed list where the server can, and page by page where it
//! cannot. While following, only `410` asks for another picture; every other break resumes
//! where it was.
//!
//! Source: KEP-3157 (watch-list) for the streamed list; client-go's reflector for the rule
//! that a short watch without events is a failure.

use std::{sync::Arc, time::Duration};

use rand::Rng;

use super::{Backoff, Verb, WatchError, is_older};
use crate::decode::PageMeta;

/// What to send next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
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
}

/// How a watch stands.
#[derive(Debug)]
pub(crate) struct Session {
    resource: Arc<str>,
    phase: Phase,
    streaming: Streaming,
    backoff: Backoff,

    /// Breaks in a row, since a watch last stood for a while.
    failures: u32,

    /// The newest version up to which nothing was missed.
    complete: Option<String>,

    /// Lists in a row that were older than `complete`.
    stale: u32,

    /// Lines in a row, after the same version, that could not be read.
    garbled: u32,
}

#[derive(Debug)]
enum Phase {
    /// There is no whole picture.
    Picture(Paging),
    /// There is, and it is kept current.
    Following,
}

#[derive(Debug)]
enum Paging {
    /// No page was read yet.
    Fresh,
    /// Some were.
    Within { token: String, version: String },
    /// A token expired under us before: the next try is in one piece.
    OnePiece,
}

/// Whether the server streams lists.
#[derive(Clone, Copy, Debug)]
enum Streaming {
    /// Nothing is known against it, but for this many tries that came to nothing.
    Tried(u32),
    /// It does not, or should not.
    Never,
}

// === impl Session ===

impl Session {
    /// A watch that stood this long is healthy: the next break is a first one.
    const STOOD: Duration = Duration::from_secs(10);

    /// Streamed lists that may come to nothing before lists are paged for good. A proxy
    /// that swallows the closing bookmark does so each time.
    const STREAMED_TRIES: u32 = 2;

    /// Stale lists in a row before the server is believed: a cluster restored from a backup
    /// has gone back in time for good.
    const STALE_LISTS: u32 = 5;

    /// Unreadable lines in a row before resuming is given up for a fresh list.
    const GARBLED_LINES: u32 = 3;

    pub(crate) fn new(resource: Arc<str>, backoff: Backoff, streamed_lists: bool) -> Self {
        Self {
            resource,
            phase: Phase::Picture(Paging::Fresh),
            streaming: if streamed_lists {
                Streaming::Tried(0)
            } else {
                Streaming::Never
            },
            backoff,
            failures: 0,
            complete: None,
            stale: 0,
            garbled: 0,
        }
    }

    /// What to send next.
    pub(crate) fn ask(&self) -> Ask {
        match (&self.phase, self.streaming, &self.complete) {
            (Phase::Following, _, Some(complete)) => Ask::Watch {
                after: complete.clone(),
            },
            (Phase::Picture(Paging::Fresh), Streaming::Tried(_), _) => Ask::StreamedList,
            (Phase::Picture(Paging::Within { token, .. }), _, _) => Ask::List {
                token: Some(token.clone()),
                paged: true,
            },
            (Phase::Picture(Paging::OnePiece), _, _) => Ask::List {
                token: None,
                paged: false,
            },
            (Phase::Picture(Paging::Fresh) | Phase::Following, _, _) => Ask::List {
                token: None,
                paged: true,
            },
        }
    }

    /// Whether the page that is asked for next is the first of a new picture.
    pub(crate) fn begins_picture(&self) -> bool {
        matches!(self.phase, Phase::Picture(Paging::Fresh | Paging::OnePiece))
    }

    /// Whether there is a whole picture, which is kept current.
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.phase, Phase::Following)
    }

    /// Looks at a page before its items are used.
    ///
    /// # Errors
    ///
    /// [`WatchError::Inconsistent`] if it has no version, another version than the page
    /// before it, or one from before what was seen already.
    pub(crate) fn check(&mut self, page: &PageMeta) -> Result<(), WatchError> {
        let inconsistent = |why: String| WatchError::Inconsistent {
            resource: Arc::clone(&self.resource),
            verb: Verb::List,
            why,
        };
        let version = match page.resource_version.as_deref() {
            Some(version) if !version.is_empty() => version,
            _ => return Err(inconsistent("it has no resourceVersion".to_owned())),
        };
        if let Phase::Picture(Paging::Within { version: first, .. }) = &self.phase
            && first != version
        {
            return Err(inconsistent(format!(
                "its first page is of version {first} and this one of {version}"
            )));
        }
        if let Some(complete) = &self.complete
            && is_older(version, complete)
        {
            self.stale += 1;
            if self.stale < Self::STALE_LISTS {
                return Err(inconsistent(format!(
                    "it is of version {version}, and {complete} was seen before"
                )));
            }
        }
        self.stale = 0;
        Ok(())
    }

    /// A page that was checked has been used. Returns the version of the whole list if it
    /// was the last.
    pub(crate) fn paged(&mut self, page: &PageMeta) -> Option<String> {
        let version = page.resource_version.clone()?;
        if let Some(token) = page.next() {
            self.phase = Phase::Picture(Paging::Within {
                token: token.to_owned(),
                version,
            });
            return None;
        }
        self.pictured(&version);
        Some(version)
    }

    /// The picture is whole, as of `version`.
    pub(crate) fn pictured(&mut self, version: &str) {
        self.phase = Phase::Following;
        self.complete = Some(version.to_owned());
        self.garbled = 0;
        if let Streaming::Tried(tries) = &mut self.streaming {
            *tries = 0;
        }
    }

    /// Nothing up to `version` was missed. Only what follows a whole picture moves the place
    /// to resume from: the events of a streamed list come in any order.
    pub(crate) fn followed(&mut self, version: &str) {
        if !matches!(self.phase, Phase::Following) || version.is_empty() {
            return;
        }
        let back = self
            .complete
            .as_deref()
            .is_some_and(|complete| is_older(version, complete));
        if !back {
            // In place: this is once per event.
            let complete = self.complete.get_or_insert_default();
            complete.clear();
            complete.push_str(version);
            self.garbled = 0;
        }
    }

    /// The newest version up to which nothing was missed.
    pub(crate) fn complete(&self) -> Option<&str> {
        self.complete.as_deref()
    }

    /// Whether no waiting mends `error`.
    pub(crate) fn is_final(&self, error: &WatchError) -> bool {
        let never_worked = self.complete.is_none();
        let streamed = matches!(self.ask(), Ask::StreamedList);
        never_worked && !streamed && matches!(error, WatchError::Invalid { .. })
    }

    /// The request, or the stream that it opened, broke after standing for `stood`. Returns
    /// how long to wait before the next.
    pub(crate) fn broke(
        &mut self,
        error: &WatchError,
        stood: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        let unwilling = matches!(error, WatchError::Invalid { .. });
        match (self.ask(), error) {
            (Ask::StreamedList, _) if unwilling => {
                self.streaming = Streaming::Never;
                return Duration::ZERO;
            }
            (Ask::StreamedList, error) => {
                // What keeps a list from us too says nothing about streaming.
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
            (Ask::List { token: Some(_), .. }, WatchError::Expired { .. }) => {
                self.phase = Phase::Picture(Paging::OnePiece);
            }
            (Ask::List { token: Some(_), .. }, WatchError::Inconsistent { .. })
            | (Ask::Watch { .. }, WatchError::Expired { .. }) => {
                self.phase = Phase::Picture(Paging::Fresh);
            }
            (Ask::Watch { .. }, WatchError::Garbled { .. } | WatchError::TooLong { .. }) => {
                self.garbled += 1;
                if self.garbled >= Self::GARBLED_LINES {
                    self.garbled = 0;
                    self.phase = Phase::Picture(Paging::Fresh);
                }
            }
            _ => {}
        }
        let wait = self.wait(stood, rng);
        // The server's word is the least wait; ours comes on top, so that a thousand watches
        // told "in one second" do not all come in one second.
        error.retry_after().map_or(wait, |least| least + wait)
    }

    /// The stream ended cleanly after standing for `stood`. Returns how long to wait before
    /// the next; a server that hangs up at once is not asked again at once.
    pub(crate) fn ended(&mut self, stood: Duration, rng: &mut impl Rng) -> Duration {
        if matches!(self.ask(), Ask::StreamedList) {
            self.stream_failed();
        }
        if stood >= Self::STOOD {
            self.failures = 0;
            return Duration::ZERO;
        }
        self.wait(stood, rng)
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

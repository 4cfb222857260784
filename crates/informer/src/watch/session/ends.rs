//! The end of a request: the next request, and the wait before it. *(pure)*

use std::time::Duration;

use rand::Rng;

use super::{NextRequest, Paging, Phase, Session, Streaming};
use crate::{WatchError, WatchErrorCause};

// === impl Session ===

impl Session {
    /// Handles an error of a request or stream that was connected for `connected`. Returns the wait
    /// before the next request.
    pub(crate) fn on_error(
        &mut self,
        error: &WatchError,
        connected: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        let is_rejected = matches!(error.cause, WatchErrorCause::Invalid { .. });
        match (self.next_request(), &error.cause) {
            (
                NextRequest::StreamedList | NextRequest::Watch { .. },
                WatchErrorCause::NotWatchable,
            ) => {
                self.streaming = Streaming::Unwatchable(0);
                // A watch follows a list, which is complete.
                self.relist(Paging::FirstPage);
                return Duration::ZERO;
            }
            (NextRequest::StreamedList, _) if is_rejected => {
                self.streaming = Streaming::Never;
                return Duration::ZERO;
            }
            (NextRequest::StreamedList, cause) => {
                // An error that also affects paged lists shows nothing about streaming. A stream
                // that was open and broke does: a proxy may end each response after a few seconds.
                let affects_all_lists = match cause {
                    WatchErrorCause::Connection { .. } => connected.is_zero(),
                    WatchErrorCause::Unauthenticated { .. }
                    | WatchErrorCause::Forbidden { .. }
                    | WatchErrorCause::UnknownKind
                    | WatchErrorCause::NotKubernetes { .. }
                    | WatchErrorCause::Throttled { .. } => true,
                    _ => false,
                };
                if !affects_all_lists {
                    self.stream_failed();
                }
            }
            (
                NextRequest::List { token: Some(_), .. },
                WatchErrorCause::Expired { .. }
                | WatchErrorCause::Inconsistent { .. }
                | WatchErrorCause::Invalid { .. },
            ) => self.relist(Paging::Unpaged),
            (NextRequest::Watch { .. }, WatchErrorCause::Expired { .. }) => {
                self.relist(Paging::FirstPage);
            }
            (
                NextRequest::Watch { .. },
                WatchErrorCause::Malformed { .. }
                | WatchErrorCause::TooLong { .. }
                | WatchErrorCause::Invalid { .. },
            ) => {
                self.unusable += 1;
                if self.unusable >= Self::UNUSABLE {
                    self.unusable = 0;
                    self.relist(Paging::FirstPage);
                }
            }
            // The next list is paged again.
            (NextRequest::List { paged: false, .. }, _) => self.relist(Paging::FirstPage),
            (NextRequest::Watch { .. }, WatchErrorCause::Silent { .. }) => {
                self.checks_version = true;
                // Until the next one: another server may respond now, or a proxy that does not
                // pass them on.
                self.bookmarks = false;
            }
            (NextRequest::Watch { .. }, _) if error.is_from_the_future() => {
                self.checks_version = true;
            }
            // The watch continues whatever the response is. The next silence requests the version
            // again.
            (NextRequest::Version, _) => self.checks_version = false,
            _ => {}
        }
        self.count_silence(connected);
        let wait = self.wait(connected, rng);
        // The wait that the server demands is a minimum. The backoff is added, so that many watches
        // with the same minimum do not retry at the same time.
        let least = error.retry_after().unwrap_or_default();
        least.saturating_add(wait)
    }

    /// Handles the regular end of a stream that was connected for `connected`. Returns the wait
    /// before the next request: a stream that ends immediately is not reopened immediately.
    pub(crate) fn on_end(&mut self, connected: Duration, rng: &mut impl Rng) -> Duration {
        if matches!(self.next_request(), NextRequest::StreamedList) {
            self.stream_failed();
        }
        self.count_silence(connected);
        if connected >= Self::HEALTHY_AFTER {
            self.failures = 0;
            return Duration::ZERO;
        }
        self.wait(connected, rng)
    }

    /// Counts the silence of a watch that was connected for `connected`. After too much silence the
    /// version of the server is requested.
    pub(super) fn count_silence(&mut self, connected: Duration) {
        if !std::mem::take(&mut self.has_received) && self.is_following() {
            self.quiet = self.quiet.saturating_add(connected);
            if self.quiet >= self.silence {
                self.quiet = Duration::ZERO;
                self.checks_version = true;
            }
        }
    }

    pub(super) fn relist(&mut self, paging: Paging) {
        self.phase = Phase::Listing(paging);
        self.empty_pages = 0;
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

    fn wait(&mut self, connected: Duration, rng: &mut impl Rng) -> Duration {
        if connected >= Self::HEALTHY_AFTER {
            self.failures = 0;
        }
        let wait = self.waits.wait(self.failures, rng);
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

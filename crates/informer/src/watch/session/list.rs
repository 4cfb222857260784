//! The lists that a session accepts, and when a list is complete. *(pure)*

use std::{sync::Arc, time::Duration};

use super::{Paging, Phase, Session, Streaming};
use crate::{
    HistoryWentBack, Verb, WatchError, WatchErrorCause, decode::PageMeta, message::one_line,
    watch::is_version,
};

// === impl Session ===

impl Session {
    /// Stale responses in a row, of which the last is accepted if it is a paged list. One may come
    /// from a proxy's cache; a restored cluster sends only stale ones.
    const STALE_ANSWERS: u32 = 2;

    /// Pages in a row without a new object before a list counts as endless. A page may be empty if
    /// a selector is applied after the objects were read.
    const MAX_EMPTY_PAGES: u32 = 8;

    /// A page that repeats the `continue` token of its request counts as this number of pages. Not
    /// as all, because a server may keep its position under one token.
    const REPEATED: u32 = 4;

    /// The API server's tokens have less than 1,000 bytes; servers refuse longer URLs.
    const LONGEST_TOKEN: usize = 16 * 1024;

    /// Lists of a kind that cannot be watched, after which a watch is tried again: a proxy may have
    /// refused it by mistake. Five minutes with the default interval.
    const POLLS: u32 = 10;

    /// Checks a page before its items are used. Returns what shows that the history of the server went
    /// back: then earlier versions are obsolete.
    ///
    /// # Errors
    ///
    /// [`WatchErrorCause::Inconsistent`] if it has no version, another version than the page before it,
    /// or a stale version that is not accepted.
    pub(crate) fn check(&mut self, page: &PageMeta) -> Result<Option<HistoryWentBack>, WatchError> {
        let version = self.version(page)?;
        if let Phase::Listing(Paging::Within { version: first, .. }) = &self.phase {
            if first == version {
                return Ok(None);
            }
            let (first, version) = (one_line(first), one_line(version));
            return Err(self.inconsistent(
                Verb::List,
                format!("its first page has version {first} and this page has {version}"),
            ));
        }
        if !self.is_stale(version) {
            self.stale = 0;
            return Ok(None);
        }
        self.stale += 1;
        if self.stale < Self::STALE_ANSWERS {
            return Err(self.stale_error(Verb::List, version));
        }
        self.stale = 0;
        let seen = self.complete.replace(version.to_owned());
        Ok(Some(HistoryWentBack {
            seen: one_line(&seen.unwrap_or_default()).into_owned(),
            listed: one_line(version).into_owned(),
        }))
    }

    /// Handles a page whose items were used. `is_new` says whether it had a new object. Returns the
    /// version of the list after the last page.
    ///
    /// # Errors
    ///
    /// [`WatchErrorCause::Inconsistent`] if the list is endless.
    pub(crate) fn end_page(
        &mut self,
        page: &PageMeta,
        is_new: bool,
    ) -> Result<Option<String>, WatchError> {
        let version = self.version(page)?.to_owned();
        let Some(token) = page.next() else {
            self.complete_list(&version);
            return Ok(Some(version));
        };
        if token.len() > Self::LONGEST_TOKEN {
            let longest = Self::LONGEST_TOKEN;
            return Err(
                self.endless_error(&format!("its `continue` is longer than {longest} bytes"))
            );
        }
        let repeats = matches!(
            &self.phase,
            Phase::Listing(Paging::Within { token: before, .. }) if before == token
        );
        let empty_pages = if repeats { Self::REPEATED } else { 1 };
        self.empty_pages = if is_new {
            0
        } else {
            self.empty_pages + empty_pages
        };
        if self.empty_pages >= Self::MAX_EMPTY_PAGES {
            return Err(self.endless_error(if repeats {
                "its pages repeat their `continue` and show no new object"
            } else {
                "its pages show no new object"
            }));
        }
        self.phase = Phase::Listing(Paging::Within {
            token: token.to_owned(),
            version,
        });
        Ok(None)
    }

    /// Ends a streamed list with a bookmark of `version`.
    ///
    /// # Errors
    ///
    /// [`WatchErrorCause::Inconsistent`] if the version is stale.
    pub(crate) fn end_streamed_list(&mut self, version: &str) -> Result<(), WatchError> {
        if !is_version(version) {
            return Err(self.invalid_version(Verb::Watch));
        }
        if self.is_stale(version) {
            self.stale += 1;
            return Err(self.stale_error(Verb::Watch, version));
        }
        self.complete_list(version);
        Ok(())
    }

    /// Rejects a streamed list that shows more stale objects than can be held until it ends.
    pub(crate) fn refuse_stream(&mut self) -> WatchError {
        self.stale += 1;
        self.inconsistent(
            Verb::Watch,
            "it shows objects that were deleted at an earlier version of the watch".to_owned(),
        )
    }

    /// Rejects a list that repeats `count` objects in a row.
    pub(crate) fn repeats_objects(&self, count: usize) -> WatchError {
        self.endless_error(&format!("{count} objects in a row were shown before"))
    }

    /// Handles the version of the server, from `page`, before the watch resumes.
    ///
    /// # Errors
    ///
    /// [`WatchErrorCause::Inconsistent`] if the page has no version, or a stale one, which leads to a
    /// relist.
    pub(crate) fn on_version(&mut self, page: &PageMeta) -> Result<(), WatchError> {
        self.checks_version = false;
        let version = self.version(page)?;
        if !self.is_stale(version) {
            return Ok(());
        }
        self.stale = 1;
        self.phase = Phase::Listing(Paging::FirstPage);
        Err(self.stale_error(Verb::List, version))
    }

    /// Completes a list with `version`, which is empty if the kind has none.
    fn complete_list(&mut self, version: &str) {
        self.phase = Phase::Following;
        self.complete = Some(version.to_owned()).filter(|version| !version.is_empty());
        self.unusable = 0;
        self.empty_pages = 0;
        self.quiet = Duration::ZERO;
        self.checks_version = false;
        match &mut self.streaming {
            Streaming::Tried(tries) => *tries = 0,
            Streaming::Unwatchable(lists) if *lists < Self::POLLS => *lists += 1,
            Streaming::Unwatchable(_) | Streaming::Never => self.streaming = Streaming::Never,
        }
    }

    /// The version of a list. Empty if it has none and no list had one before: then the kind has no
    /// versions, as that of a metrics server.
    fn version<'p>(&self, page: &'p PageMeta) -> Result<&'p str, WatchError> {
        match page.resource_version.as_deref() {
            None | Some("") if self.complete.is_none() => Ok(""),
            None | Some("") => {
                Err(self.inconsistent(Verb::List, "it has no resourceVersion".to_owned()))
            }
            Some(version) if !is_version(version) => Err(self.invalid_version(Verb::List)),
            Some(version) => Ok(version),
        }
    }

    fn invalid_version(&self, verb: Verb) -> WatchError {
        let why = "its resourceVersion is too long, or has characters that no version has";
        self.inconsistent(verb, why.to_owned())
    }

    fn endless_error(&self, why: &str) -> WatchError {
        self.inconsistent(Verb::List, format!("it is endless: {why}"))
    }

    fn stale_error(&self, verb: Verb, version: &str) -> WatchError {
        let complete = one_line(self.complete.as_deref().unwrap_or_default());
        let version = one_line(version);
        self.inconsistent(
            verb,
            format!("its version {version} is older than {complete}, which was seen before"),
        )
    }

    fn inconsistent(&self, verb: Verb, why: String) -> WatchError {
        let cause = WatchErrorCause::Inconsistent { why };
        WatchError::new(Arc::clone(&self.resource), verb, cause)
    }
}

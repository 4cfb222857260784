//! The external tracker, in memory.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// The tracker answered with this HTTP code.
#[derive(Debug, thiserror::Error)]
#[error("the tracker answered with {0}")]
pub(crate) struct TrackerError(pub(crate) u16);

pub(crate) type Tracker = Arc<Mutex<Tickets>>;

#[derive(Default)]
pub(crate) struct Tickets {
    /// The titles of the open tickets, by their ids.
    pub(crate) titles: BTreeMap<String, String>,
    /// The number of open issues of each team.
    pub(crate) teams: BTreeMap<String, usize>,
    /// Whether each request is answered with 503.
    pub(crate) is_down: bool,
}

impl Tickets {
    /// Sets the title of a ticket, or closes it without one. Refuses an empty title.
    pub(crate) fn put(&mut self, id: &str, title: Option<&str>) -> Result<(), TrackerError> {
        match title {
            _ if self.is_down => return Err(TrackerError(503)),
            Some("") => return Err(TrackerError(422)),
            Some(title) => drop(self.titles.insert(id.to_owned(), title.to_owned())),
            None => drop(self.titles.remove(id)),
        }
        Ok(())
    }
}

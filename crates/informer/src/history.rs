//! `HistoryWentBack`: what showed that the history of an API server went back.

/// What showed that the history of the API server went back, for example because a cluster was
/// restored from a backup.
///
/// The store of the informer then becomes equal to the list of the server, and the differences are
/// delivered as events. What a program remembers of earlier states, such as their versions, the
/// results of its own writes, and which clean-ups have succeeded, may never have happened on this
/// server: end the process, and start it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a list has version {listed}, and version {seen} was seen before")]
pub struct HistoryWentBack {
    /// The newest version that was seen before.
    pub seen: String,
    /// The lower version of the list that was accepted.
    pub listed: String,
}

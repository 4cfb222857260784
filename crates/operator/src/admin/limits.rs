//! Limits of the clients of an admin server.

use std::{num::NonZeroUsize, time::Duration};

/// The limits of an [`AdminServer`](super::AdminServer): what one client, and all of them, may use.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_operator::{AdminLimits, AdminServer};
///
/// let limits = AdminLimits {
///     read_timeout: Duration::from_secs(2),
///     ..AdminLimits::default()
/// };
/// let server = AdminServer::new(([127, 0, 0, 1], 0)).limits(limits);
/// # drop(server);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminLimits {
    /// How long the head of a request may take to arrive, from when the connection is opened or
    /// the last answer was sent; and then its body. The default is 5 s.
    pub read_timeout: Duration,
    /// How long the client may read nothing while an answer is sent. The default is 5 s.
    pub write_timeout: Duration,
    /// How long a connection may be open. Then it answers the request in progress, for up to the
    /// write timeout, and is closed. The default is 60 s.
    pub connection_timeout: Duration,
    /// Connections in all, for each port. Beyond it a new connection replaces the oldest one of
    /// the client that has the most. The default is 512.
    pub connections: NonZeroUsize,
    /// Connections of one IP address, for each port. Beyond it a new connection replaces the
    /// client's oldest one. The default is 256.
    pub connections_per_client: NonZeroUsize,
}

// === impl AdminLimits ===

impl AdminLimits {
    /// A kubelet's probe and a scrape send their request at once.
    pub const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(5);

    /// A scrape that makes no progress for this long has failed.
    pub const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Prometheus connects again; it scrapes once a minute by default.
    pub const DEFAULT_CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

    /// Far more than all legitimate clients need: an idle connection costs some 20 KiB, and a client
    /// that is left waiting costs less than one that connects again and again.
    pub const DEFAULT_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(512).expect("not zero");

    /// Half of all, so that one client cannot use them all.
    pub const DEFAULT_CONNECTIONS_PER_CLIENT: NonZeroUsize =
        NonZeroUsize::new(256).expect("not zero");
}

impl Default for AdminLimits {
    fn default() -> Self {
        Self {
            read_timeout: Self::DEFAULT_READ_TIMEOUT,
            write_timeout: Self::DEFAULT_WRITE_TIMEOUT,
            connection_timeout: Self::DEFAULT_CONNECTION_TIMEOUT,
            connections: Self::DEFAULT_CONNECTIONS,
            connections_per_client: Self::DEFAULT_CONNECTIONS_PER_CLIENT,
        }
    }
}

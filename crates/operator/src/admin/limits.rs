//! Limits for the clients of an admin server.

use std::{num::NonZeroUsize, time::Duration};

/// Limits of the connections and requests of an [`AdminServer`](super::AdminServer).
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
    /// The timeout for reading the head of a request, from the start of the connection or the end
    /// of the previous response; and the timeout for reading its body. The default is 5 s.
    pub read_timeout: Duration,
    /// The longest time without progress while a response is sent. The default is 5 s.
    pub write_timeout: Duration,
    /// The longest time that a connection is open. After it, the server completes the request in
    /// progress, within the write timeout, and closes the connection. The default is 60 s.
    pub connection_timeout: Duration,
    /// The most connections of each port. Above this limit, a new connection replaces the oldest
    /// one of the client with the most connections. The default is 512, and at most a quarter of the
    /// file descriptors that the process can open.
    pub connections: NonZeroUsize,
    /// The most connections of one IP address to each port. Above this limit, a new connection
    /// replaces the oldest one of the same client. The default is 256.
    pub connections_per_client: NonZeroUsize,
    /// The largest body of a request to a [`Route`](super::Route), in bytes. A request with a larger
    /// one gets 413. The default is 1 MiB.
    pub body: NonZeroUsize,
}

// === impl AdminLimits ===

impl AdminLimits {
    /// The default of `read_timeout`: a kubelet's probe and a scrape send their request immediately.
    pub(crate) const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default of `write_timeout`: a scrape that makes no progress for this long has failed.
    pub(crate) const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

    /// The default of `connection_timeout`: Prometheus reconnects, and by default scrapes once a
    /// minute.
    pub(crate) const DEFAULT_CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

    /// The default of `connections`: far more than all legitimate clients need. An idle connection
    /// costs about 20 KiB, which is less than a client that reconnects again and again.
    pub(crate) const DEFAULT_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(512).expect("not zero");

    /// The default of `connections_per_client`: half of all connections, so that one client cannot
    /// use all of them.
    pub(crate) const DEFAULT_CONNECTIONS_PER_CLIENT: NonZeroUsize =
        NonZeroUsize::new(256).expect("not zero");

    /// The time for the requests to webhooks that are in progress when the controllers have ended: the
    /// default time limit of a handler.
    pub(crate) const WEBHOOKS_END: Duration = Duration::from_secs(9);

    /// The default of `body`: more than a form or a small file.
    pub(crate) const DEFAULT_BODY: NonZeroUsize = NonZeroUsize::new(1024 * 1024).expect("not zero");
}

impl Default for AdminLimits {
    fn default() -> Self {
        Self {
            read_timeout: Self::DEFAULT_READ_TIMEOUT,
            write_timeout: Self::DEFAULT_WRITE_TIMEOUT,
            connection_timeout: Self::DEFAULT_CONNECTION_TIMEOUT,
            connections: Self::DEFAULT_CONNECTIONS,
            connections_per_client: Self::DEFAULT_CONNECTIONS_PER_CLIENT,
            body: Self::DEFAULT_BODY,
        }
    }
}

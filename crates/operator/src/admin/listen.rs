//! The address or listener of an admin server.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

/// Where an [`AdminServer`](super::AdminServer) listens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listen {
    /// An address, which is bound when the operator runs.
    Address(SocketAddr),
    /// A listener that is bound already.
    Listener(TcpListener),
}

// === impl Listen ===

impl Listen {
    /// This port of all addresses of the machine, IPv6 and IPv4: `[::]`, or `0.0.0.0` where the operating
    /// system has no IPv6. Where `[::]` has no IPv4, as on Windows or with `net.ipv6.bindv6only` of Linux,
    /// use the addresses.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_operator::{AdminServer, Listen};
    ///
    /// let server = AdminServer::new(Listen::port(8080));
    /// assert!(format!("{server:?}").contains("[::]:8080"));
    /// ```
    #[must_use]
    pub fn port(port: u16) -> Self {
        Self::Address((Ipv6Addr::UNSPECIFIED, port).into())
    }
}

/// Binds `address`. In place of `[::]`, it is `0.0.0.0` where the operating system has no IPv6.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).or_else(|error| {
        let is_busy = error.kind() == io::ErrorKind::AddrInUse;
        if is_busy || address.ip() != Ipv6Addr::UNSPECIFIED {
            return Err(error);
        }
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
    })
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<([u8; 4], u16)> for Listen {
    fn from(address: ([u8; 4], u16)) -> Self {
        Self::Address(address.into())
    }
}

impl From<TcpListener> for Listen {
    fn from(listener: TcpListener) -> Self {
        Self::Listener(listener)
    }
}

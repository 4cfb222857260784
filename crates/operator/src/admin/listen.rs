//! The address or listener of an admin server.

use std::net::{SocketAddr, TcpListener};

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

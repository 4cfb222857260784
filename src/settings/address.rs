//! Addresses to listen on, as text, such as `127.0.0.1:8080` or `:8080`.

use std::net::{Ipv6Addr, SocketAddr};

use serde::{Deserialize, Deserializer, de};

/// Parses an address. Without an IP address it is that of all addresses.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    if let Some(port) = port {
        return Ok((Ipv6Addr::UNSPECIFIED, port).into());
    }
    text.parse().map_err(|error| {
        format!(
            "{error}; write an IP address and a port, such as `127.0.0.1:8080`, or only `:8080` for all \
             addresses; to serve nothing, leave the setting out"
        )
    })
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse(&text))
        .transpose()
        .map_err(de::Error::custom)
}

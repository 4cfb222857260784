//! The clients that see the reasons on a health page.

use std::net::IpAddr;

/// Which clients see the lines of a health page, with the names of checks and the reasons of failures,
/// and the page `/debug/windlass`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthDetails {
    /// Clients with a loopback address: `kubectl port-forward`, and containers of the same pod. A
    /// proxy in the same pod also has a loopback address, for all of its clients. The default.
    #[default]
    Loopback,
    /// All clients of the port.
    All,
    /// No client.
    None,
}

// === impl HealthDetails ===

impl HealthDetails {
    /// Whether a client with this address sees the lines of a health page.
    pub(super) fn are_for(self, client: IpAddr) -> bool {
        match self {
            Self::Loopback => client.to_canonical().is_loopback(),
            Self::All => true,
            Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HealthDetails;

    #[test]
    fn by_default_only_clients_on_this_machine_see_reasons() {
        for (client, on_this_machine) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.7", false),
            ("::ffff:10.0.0.7", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
        ] {
            let ip = client.parse().expect("an address");
            let shown = HealthDetails::default().are_for(ip);
            assert_eq!(shown, on_this_machine, "{client}");
            assert!(HealthDetails::All.are_for(ip));
            assert!(!HealthDetails::None.are_for(ip));
        }
    }
}

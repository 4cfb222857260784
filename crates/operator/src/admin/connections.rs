//! The open connections of a listener, and which one a new connection replaces. *(pure)*
//!
//! A new connection is always accepted, so that a probe is answered even if clients hold many
//! connections. Above the limit per client it replaces the oldest connection of the same client;
//! above the total limit it replaces the oldest connection of the client with the most connections.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    net::IpAddr,
    num::NonZeroUsize,
};

/// Open connections by client, each client's oldest first.
pub(super) struct ConnectionTable<C> {
    total_limit: NonZeroUsize,
    client_limit: NonZeroUsize,
    clients: HashMap<IpAddr, VecDeque<(u64, C)>>,
    client_of: HashMap<C, IpAddr>,
    /// The number of connections that were opened so far. Orders connections by age.
    opened: u64,
}

// === impl ConnectionTable ===

impl<C: Copy + Eq + Hash> ConnectionTable<C> {
    pub(super) fn new(total_limit: NonZeroUsize, client_limit: NonZeroUsize) -> Self {
        Self {
            total_limit,
            client_limit,
            clients: HashMap::new(),
            client_of: HashMap::new(),
            opened: 0,
        }
    }

    /// Adds a connection. Returns the connection that it replaces, which the caller must close.
    pub(super) fn open(&mut self, client: IpAddr, connection: C) -> Option<C> {
        let connections = self.clients.entry(client).or_default();
        connections.push_back((self.opened, connection));
        self.opened = self.opened.wrapping_add(1);
        self.client_of.insert(connection, client);
        let replaced = if connections.len() > self.client_limit.get() {
            connections.front().copied()
        } else if self.client_of.len() > self.total_limit.get() {
            let most = (self.clients.values())
                .max_by_key(|it| (it.len(), it.front().map(|(age, _)| u64::MAX - age)));
            most.and_then(|it| it.front().copied())
        } else {
            None
        };
        let (_, replaced) = replaced?;
        self.close(replaced);
        Some(replaced)
    }

    /// Removes a connection, if the table contains it.
    pub(super) fn close(&mut self, connection: C) {
        let Some(client) = self.client_of.remove(&connection) else {
            return;
        };
        if let Some(connections) = self.clients.get_mut(&client) {
            connections.retain(|(_, it)| *it != connection);
            if connections.is_empty() {
                self.clients.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_the_limits_no_connection_is_replaced() {
        check("a1 b2 a3 c4", "");
    }

    #[test]
    fn above_the_client_limit_the_oldest_connection_of_the_client_is_replaced() {
        check("b1 a2 a3 a4 a5", "2");
        check("b1 a2 a3 a4 -3 a5 a6", "2");
    }

    #[test]
    fn above_the_total_limit_the_oldest_connection_of_the_largest_client_is_replaced() {
        check("b1 a2 a3 c4 c5 d6", "2");
        check("b1 a2 c3 d4 e5 f6", "1");
    }

    #[test]
    fn a_closed_connection_does_not_count() {
        check("a1 a2 a3 b4 b5 -1 c6", "");
        check("a1 -1 -1 -7 a2 a3 a4", "");
    }

    /// Opens `a1`: number 1 of client a; closes `-1`. At most five in all, and three a client.
    #[track_caller]
    fn check(script: &str, replaced: &str) {
        let limit = |limit| NonZeroUsize::new(limit).expect("not zero");
        let mut table = ConnectionTable::new(limit(5), limit(3));
        let mut gone = Vec::new();
        for step in script.split(' ') {
            let (client, number) = step.split_at(1);
            let number: u32 = number.parse().expect("a number");
            if client == "-" {
                table.close(number);
            } else {
                let client = IpAddr::from([10, 0, 0, client.as_bytes()[0]]);
                gone.extend(table.open(client, number).map(|it| it.to_string()));
            }
        }
        assert_eq!(gone.join(" "), replaced, "{script}");
        let open: usize = table.clients.values().map(VecDeque::len).sum();
        assert_eq!(open, table.client_of.len());
    }
}

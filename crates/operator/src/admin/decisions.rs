//! Decisions of the API server about tokens: which are cached, and which token is reviewed now. *(pure)*
//!
//! A client without a valid token can invent any number of tokens. Their decisions are cached apart
//! from those of allowed tokens, and their reviews share one rate limit, of which one address uses
//! at most a tenth. A token that was allowed before has a limit of its own, and so has the address of
//! a client that had an allowed token: its token is replaced from time to time, and the new one is
//! unknown at first.

use std::{collections::VecDeque, net::IpAddr, time::Duration};

use tokio::time::Instant;

/// How long a decision is valid. The same time as in controller-runtime.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The most entries of each of the four caches. Far more than the clients that scrape one process.
const MAX_ENTRIES: usize = 64;

/// The shortest time between two reviews that share a rate limit, so that a client with invented
/// tokens causes little load on the API server.
const PACE: Duration = Duration::from_millis(100);

/// The shortest time between two such reviews for one address. So a client with invented tokens
/// leaves reviews for Prometheus, whose address is not known before its first allowed scrape.
const PACE_OF_ADDRESS: Duration = Duration::from_secs(1);

/// The SHA-256 of a token with the method and the path, so that no token is kept in memory.
pub(super) type TokenHash = [u8; 32];

/// A decision of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// RBAC does not allow it.
    Forbidden,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Use this decision.
    Decided(Decision),
    /// Ask the API server, and [`record`](Decisions::record) its decision.
    Review,
    /// Refuse the request: too many tokens were reviewed just now.
    TooMany,
}

/// The cached decisions, and the times of the last reviews.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// The tokens that were allowed when they were last reviewed, also those whose decision is not
    /// valid any more.
    allowed: Cache<TokenHash, Allowed>,
    refused: Cache<TokenHash, (Instant, Decision)>,
    /// The addresses of clients that had an allowed token, with the last review of another token.
    clients: Cache<IpAddr, Option<Instant>>,
    /// The addresses of other clients, with the last review of each.
    other_clients: Cache<IpAddr, Instant>,
    /// The last review for any of them.
    reviewed: Option<Instant>,
}

#[derive(Debug)]
struct Allowed {
    decided: Instant,
    reviewed: Option<Instant>,
}

/// At most [`MAX_ENTRIES`] entries: a new entry replaces the oldest one.
#[derive(Debug)]
struct Cache<K, V>(VecDeque<(K, V)>);

// === impl Decisions ===

impl Decisions {
    /// Decides about a request at `now`. [`Next::Review`] counts as a review.
    pub(super) fn next(&mut self, token: &TokenHash, client: IpAddr, now: Instant) -> Next {
        let is_valid = |decided| is_within(MAX_AGE, decided, now);
        let last = if let Some(allowed) = self.allowed.get(token) {
            if is_valid(allowed.decided) {
                return Next::Decided(Decision::Allowed);
            }
            &mut allowed.reviewed
        } else {
            if let Some((decided, decision)) = self.refused.get(token)
                && is_valid(*decided)
            {
                return Next::Decided(*decision);
            }
            match self.clients.get(&client) {
                Some(last) => last,
                None => return self.next_of_other_client(client, now),
            }
        };
        if last.is_some_and(|last| is_within(PACE, last, now)) {
            return Next::TooMany;
        }
        *last = Some(now);
        Next::Review
    }

    /// Decides about an unknown token of an address that had no allowed token.
    fn next_of_other_client(&mut self, client: IpAddr, now: Instant) -> Next {
        let last = self.other_clients.get(&client).copied();
        if last.is_some_and(|last| is_within(PACE_OF_ADDRESS, last, now))
            || self.reviewed.is_some_and(|last| is_within(PACE, last, now))
        {
            return Next::TooMany;
        }
        self.other_clients.insert(client, now);
        self.reviewed = Some(now);
        Next::Review
    }

    /// Records a decision that was made at `now`.
    pub(super) fn record(
        &mut self,
        token: TokenHash,
        client: IpAddr,
        decision: Decision,
        now: Instant,
    ) {
        self.allowed.remove(&token);
        if decision == Decision::Allowed {
            let allowed = Allowed {
                decided: now,
                reviewed: None,
            };
            self.allowed.insert(token, allowed);
            self.clients.insert(client, None);
        } else {
            self.refused.insert(token, (now, decision));
        }
    }
}

/// Whether less than `period` has passed since `earlier`.
fn is_within(period: Duration, earlier: Instant, now: Instant) -> bool {
    now.saturating_duration_since(earlier) < period
}

// === impl Cache ===

impl<K: PartialEq, V> Cache<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.0.iter_mut().find(|(it, _)| it == key);
        entry.map(|(_, value)| value)
    }

    fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back((key, value));
    }

    fn remove(&mut self, key: &K) {
        self.0.retain(|(it, _)| it != key);
    }
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use tokio::time::Instant;

    use super::{
        Decision, Decisions, MAX_AGE, MAX_ENTRIES, Next, PACE, PACE_OF_ADDRESS, TokenHash,
    };

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const TICK: Duration = Duration::from_nanos(1);

    fn token(number: usize) -> TokenHash {
        let mut hash = TokenHash::default();
        hash[..8].copy_from_slice(&number.to_be_bytes());
        hash
    }

    #[test]
    fn a_decision_is_valid_for_a_minute() {
        for decision in [Decision::Allowed, Decision::Forbidden] {
            let (mut decisions, began) = (Decisions::default(), Instant::now());
            decisions.record(token(1), CLIENT, decision, began);
            let mut next = |after| decisions.next(&token(1), CLIENT, began + after);
            assert_eq!(next(MAX_AGE.saturating_sub(TICK)), Next::Decided(decision));
            assert_eq!(next(MAX_AGE), Next::Review);
        }
    }

    #[test]
    fn unknown_tokens_of_all_clients_are_reviewed_ten_times_a_second() {
        let (mut decisions, began) = (Decisions::default(), Instant::now());
        let other = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let mut next =
            |number, client, after| decisions.next(&token(number), client, began + after);
        assert_eq!(next(1, CLIENT, Duration::ZERO), Next::Review);
        assert_eq!(next(2, other, PACE.saturating_sub(TICK)), Next::TooMany);
        assert_eq!(next(2, other, PACE), Next::Review);
    }

    /// Each millisecond an invented token, for a minute. Prometheus has not been allowed yet.
    #[test]
    fn one_address_leaves_reviews_of_unknown_tokens_for_others() {
        let (mut decisions, began) = (Decisions::default(), Instant::now());
        let other = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let mut invented = 0;
        let mut scrapes = Vec::new();
        for at in 0..60_000 {
            let now = began + Duration::from_millis(at);
            let number = usize::try_from(at).expect("small");
            let next = decisions.next(&token(number), CLIENT, now);
            invented += usize::from(next == Next::Review);
            if at % 15_000 == 500 {
                scrapes.push(decisions.next(&token(100_000), other, now));
            }
        }
        assert_eq!(invented, 60);
        assert_eq!(scrapes, [Next::Review; 4]);
    }

    #[test]
    fn an_unknown_address_has_one_review_a_second() {
        let (mut decisions, began) = (Decisions::default(), Instant::now());
        let mut next = |number, after| decisions.next(&token(number), CLIENT, began + after);
        assert_eq!(next(1, Duration::ZERO), Next::Review);
        assert_eq!(next(2, PACE_OF_ADDRESS.saturating_sub(TICK)), Next::TooMany);
        assert_eq!(next(2, PACE_OF_ADDRESS), Next::Review);
    }

    #[test]
    fn a_later_decision_replaces_the_earlier_one_of_the_same_token_only() {
        let (mut decisions, now) = (Decisions::default(), Instant::now());
        for number in 1..4 {
            decisions.record(token(number), CLIENT, Decision::Allowed, now);
        }
        decisions.record(token(2), CLIENT, Decision::Forbidden, now);
        let mut next = |number| decisions.next(&token(number), CLIENT, now);
        assert_eq!(next(1), Next::Decided(Decision::Allowed));
        assert_eq!(next(2), Next::Decided(Decision::Forbidden));
        assert_eq!(next(3), Next::Decided(Decision::Allowed));
    }

    #[test]
    fn a_full_cache_replaces_its_oldest_decision() {
        let (mut decisions, now) = (Decisions::default(), Instant::now());
        // The same token again takes no other entry.
        for number in (0..MAX_ENTRIES).chain(0..MAX_ENTRIES) {
            decisions.record(token(number), CLIENT, Decision::Forbidden, now);
        }
        let decided = |decisions: &mut Decisions, number| {
            decisions.next(&token(number), CLIENT, now) == Next::Decided(Decision::Forbidden)
        };
        assert!((0..MAX_ENTRIES).all(|number| decided(&mut decisions, number)));
        decisions.record(token(MAX_ENTRIES), CLIENT, Decision::Forbidden, now);
        assert!((1..=MAX_ENTRIES).all(|number| decided(&mut decisions, number)));
        assert!(!decided(&mut decisions, 0));
    }
}

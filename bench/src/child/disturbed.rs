//! The latency of the other objects while one object disturbs them.

use std::time::Duration;

use kube::Client;
use tokio::time::timeout;

use super::{Job, Trouble, post};
use crate::{Result, measure::Measured, seen::Seen, server::update_version};

/// The number of updates of the hot object per second.
const HOT: u64 = 1000;

/// One round of updates: the number of earlier updates, the number of updates, and the updates per
/// second of the other objects and of the disturbing object.
#[derive(Clone, Copy)]
struct Round {
    first: usize,
    events: usize,
    rate: u64,
    hot: u64,
}

impl Job {
    /// Measures the other objects while one object disturbs them.
    pub(super) async fn disturbed(
        &self,
        (events, rate, by): (usize, u64, Trouble),
        client: &Client,
        seen: &Seen,
        measured: &mut Measured,
    ) -> Result<()> {
        let round = Round {
            first: 0,
            events,
            rate,
            hot: 0,
        };
        if !self.disturb(client, seen, round).await? {
            return Err("some events of the undisturbed run did not arrive".into());
        }
        let names = ["quiet_p50_us", "quiet_p99_us"];
        seen.lateness(names, measured).await;
        let hot = match by {
            Trouble::Hot => HOT,
            Trouble::Hanging => 1,
        };
        if by == Trouble::Hanging {
            seen.hang();
        }
        let round = Round {
            first: events,
            hot,
            ..round
        };
        self.disturb(client, seen, round).await?;
        let delivered = seen.done(events) as u64;
        measured.set("delivered", crate::measure::float(delivered));
        // If more than one in a hundred never arrived, there is no p99.
        if seen.done(events) * 100 >= events * 99 {
            seen.lateness(["p50_us", "p99_us"], measured).await;
        }
        let [quiet, loud] = ["quiet_p99_us", "p99_us"].map(|name| measured.get(name));
        if let (Some(quiet), Some(loud)) = (quiet, loud) {
            measured.set("slowdown", loud / quiet);
        }
        Ok(())
    }

    /// Updates each of the first objects once, and returns whether all updates arrived in time.
    async fn disturb(&self, client: &Client, seen: &Seen, round: Round) -> Result<bool> {
        let Round {
            first,
            events,
            rate,
            hot,
        } = round;
        seen.want(update_version(self.count, first), events);
        post(
            client,
            &format!("/bench/go?events={events}&rate={rate}&hot={hot}"),
        )
        .await?;
        let limit = Duration::from_secs(2 + events as u64 / rate.max(1));
        Ok(timeout(limit, seen.all()).await.is_ok())
    }
}

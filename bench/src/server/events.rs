//! The events of one watch.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{Form, Load, Orders, Shape, Updates, update_version};
use crate::{measure::monotonic, objects::FIRST_VERSION};

/// The state of one watch.
struct Watching {
    load: Arc<Load>,
    shape: Shape,
    orders: watch::Receiver<Orders>,
    opened: Orders,
    stage: Stage,

    /// The number of completed orders.
    rounds: u64,
    /// The number of sent updates.
    sent: usize,
}

enum Stage {
    /// Sends the existing objects, from this index on.
    Initial(usize),
    /// Sends the bookmark after the existing objects.
    InitialEnd,
    /// Waits for orders.
    Waiting,
    Updating(Updating),
    Ended,
}

/// One round of updates.
struct Updating {
    events: usize,
    done: usize,
    ticks: Option<Interval>,
    hot: Option<Interval>,
}

// === impl Load ===

impl Load {
    pub(super) fn events(
        self: &Arc<Self>,
        initial: bool,
        shape: Shape,
    ) -> impl Stream<Item = Bytes> + Send + Sync + use<> {
        let orders = self.orders.subscribe();
        let opened = *orders.borrow();
        let watching = Watching {
            load: Arc::clone(self),
            shape,
            rounds: 0,
            sent: 0,
            opened,
            orders,
            stage: if initial {
                Stage::Initial(0)
            } else {
                Stage::Waiting
            },
        };
        stream::unfold(watching, |mut watching| async {
            let bytes = watching.next().await?;
            Some((bytes, watching))
        })
    }
}

// === impl Form ===

impl Form {
    fn line(&self, change: &str, index: usize, version: u64, sent: u64) -> Bytes {
        let mut line = Vec::with_capacity(self.event.len() + 40);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(change.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        self.event.render(index, version, sent, &mut line);
        line.extend_from_slice(b"}\n");
        Bytes::from(line)
    }
}

// === impl Watching ===

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        let form = self.load.form(self.shape);
        loop {
            match &mut self.stage {
                Stage::Initial(index) if *index < self.load.count => {
                    let version = FIRST_VERSION + *index as u64;
                    let event = form.line("ADDED", *index, version, 0);
                    *index += 1;
                    return Some(event);
                }
                Stage::Initial(_) => self.stage = Stage::InitialEnd,
                Stage::InitialEnd => {
                    self.stage = Stage::Waiting;
                    let version = self.load.version(&self.opened);
                    let Form {
                        kind, api_version, ..
                    } = form;
                    return Some(Bytes::from(format!(
                        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
                    )));
                }
                Stage::Waiting => {
                    let (opened, rounds) = (self.opened, self.rounds);
                    let orders = self.orders.wait_for(|orders| {
                        orders.expired > opened.expired || orders.round > rounds
                    });
                    let orders = *orders.await.ok()?;
                    self.stage = if orders.round > rounds {
                        self.rounds = orders.round;
                        Stage::Updating(Updating::new(orders.updates))
                    } else {
                        Stage::Ended
                    };
                    if matches!(self.stage, Stage::Ended) {
                        return Some(Bytes::from_static(
                            b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}\n",
                        ));
                    }
                }
                Stage::Updating(updating) => {
                    let Some(index) = updating.next(self.load.count).await else {
                        self.stage = Stage::Waiting;
                        continue;
                    };
                    let version = update_version(self.load.count, self.sent);
                    self.sent += 1;
                    return Some(form.line("MODIFIED", index, version, monotonic()));
                }
                Stage::Ended => return None,
            }
        }
    }
}

// === impl Updating ===

impl Updating {
    fn new(updates: Updates) -> Self {
        Self {
            events: updates.events,
            done: 0,
            ticks: ticks(updates.rate),
            hot: ticks(updates.hot),
        }
    }

    /// The index of the next updated object, when its time has come.
    async fn next(&mut self, count: usize) -> Option<usize> {
        if self.done == self.events {
            return None;
        }
        tokio::select! {
            () = tick(&mut self.ticks), if self.ticks.is_some() || self.hot.is_none() => {
                self.done += 1;
                Some((self.done - 1) % count)
            }
            () = tick(&mut self.hot), if self.hot.is_some() => Some(count - 1),
        }
    }
}

/// The interval for a rate. None if the rate is zero.
fn ticks(rate: u64) -> Option<Interval> {
    let apart = Duration::from_secs(1).checked_div(u32::try_from(rate).unwrap_or(u32::MAX))?;
    let mut ticks = interval(apart);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    Some(ticks)
}

async fn tick(ticks: &mut Option<Interval>) {
    if let Some(ticks) = ticks {
        ticks.tick().await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Updates, Updating};

    #[tokio::test(start_paused = true)]
    async fn a_round_updates_one_object_after_the_other() {
        check(
            Updates {
                events: 5,
                rate: 0,
                hot: 0,
            },
            "0 1 2 0 1",
        )
        .await;
        check(
            Updates {
                events: 2,
                rate: 10,
                hot: 0,
            },
            "0 1",
        )
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_hot_object_is_updated_between_the_others() {
        let updates = Updates {
            events: 3,
            rate: 100,
            hot: 1000,
        };
        let (others, hot) = count(&updated(updates).await);
        assert_eq!(others, 3);
        // The first and the last update of the other objects are 20 ms apart.
        assert!((19..=22).contains(&hot), "{hot}");
    }

    #[track_caller]
    fn count(indexes: &[usize]) -> (usize, usize) {
        let hot = indexes.iter().filter(|index| **index == LAST).count();
        (indexes.len() - hot, hot)
    }

    async fn check(updates: Updates, expected: &str) {
        let indexes: Vec<_> = (updated(updates).await.iter().map(usize::to_string)).collect();
        assert_eq!(indexes.join(" "), expected, "{updates:?}");
    }

    const LAST: usize = 3;

    /// The indexes of updated objects, out of four. The last one is only updated if it is hot.
    async fn updated(updates: Updates) -> Vec<usize> {
        let count = if updates.hot > 0 { LAST + 1 } else { LAST };
        let mut updating = Updating::new(updates);
        let mut indexes = Vec::new();
        while let Some(index) = updating.next(count).await {
            indexes.push(index);
        }
        indexes
    }
}

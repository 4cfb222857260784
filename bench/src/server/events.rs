//! The events of one watch.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{Load, Orders, Updates, update_version};
use crate::{measure::monotonic, objects::FIRST_VERSION};

/// One watch, between two of its events.
struct Watching {
    load: Arc<Load>,
    orders: watch::Receiver<Orders>,
    opened: Orders,
    stage: Stage,
}

enum Stage {
    /// What is there already, from this object on.
    Initial(usize),
    /// The bookmark that ends what was there already.
    InitialEnd,
    /// Nothing to send until there are orders.
    Waiting,
    /// Updates, from this one on.
    Updating(Updates, usize, Option<Interval>),
    Ended,
}

// === impl Load ===

impl Load {
    pub(super) fn events(
        self: &Arc<Self>,
        initial: bool,
    ) -> impl Stream<Item = Bytes> + Send + Sync + use<> {
        let orders = self.orders.subscribe();
        let opened = *orders.borrow();
        let watching = Watching {
            load: Arc::clone(self),
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

    fn event(&self, kind: &str, index: usize, version: u64, sent: u64) -> Bytes {
        let mut line = Vec::with_capacity(self.whole.len() + 40);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(kind.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        self.whole.render(index, version, sent, &mut line);
        line.extend_from_slice(b"}\n");
        Bytes::from(line)
    }
}

// === impl Watching ===

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match &mut self.stage {
                Stage::Initial(index) if *index < self.load.count => {
                    let version = FIRST_VERSION + *index as u64;
                    let event = self.load.event("ADDED", *index, version, 0);
                    *index += 1;
                    return Some(event);
                }
                Stage::Initial(_) => self.stage = Stage::InitialEnd,
                Stage::InitialEnd => {
                    self.stage = Stage::Waiting;
                    let version = self.load.version(&self.opened);
                    let kind = self.load.kind.type_name();
                    return Some(Bytes::from(format!(
                        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"{kind}\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
                    )));
                }
                Stage::Waiting => {
                    let opened = self.opened;
                    let orders = self.orders.wait_for(|orders| {
                        orders.expired > opened.expired || orders.updates.is_some()
                    });
                    let orders = *orders.await.ok()?;
                    self.stage = match orders.updates {
                        Some(updates) => {
                            let ticks = (updates.rate > 0).then(|| {
                                let mut ticks = interval(
                                    Duration::from_secs(1)
                                        / u32::try_from(updates.rate).unwrap_or(u32::MAX),
                                );
                                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                                ticks
                            });
                            Stage::Updating(updates, 0, ticks)
                        }
                        None => Stage::Ended,
                    };
                    if matches!(self.stage, Stage::Ended) {
                        return Some(Bytes::from_static(
                            b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}\n",
                        ));
                    }
                }
                Stage::Updating(updates, event, ticks) if *event < updates.events => {
                    if let Some(ticks) = ticks {
                        ticks.tick().await;
                    }
                    let version = update_version(self.load.count, *event);
                    let index = *event % self.load.count;
                    *event += 1;
                    return Some(self.load.event("MODIFIED", index, version, monotonic()));
                }
                Stage::Updating(..) => std::future::pending().await,
                Stage::Ended => return None,
            }
        }
    }
}

//! The settings of a controller.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use windlass_controller::InformerControllerBuilder;

use super::period;
use crate::{ControllerBuilder, ExponentialBackoff, level::Watchable};

/// Settings of a [`Controller`](crate::Controller) or an
/// [`InformerController`](crate::InformerController).
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[command(next_help_heading = "Controller")]
#[non_exhaustive]
pub struct ControllerSettings {
    /// How many objects are processed concurrently, at most [default: 16].
    #[arg(long, env = "OPERATOR_CONCURRENCY", value_name = "OBJECTS")]
    pub concurrency: Option<NonZeroUsize>,

    /// The time limit of one call [default: none].
    #[arg(long, env = "OPERATOR_CALL_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub call_timeout: Option<Duration>,

    /// The delay of the first retry of a failed call. Each further delay is twice the previous one
    /// [default: 1s].
    #[arg(long, env = "OPERATOR_RETRY_DELAY", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub retry_delay: Option<Duration>,

    /// The longest delay of a retry [default: 5m].
    #[arg(long, env = "OPERATOR_RETRY_CAP", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub retry_cap: Option<Duration>,

    /// How often a failed call is repeated, at most [default: without end].
    #[arg(long, env = "OPERATOR_RETRIES", value_name = "NUMBER")]
    pub retries: Option<u32>,

    /// The longest time between two calls for an object of a `Controller` [default: 10h].
    #[arg(long, env = "OPERATOR_LONGEST_INTERVAL", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub longest_interval: Option<Duration>,

    /// The time without an event of an object before it is reconciled by a `Controller`
    /// [default: none].
    #[arg(long, env = "OPERATOR_DEBOUNCE", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub debounce: Option<Duration>,

    /// The longest time for which events delay a call, with `debounce` [default: ten times that].
    #[arg(long, env = "OPERATOR_LONGEST_DEBOUNCE", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub longest_debounce: Option<Duration>,

    /// How often a `Controller` reconciles one object in a minute, at most [default: no limit].
    #[arg(long, env = "OPERATOR_CALLS_PER_MINUTE", value_name = "CALLS")]
    pub calls_per_minute: Option<NonZeroU32>,

    /// How long a call of a `Controller` waits for the writes of the earlier call [default: 5s].
    #[arg(long, env = "OPERATOR_OWN_WRITE_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub own_write_timeout: Option<Duration>,

    /// The number of events of an `InformerController` that wait [default: 1024].
    #[arg(long, env = "OPERATOR_QUEUE", value_name = "EVENTS")]
    pub queue: Option<NonZeroUsize>,

    /// The time after the last progress of the first lists after which an `InformerController` fails
    /// [default: 2m].
    #[arg(long, env = "OPERATOR_CACHE_SYNC_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub cache_sync_timeout: Option<Duration>,
}

// === impl ControllerSettings ===

impl ControllerSettings {
    /// Changes the builder of a [`Controller`](crate::Controller) as these settings say.
    pub fn apply<K: Watchable>(&self, mut builder: ControllerBuilder<K>) -> ControllerBuilder<K> {
        if let Some(objects) = self.concurrency {
            builder = builder.concurrency(objects);
        }
        if let Some(limit) = self.call_timeout {
            builder = builder.timeout(limit);
        }
        if let Some(retries) = self.retry_policy() {
            builder = builder.retry_policy(retries);
        }
        if let Some(every) = self.longest_interval {
            builder = builder.longest_interval(every);
        }
        if let Some(quiet) = self.debounce {
            let longest = self.longest_debounce;
            builder = builder.debounce(quiet, longest.unwrap_or(quiet.saturating_mul(10)));
        }
        if let Some(calls) = self.calls_per_minute {
            builder = builder.rate_limit(calls, Duration::from_secs(60));
        }
        if let Some(timeout) = self.own_write_timeout {
            builder = builder.own_write_timeout(timeout);
        }
        builder
    }

    /// Changes the builder of an [`InformerController`](crate::InformerController) as these settings
    /// say.
    pub fn apply_to_informer_controller(
        &self,
        mut builder: InformerControllerBuilder,
    ) -> InformerControllerBuilder {
        if let Some(objects) = self.concurrency {
            builder = builder.concurrency(objects);
        }
        if let Some(limit) = self.call_timeout {
            builder = builder.timeout(limit);
        }
        if let Some(retries) = self.retry_policy() {
            builder = builder.retry_policy(retries);
        }
        if let Some(events) = self.queue {
            builder = builder.queue(events);
        }
        if let Some(timeout) = self.cache_sync_timeout {
            builder = builder.cache_sync_timeout(Some(timeout));
        }
        builder
    }

    /// The retry policy, if a setting of it is set.
    #[must_use]
    pub fn retry_policy(&self) -> Option<ExponentialBackoff> {
        if (self.retry_delay, self.retry_cap, self.retries) == (None, None, None) {
            return None;
        }
        let first = self.retry_delay.unwrap_or(Duration::from_secs(1));
        let policy = match self.retries {
            Some(retries) => ExponentialBackoff::new(first, retries),
            None => ExponentialBackoff::forever(first),
        };
        let cap = self.retry_cap.unwrap_or(Duration::from_secs(300));
        Some(policy.cap(cap).jitter(0.1))
    }
}

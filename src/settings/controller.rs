//! The settings of a controller.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use windlass_controller::InformerControllerBuilder;

use super::{
    SettingsError,
    error::{incomplete, unused},
    period, unless_empty,
};
use crate::{ControllerBuilder, ExponentialBackoff, level::Watchable};

/// Settings of a [`Controller`](crate::Controller) or an
/// [`InformerController`](crate::InformerController).
///
/// # Several controllers
///
/// A command can have these settings once: clap panics if an option is there twice. So with several
/// controllers, the options and variables are for all of them, and a file has a section for each:
///
/// ```
/// use serde::Deserialize;
/// use windlass::settings::{self, ControllerSettings, Settings};
///
/// #[derive(Default, Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// struct File {
///     websites: ControllerSettings,
///     databases: ControllerSettings,
/// }
///
/// # let file = std::env::temp_dir().join(format!("windlass-several-{}.yaml", std::process::id()));
/// # std::fs::write(&file, "websites: { concurrency: 8 }\ndatabases: { maxRetries: 3 }")?;
/// # let mut of_command_line = Settings::default();
/// # of_command_line.controller.concurrency = std::num::NonZeroUsize::new(4);
/// let file: File = settings::read(&file)?;
/// let websites = settings::with_fallback(&file.websites, &of_command_line.controller)?;
/// let databases = settings::with_fallback(&file.databases, &of_command_line.controller)?;
/// assert_eq!(websites.concurrency.map(|it| it.get()), Some(8));
/// assert_eq!(databases.concurrency.map(|it| it.get()), Some(4));
/// # std::fs::remove_file(std::env::temp_dir().join(format!("windlass-several-{}.yaml", std::process::id())))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[command(next_help_heading = "Controller")]
#[non_exhaustive]
pub struct ControllerSettings {
    /// How many objects are processed concurrently, at most [default: 16].
    #[arg(long, env = unless_empty("OPERATOR_CONCURRENCY"), value_name = "OBJECTS")]
    pub concurrency: Option<NonZeroUsize>,

    /// The time limit of one call [default: none].
    #[arg(long, env = unless_empty("OPERATOR_CALL_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub call_timeout: Option<Duration>,

    /// The delay of the first retry of a failed call. Each further delay is twice the previous one
    /// [default: 1s].
    #[arg(long, env = unless_empty("OPERATOR_RETRY_DELAY"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub retry_delay: Option<Duration>,

    /// The longest delay of a retry [default: 5m].
    #[arg(long, env = unless_empty("OPERATOR_RETRY_CAP"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub retry_cap: Option<Duration>,

    /// How often a failed call is repeated, at most [default: without end].
    #[arg(long, env = unless_empty("OPERATOR_MAX_RETRIES"), value_name = "NUMBER")]
    pub max_retries: Option<u32>,

    /// How many retries of all objects begin in a second, after a burst [default: no limit].
    #[arg(long, env = unless_empty("OPERATOR_RETRIES_PER_SECOND"), value_name = "NUMBER")]
    pub retries_per_second: Option<NonZeroU32>,

    /// The burst of retries, with `retriesPerSecond` [default: ten times that].
    #[arg(long, env = unless_empty("OPERATOR_RETRY_BURST"), value_name = "NUMBER")]
    pub retry_burst: Option<NonZeroU32>,

    /// The longest time between two calls for an object of a `Controller` [default: 10h].
    #[arg(long, env = unless_empty("OPERATOR_LONGEST_INTERVAL"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub longest_interval: Option<Duration>,

    /// The time without an event of an object before it is reconciled by a `Controller`
    /// [default: none].
    #[arg(long, env = unless_empty("OPERATOR_DEBOUNCE"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub debounce: Option<Duration>,

    /// The longest time for which events delay a call, with `debounce` [default: ten times that].
    #[arg(long, env = unless_empty("OPERATOR_LONGEST_DEBOUNCE"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub longest_debounce: Option<Duration>,

    /// How often a `Controller` reconciles one object in a minute, at most [default: no limit].
    #[arg(long, env = unless_empty("OPERATOR_CALLS_PER_MINUTE"), value_name = "CALLS")]
    pub calls_per_minute: Option<NonZeroU32>,

    /// How long a call of a `Controller` waits for the writes of the earlier call [default: 5s].
    #[arg(long, env = unless_empty("OPERATOR_OWN_WRITE_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub own_write_timeout: Option<Duration>,

    /// The number of events of an `InformerController` that wait [default: 1024].
    #[arg(long, env = unless_empty("OPERATOR_QUEUE_SIZE"), value_name = "EVENTS")]
    pub queue_size: Option<NonZeroUsize>,

    /// The time after the last progress of the first lists after which an `InformerController` fails
    /// [default: 2m].
    #[arg(long, env = unless_empty("OPERATOR_CACHE_SYNC_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub cache_sync_timeout: Option<Duration>,
}

// === impl ControllerSettings ===

impl ControllerSettings {
    /// Changes the builder of a [`Controller`](crate::Controller) as these settings say.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is set that has no effect.
    pub fn apply<K: Watchable>(
        &self,
        mut builder: ControllerBuilder<K>,
    ) -> Result<ControllerBuilder<K>, SettingsError> {
        let of_events = [
            ("queueSize", self.queue_size.is_some()),
            ("cacheSyncTimeout", self.cache_sync_timeout.is_some()),
        ];
        unused(&of_events, "a `Controller`")?;
        self.check()?;
        if let Some(objects) = self.concurrency {
            builder = builder.concurrency(objects);
        }
        if let Some(limit) = self.call_timeout {
            builder = builder.timeout(limit);
        }
        if let Some(retries) = self.backoff() {
            builder = builder.retry_policy(retries);
        }
        if let Some((rate, burst)) = self.retry_rate() {
            builder = builder.retry_rate(rate, burst);
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
        Ok(builder)
    }

    /// Changes the builder of an [`InformerController`](crate::InformerController) as these settings
    /// say.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is set that has no effect.
    pub fn apply_to_informer_controller(
        &self,
        mut builder: InformerControllerBuilder,
    ) -> Result<InformerControllerBuilder, SettingsError> {
        let of_objects = [
            ("longestInterval", self.longest_interval.is_some()),
            ("debounce", self.debounce.is_some()),
            ("callsPerMinute", self.calls_per_minute.is_some()),
            ("ownWriteTimeout", self.own_write_timeout.is_some()),
        ];
        unused(&of_objects, "an `InformerController`")?;
        self.check()?;
        if let Some(objects) = self.concurrency {
            builder = builder.concurrency(objects);
        }
        if let Some(limit) = self.call_timeout {
            builder = builder.timeout(limit);
        }
        if let Some(retries) = self.backoff() {
            builder = builder.retry_policy(retries);
        }
        if let Some((rate, burst)) = self.retry_rate() {
            builder = builder.retry_rate(rate, burst);
        }
        if let Some(events) = self.queue_size {
            builder = builder.queue(events);
        }
        if let Some(timeout) = self.cache_sync_timeout {
            builder = builder.cache_sync_timeout(Some(timeout));
        }
        Ok(builder)
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.debounce.is_none() {
            let longest = ("longestDebounce", self.longest_debounce.is_some());
            incomplete(&[longest], "debounce")?;
        }
        if self.retries_per_second.is_none() {
            let burst = ("retryBurst", self.retry_burst.is_some());
            incomplete(&[burst], "retriesPerSecond")?;
        }
        Ok(())
    }

    /// The retry policy of these settings, or none if no setting of delays or of their number is set. A
    /// policy of your own can wrap it. `retriesPerSecond` is not a part of it: that limit also holds for
    /// a policy that replaces it.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{
    ///     ExponentialBackoff, InformerController, controller::ErrorReport, settings::Settings,
    /// };
    ///
    /// let mut settings = Settings::default();
    /// settings.controller.max_retries = Some(2);
    /// let backoff = settings.controller.backoff().unwrap_or(ExponentialBackoff::DEFAULT);
    /// assert_eq!(backoff.delay_after(0, 0.5), Some(Duration::from_secs(1)));
    /// assert_eq!(backoff.delay_after(2, 0.5), None);
    ///
    /// // No retry after an error of the input.
    /// let policy = move |failed: &ErrorReport<'_>| {
    ///     let is_invalid = failed.error.downcast_ref::<std::num::ParseIntError>().is_some();
    ///     (!is_invalid).then(|| backoff.delay_after(failed.attempt, failed.random))?
    /// };
    /// let controller = InformerController::builder().retry_policy(policy).build()?;
    /// # drop(controller);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn backoff(&self) -> Option<ExponentialBackoff> {
        if (self.retry_delay, self.retry_cap, self.max_retries) == (None, None, None) {
            return None;
        }
        let first = self.retry_delay.unwrap_or(Duration::from_secs(1));
        let policy = match self.max_retries {
            Some(retries) => ExponentialBackoff::new(first, retries),
            None => ExponentialBackoff::forever(first),
        };
        let cap = self
            .retry_cap
            .unwrap_or(Duration::from_secs(300).max(first));
        Some(policy.cap(cap).jitter(0.1))
    }

    /// The number of retries in a second, and their burst.
    fn retry_rate(&self) -> Option<(NonZeroU32, NonZeroU32)> {
        let rate = self.retries_per_second?;
        let ten_times = rate.saturating_mul(NonZeroU32::MIN.saturating_add(9));
        Some((rate, self.retry_burst.unwrap_or(ten_times)))
    }
}

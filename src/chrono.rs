//! Conversions between chrono's times and those of Kubernetes' types, which are jiff's.
//!
//! `Time` and `MicroTime` of `k8s-openapi` hold a [`Timestamp`]. Both directions keep every
//! nanosecond.
//!
//! ```
//! use chrono::{DateTime, Utc};
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
//! use windlass::chrono::{from_chrono, to_chrono};
//!
//! let created: Time = serde_json::from_str("\"2026-11-22T10:00:00Z\"")?;
//! let deadline: DateTime<Utc> = to_chrono(created.0) + chrono::TimeDelta::hours(1);
//! let renewed = Time(from_chrono(deadline)?);
//! assert_eq!(serde_json::to_string(&renewed)?, "\"2026-11-22T11:00:00Z\"");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{error::Error, fmt};

use chrono::{DateTime, Utc};
use jiff::Timestamp;

/// A time that is out of jiff's range: the years -9999 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange(DateTime<Utc>);

/// `time` as a time of chrono. Every [`Timestamp`] has one.
#[must_use]
pub fn to_chrono(time: Timestamp) -> DateTime<Utc> {
    // chrono counts nanoseconds forwards, and jiff towards the epoch.
    let (mut seconds, mut nanoseconds) = (time.as_second(), time.subsec_nanosecond());
    if nanoseconds < 0 {
        seconds -= 1;
        nanoseconds += 1_000_000_000;
    }
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
    // chrono's range is the years -262143 to 262142.
    DateTime::from_timestamp(seconds, nanoseconds).unwrap_or_default()
}

/// `time` as a timestamp. A leap second becomes the last nanosecond before the next second.
///
/// # Errors
///
/// [`OutOfRange`] if the year is before -9999 or after 9999.
pub fn from_chrono(time: DateTime<Utc>) -> Result<Timestamp, OutOfRange> {
    let nanoseconds = time.timestamp_subsec_nanos().min(999_999_999);
    let nanoseconds = i32::try_from(nanoseconds).unwrap_or_default();
    Timestamp::new(time.timestamp(), nanoseconds).map_err(|_| OutOfRange(time))
}

// === impl OutOfRange ===

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.timestamp();
        write!(
            f,
            "the time {seconds}s after 1970 cannot be converted: its year is not within -9999 to 9999"
        )
    }
}

impl Error for OutOfRange {}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
    use jiff::Timestamp;

    use super::{from_chrono, to_chrono};

    #[test]
    fn times_survive_both_ways_to_the_nanosecond() {
        for time in [
            Timestamp::UNIX_EPOCH,
            Timestamp::MIN,
            Timestamp::MAX,
            Timestamp::new(-1, -1).expect("in range"),
            Timestamp::new(1_795_341_600, 999_999_999).expect("in range"),
        ] {
            let there = to_chrono(time);
            let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
            assert_eq!(i128::from(there.timestamp()), seconds);
            assert_eq!(from_chrono(there), Ok(time));
        }
        let text = "2026-11-22T10:00:00.123456789Z";
        let time: Timestamp = text.parse().expect("a time");
        assert_eq!(
            to_chrono(time),
            text.parse::<DateTime<Utc>>().expect("a time")
        );
    }

    #[test]
    fn a_leap_second_stays_before_the_next_second() {
        let leap = NaiveDate::from_ymd_opt(2016, 12, 31)
            .and_then(|day| day.and_hms_nano_opt(23, 59, 59, 1_500_000_000))
            .expect("a leap second")
            .and_utc();
        let next: Timestamp = "2017-01-01T00:00:00Z".parse().expect("a time");
        assert!(from_chrono(leap).expect("in range") < next);
    }

    #[test]
    fn a_time_out_of_range_is_an_error_and_no_panic() {
        for time in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            let error = from_chrono(time).expect_err("out of range");
            assert!(error.to_string().contains("year"), "{error}");
        }
        assert!(from_chrono(to_chrono(Timestamp::MAX) + TimeDelta::days(1)).is_err());
    }
}

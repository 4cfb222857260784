//! Cron schedules: the five fields of crontab, in a time zone. *(pure)*

use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned, tz::TimeZone};

/// The times at which a cron job is due.
#[derive(Debug)]
pub(crate) struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    zone: TimeZone,
}

/// The values that a field accepts, one bit for each.
#[derive(Clone, Copy, Debug)]
struct Field {
    values: u64,
    /// Begins with `*`. Of the two fields for days, such a one leaves the decision to the other.
    any: bool,
}

/// Why a text is no schedule.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSchedule {
    #[error("{0:?} has {1} fields; a schedule has 5, or is a name such as @daily")]
    Fields(String, usize),
    #[error("{text:?} in the field of {field} is no number from {first} to {last}")]
    Value {
        text: String,
        field: &'static str,
        first: u64,
        last: u64,
    },
    #[error("{0:?} is no time zone")]
    Zone(String),
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The longest time without a run: between two leap days around a year such as 2100.
const LONGEST_GAP_YEARS: i64 = 8;

// === impl Schedule ===

impl Schedule {
    /// Reads a schedule in the time zone with this name.
    pub(crate) fn parse(text: &str, zone: &str) -> Result<Self, InvalidSchedule> {
        let zone = TimeZone::get(zone).map_err(|_| InvalidSchedule::Zone(zone.to_owned()))?;
        let fields: Vec<_> = expanded(text).split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(InvalidSchedule::Fields(text.to_owned(), fields.len()));
        };
        let mut weekdays = Field::parse(weekdays, "weekdays", 0, 7, (0, &WEEKDAYS))?;
        // Sunday is 0 and 7.
        weekdays.values |= weekdays.values >> 7 & 1;
        Ok(Self {
            minutes: Field::parse(minutes, "minutes", 0, 59, (0, &[]))?,
            hours: Field::parse(hours, "hours", 0, 23, (0, &[]))?,
            days: Field::parse(days, "days", 1, 31, (0, &[]))?,
            months: Field::parse(months, "months", 1, 12, (1, &MONTHS))?,
            weekdays,
            zone,
        })
    }

    /// The first time after `after`. `None` if there is none, as on 30 February.
    ///
    /// A time that a change of the clock skips is not due, and one that occurs twice is due twice.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let minute = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60)
            .ok()?
            .to_zoned(self.zone.clone());
        let end = at.checked_add(LONGEST_GAP_YEARS.years()).ok()?;
        while at < end {
            at = if !self.months.has(at.month()) {
                let month = at.first_of_month().ok()?.checked_add(1.month()).ok()?;
                month.start_of_day().ok()?
            } else if !self.is_due_on_day(&at) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.hours.has(at.hour()) {
                at.checked_add((60 - i64::from(at.minute())).minutes())
                    .ok()?
            } else if !self.minutes.has(at.minute()) {
                at.checked_add(1.minute()).ok()?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    /// The last time after `after`, and not after `until`.
    pub(crate) fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        // Looks into the near past first, so that a long pause of a frequent schedule has few steps.
        let mut found = None;
        for hours in [1, 24, 24 * 31, 24 * 366, 24 * 366 * LONGEST_GAP_YEARS] {
            let start = until.checked_sub(SignedDuration::from_hours(hours));
            let mut at = start.unwrap_or(after).max(after);
            while let Some(next) = self.next(at).filter(|next| *next <= until) {
                found = Some(next);
                at = next;
            }
            if found.is_some() {
                break;
            }
        }
        found
    }

    /// If both fields for days are given, one of them is sufficient.
    fn is_due_on_day(&self, at: &Zoned) -> bool {
        let day = self.days.has(at.day());
        let weekday = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        if self.days.any || self.weekdays.any {
            day && weekday
        } else {
            day || weekday
        }
    }
}

/// The five fields of a schedule that has a name. Other texts are returned unchanged.
pub(crate) fn expanded(text: &str) -> &str {
    match text.trim() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    }
}

// === impl Field ===

impl Field {
    /// Reads a list of values, ranges and steps. `names` are those of the values from a first one.
    fn parse(
        text: &str,
        field: &'static str,
        first: u64,
        last: u64,
        names: (u64, &[&str]),
    ) -> Result<Self, InvalidSchedule> {
        let invalid = |text: &str| InvalidSchedule::Value {
            text: text.to_owned(),
            field,
            first,
            last,
        };
        let value = |text: &str| {
            let number = (names.0..)
                .zip(names.1)
                .find(|(_, name)| name.eq_ignore_ascii_case(text));
            let value = number.map(|(value, _)| value).or_else(|| text.parse().ok());
            value
                .filter(|it| (first..=last).contains(it))
                .ok_or_else(|| invalid(text))
        };
        let mut values = 0;
        for part in text.split(',') {
            let (range, step) = part
                .split_once('/')
                .map_or((part, None), |(it, n)| (it, Some(n)));
            let (from, to) = match range.split_once('-') {
                Some((from, to)) => (value(from)?, value(to)?),
                None if range == "*" => (first, last),
                None if step.is_some() => (value(range)?, last),
                None => (value(range)?, value(range)?),
            };
            let step = step.map_or(Ok(1), |it| it.parse().map_err(|_| invalid(part)))?;
            if step == 0 || from > to {
                return Err(invalid(part));
            }
            values |= (from..=to)
                .step_by(step)
                .fold(0, |bits, value| bits | 1 << value);
        }
        let any = text.starts_with('*');
        Ok(Self { values, any })
    }

    fn has(self, value: i8) -> bool {
        self.values >> value & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidSchedule, Schedule};

    #[test]
    fn the_next_time_is_after_the_given_one() {
        check(
            "* * * * *",
            "2026-01-01T00:00:30+00[UTC]",
            "2026-01-01T00:01",
        );
        check(
            "* * * * *",
            "2026-01-01T00:01:00+00[UTC]",
            "2026-01-01T00:02",
        );
        check(
            "*/15 2-3 * * *",
            "2026-01-01T03:50+00[UTC]",
            "2026-01-02T02:00",
        );
        check(
            "5/20 * * * *",
            "2026-01-01T03:26+00[UTC]",
            "2026-01-01T03:45",
        );
        check(
            "0 0 29 feb *",
            "2026-01-01T00:00+00[UTC]",
            "2028-02-29T00:00",
        );
        check("0 0 29 2 *", "2096-03-01T00:00+00[UTC]", "2104-02-29T00:00");
        check("@yearly", "2026-01-01T00:00+00[UTC]", "2027-01-01T00:00");
    }

    #[test]
    fn a_day_and_a_weekday_are_alternatives() {
        // 1 January 2026 is a Thursday.
        check(
            "0 0 13 * fri",
            "2026-01-01T00:00+00[UTC]",
            "2026-01-02T00:00",
        );
        check(
            "0 0 13 * fri",
            "2026-01-09T00:00+00[UTC]",
            "2026-01-13T00:00",
        );
        check("0 0 * * 7", "2026-01-01T00:00+00[UTC]", "2026-01-04T00:00");
        check("0 0 13 * *", "2026-01-01T00:00+00[UTC]", "2026-01-13T00:00");
    }

    #[test]
    fn a_skipped_time_is_not_due_and_a_repeated_one_is_due_twice() {
        let spring = "2026-03-29T00:00+01[Europe/Berlin]";
        check("30 2 * * *", spring, "2026-03-30T02:30");
        let autumn = "2026-10-25T02:00+02[Europe/Berlin]";
        check("30 2 * * *", autumn, "2026-10-25T02:30");
        let again = "2026-10-25T02:30+02[Europe/Berlin]";
        check("30 2 * * *", again, "2026-10-25T02:30");
        let then = "2026-10-25T02:30+01[Europe/Berlin]";
        check("30 2 * * *", then, "2026-10-26T02:30");
    }

    #[test]
    fn some_schedules_are_never_due() {
        let schedule = Schedule::parse("0 0 30 2 *", "UTC").expect("valid");
        assert_eq!(schedule.next(jiff::Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn the_latest_time_is_found_after_a_long_pause() {
        let at = |text: &str| text.parse().expect("a time");
        let latest = |text, after: &str| {
            let schedule = Schedule::parse(text, "UTC").expect("valid");
            schedule.latest(at(after), at("2026-01-01T00:00:10Z"))
        };
        let minutely = latest("* * * * *", "1996-01-01T00:00:00Z");
        assert_eq!(minutely, Some(at("2026-01-01T00:00:00Z")));
        let monthly = latest("0 5 13 * *", "1996-01-01T00:00:00Z");
        assert_eq!(monthly, Some(at("2025-12-13T05:00:00Z")));
        assert_eq!(latest("0 5 13 * *", "2025-12-13T05:00:00Z"), None);
    }

    #[test]
    fn an_invalid_schedule_is_explained() {
        let error = |text, zone| {
            let parsed = Schedule::parse(text, zone);
            parsed.expect_err(text).to_string()
        };
        let fields = "\"* *\" has 2 fields; a schedule has 5, or is a name such as @daily";
        assert_eq!(error("* *", "UTC"), fields);
        let value = "\"60\" in the field of minutes is no number from 0 to 59";
        assert_eq!(error("60 * * * *", "UTC"), value);
        for text in [
            "*/0 * * * *",
            "5-1 * * * *",
            "* * 0 * *",
            "* * * foo *",
            ", * * * *",
        ] {
            assert!(error(text, "UTC").contains("is no number"), "{text}");
        }
        let zone = InvalidSchedule::Zone("Mars".to_owned());
        assert_eq!(Schedule::parse("* * * * *", "Mars").err(), Some(zone));
    }

    #[track_caller]
    fn check(schedule: &str, after: &str, expected: &str) {
        let after: jiff::Zoned = after.parse().expect("a time");
        let zone = after.time_zone().iana_name().expect("a name");
        let schedule = Schedule::parse(schedule, zone).expect("a schedule");
        let next = schedule.next(after.timestamp()).expect("it is due again");
        let next = next.to_zoned(after.time_zone().clone());
        assert_eq!(next.strftime("%FT%H:%M").to_string(), expected);
    }
}

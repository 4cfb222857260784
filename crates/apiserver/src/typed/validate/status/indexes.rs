//! The indexes of a job in their short form, such as `1,3-5`.

use std::ops::RangeInclusive;

/// Parses indexes below `count`.
pub(super) fn parse(text: &str, count: i64) -> Result<Vec<RangeInclusive<i64>>, String> {
    let mut ranges: Vec<RangeInclusive<i64>> = Vec::new();
    let index = |text: &str| match text.parse::<i64>() {
        Ok(number) if number >= count => Err(format!("too large index: {text:?}")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {text:?}"
        )),
    };
    let increases = |previous: i64, current: i64| {
        let why = "non-increasing order, previous: ";
        let error = || format!("{why}{previous}, current: {current}");
        (previous < current).then_some(()).ok_or_else(error)
    };
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (start, end) = part.split_once('-').unwrap_or((part, ""));
        if end.contains('-') {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have \
                 at most two parts separated by '-'"
            ));
        }
        let first = index(start)?;
        if let Some(range) = ranges.last() {
            increases(*range.end(), first)?;
        }
        let mut last = first;
        if part.contains('-') {
            last = index(end)?;
            increases(first, last)?;
        }
        ranges.push(first..=last);
    }
    Ok(ranges)
}

/// The first index that is in both texts. `None` if one of them is malformed.
pub(super) fn overlap(one: &str, other: &str, count: i64) -> Option<i64> {
    let (one, other) = (parse(one, count).ok()?, parse(other, count).ok()?);
    let pairs = one.iter().flat_map(|left| {
        let starts = other.iter().map(|right| {
            let start = *left.start().max(right.start());
            (start, *left.end().min(right.end()))
        });
        starts.collect::<Vec<_>>()
    });
    let shared = pairs.filter(|(start, end)| start <= end);
    shared.map(|(start, _)| start).min()
}

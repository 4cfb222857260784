//! The schedules of cron jobs: `*/5 0-12 1,15 * mon-fri` and `@hourly`. *(pure)*
//!
//! Source: robfig/cron v3.0.1 `parser.go`, which Kubernetes uses.

use crate::schema::is_go_duration;

/// The fields of a schedule: smallest number, largest number, and names of numbers.
const FIELDS: [(u64, u64, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Schedules with a name.
const NAMED: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// The error of an invalid schedule.
pub(super) fn schedule(text: &str) -> Option<String> {
    let text = match text.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest,
        _ => text,
    };
    if let Some(duration) = text.strip_prefix("@every ") {
        let why = format!("failed to parse duration {text}: time: invalid duration {duration:?}");
        return (!is_go_duration(duration)).then_some(why);
    }
    if text.starts_with('@') {
        return (!NAMED.contains(&text)).then(|| format!("unrecognized descriptor: {text}"));
    }
    let fields: Vec<_> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (found, fields) = (fields.len(), fields.join(" "));
        return Some(format!(
            "expected exactly 5 fields, found {found}: [{fields}]"
        ));
    }
    let mut parts = fields.into_iter().zip(FIELDS).flat_map(|(field, bounds)| {
        let parts = field.split(',').filter(|part| !part.is_empty());
        parts.map(move |part| (part, bounds))
    });
    parts.find_map(|(part, bounds)| range(part, bounds).err())
}

/// Parses one part of a field, such as `3`, `1-5` or `*/2`.
fn range(text: &str, (least, most, names): (u64, u64, &[&str])) -> Result<(), String> {
    let number = |text: &str| {
        let name = text.to_lowercase();
        match names.iter().position(|known| *known == name) {
            Some(at) => Ok(least + at as u64),
            None => number(text),
        }
    };
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (text, None),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low, Some(high)),
        None => (range, None),
    };
    let (start, mut end) = if matches!(low, "*" | "?") {
        (least, most)
    } else {
        let start = number(low)?;
        match high {
            Some(high) if high.contains('-') => return Err(format!("too many hyphens: {text}")),
            Some(high) => (start, number(high)?),
            None => (start, start),
        }
    };
    let mut is_step_wrong = false;
    if let Some(step) = step {
        if step.contains('/') {
            return Err(format!("too many slashes: {text}"));
        }
        is_step_wrong = self::number(step)? == 0;
        if high.is_none() {
            end = most;
        }
    }
    Err(if start < least {
        format!("beginning of range ({start}) below minimum ({least}): {text}")
    } else if end > most {
        format!("end of range ({end}) above maximum ({most}): {text}")
    } else if start > end {
        format!("beginning of range ({start}) beyond end of range ({end}): {text}")
    } else if is_step_wrong {
        format!("step of range should be a positive number: {text}")
    } else {
        return Ok(());
    })
}

fn number(text: &str) -> Result<u64, String> {
    let failed = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: {why}");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(failed(&format!("parsing {text:?}: invalid syntax")));
    }
    let number: i64 = text
        .parse()
        .map_err(|_| failed(&format!("parsing {text:?}: value out of range")))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

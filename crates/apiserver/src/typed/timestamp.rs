//! Times as Kubernetes writes them.

use jiff::Timestamp;

/// A time with its seconds, in UTC.
///
/// # Errors
///
/// What Go says of a text that is no time.
pub(super) fn seconds(text: &str) -> Result<String, String> {
    let time = parse(text, "2006-01-02T15:04:05Z07:00")?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A time with its microseconds, in UTC.
///
/// # Errors
///
/// What Go says of a text that is no time.
pub(super) fn micros(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    // The fraction must have six digits.
    if let Some((seconds, rest)) = text.split_at_checked("2006-01-02T15:04:05".len())
        && stopped(seconds).0.is_empty()
    {
        let digits = rest.strip_prefix('.').map_or(0, |rest| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        if digits < 6 {
            return Err(refusal(text, LAYOUT, rest, ".000000"));
        }
        if digits > 6 {
            return Err(refusal(text, LAYOUT, &rest[7..], "Z07:00"));
        }
    }
    let time = parse(text, LAYOUT)?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

fn parse(text: &str, layout: &str) -> Result<Timestamp, String> {
    // Go wants a time of day and an offset with a colon or `Z`, and nothing after it.
    let is_whole = text.len() >= "2006-01-02T15:04:05Z".len()
        && text.is_ascii()
        && text.as_bytes()[10] == b'T'
        && !text.contains('[');
    let parsed = text.parse::<Timestamp>().ok().filter(|_| is_whole);
    parsed.ok_or_else(|| {
        let (rest, wanted) = stopped(text);
        refusal(text, layout, rest, wanted)
    })
}

fn refusal(text: &str, layout: &str, rest: &str, wanted: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}")
}

/// What is left of the text where it first differs from a time, and what stands there in the
/// layout.
fn stopped(text: &str) -> (&str, &'static str) {
    const PARTS: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ];
    let mut rest = text;
    for (part, length) in PARTS {
        let fits = rest.split_at_checked(length).filter(|(found, _)| {
            let is_number = part.starts_with(|c: char| c.is_ascii_digit());
            if is_number {
                found.bytes().all(|byte| byte.is_ascii_digit())
            } else {
                *found == part
            }
        });
        match fits {
            Some((_, after)) => rest = after,
            None => return (rest, part),
        }
    }
    (rest, "Z07:00")
}

#[cfg(test)]
mod tests {
    use super::{micros, seconds};

    #[test]
    fn times_are_those_of_kubernetes() {
        assert_eq!(
            seconds("2026-01-02T03:04:05.678+01:00").as_deref(),
            Ok("2026-01-02T02:04:05Z")
        );
        assert_eq!(
            micros("2026-01-02T03:04:05.123456+01:00").as_deref(),
            Ok("2026-01-02T02:04:05.123456Z")
        );
        assert_eq!(
            micros("2026-01-02T03:04:05Z").expect_err("a fraction is missing"),
            "parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\""
        );
        assert_eq!(
            seconds("yesterday").expect_err("it is no time"),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \
             \"yesterday\" as \"2006\""
        );
        for wrong in [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

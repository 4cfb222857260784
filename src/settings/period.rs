//! Durations as text, such as `30s` or `1h 30m`.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serializer, de, ser};

/// Parses a duration that is positive: zero would be a loop without a wait.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let signed: SignedDuration = (text.parse()).map_err(|error| {
        format!("{error}; write a duration with its unit, such as `30s` or `1h 30m`")
    })?;
    match Duration::try_from(signed) {
        Ok(period) if !period.is_zero() => Ok(period),
        _ => Err("the duration must be longer than zero".to_owned()),
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde requires")]
pub(super) fn serialize<S: Serializer>(
    period: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Some(period) = period else {
        return serializer.serialize_none();
    };
    let signed = SignedDuration::try_from(*period).map_err(ser::Error::custom)?;
    serializer.collect_str(&format_args!("{signed:#}"))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse(&text))
        .transpose()
        .map_err(de::Error::custom)
}

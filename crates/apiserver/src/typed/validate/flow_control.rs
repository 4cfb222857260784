//! Flow schemas and priority levels.

use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

pub(super) fn flow_schema(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        at.inner("priorityLevelConfiguration", |at| {
            if at.text("name").is_empty() {
                faults.required(at.path("name"), "must reference a priority level");
            }
            faults.follows(at, "name", syntax::subdomain);
        });
    });
}

pub(super) fn priority_level(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |at| {
        if !faults.needs(at, "type") {
            return;
        }
        let kind = Value::from(at.text("type"));
        if kind != "Exempt" && kind != "Limited" {
            let known = ["Exempt", "Limited"];
            faults.add(FieldError::not_supported(at.path("type"), &kind, known));
            return;
        }
        if kind == "Limited" && at.get("limited").is_none() {
            let why = "must not be empty when type is Limited";
            faults.required(at.path("limited"), why);
        }
        at.inner("limited", |at| {
            shares(at, faults);
            if let Some(limit) = at.number("borrowingLimitPercent").filter(|it| *it < 0) {
                let why = "if specified, must be a non-negative integer";
                faults.invalid(at.path("borrowingLimitPercent"), &limit.into(), why);
            }
            at.inner("limitResponse", |at| limit_response(at, faults));
        });
        at.inner("exempt", |at| shares(at, faults));
    });
}

/// The concurrency shares of a priority level, and the percentages that it lends and borrows.
fn shares(at: At<'_>, faults: &mut Faults) {
    if let Some(shares) = at.number("nominalConcurrencyShares").filter(|it| *it < 0) {
        let path = at.path("nominalConcurrencyShares");
        faults.invalid(path, &shares.into(), "must be a non-negative integer");
    }
    let percent = at.number("lendablePercent");
    if let Some(percent) = percent.filter(|it| !(0..=100).contains(it)) {
        let why = "must be between 0 and 100, inclusive";
        faults.invalid(at.path("lendablePercent"), &percent.into(), why);
    }
}

/// The response to requests above the limit.
fn limit_response(at: At<'_>, faults: &mut Faults) {
    let has_queues = at.get("queuing").is_some();
    match at.text("type") {
        "Reject" if has_queues => faults.forbidden(
            at.path("queuing"),
            "must be nil if limited.limitResponse.type is not Limited",
        ),
        "Queue" if !has_queues => faults.required(
            at.path("queuing"),
            "must not be empty if limited.limitResponse.type is Limited",
        ),
        "Queue" => at.inner("queuing", |at| queues(at, faults)),
        _ => {
            if faults.needs(at, "type") {
                faults.one_of(at, "type", &["Queue", "Reject"]);
            }
        }
    }
}

/// The queues of a priority level.
fn queues(at: At<'_>, faults: &mut Faults) {
    /// The maximum number of queues of a priority level.
    const MAX_QUEUES: i64 = 10_000_000;
    /// The number of bits of the hash that selects the queues of a flow.
    const HASH_BITS: i64 = 60;
    let number = |field: &str| at.number(field).unwrap_or_default();
    let (queues, hand_size) = (number("queues"), number("handSize"));
    for field in ["queueLengthLimit", "queues", "handSize"] {
        if number(field) <= 0 {
            let value = number(field).into();
            faults.invalid(at.path(field), &value, "must be positive");
        }
    }
    if queues > MAX_QUEUES {
        let why = format!("must not be greater than {MAX_QUEUES}");
        faults.invalid(at.path("queues"), &queues.into(), why);
    }
    let bits = entropy(queues, hand_size);
    let why = if hand_size <= 0 {
        return;
    } else if hand_size > queues {
        format!("should not be greater than queues ({queues})")
    } else if bits > HASH_BITS {
        format!(
            "required entropy bits of deckSize {queues} and handSize {hand_size} should not be greater \
             than {HASH_BITS}"
        )
    } else {
        return;
    };
    faults.invalid(at.path("handSize"), &hand_size.into(), why);
}

/// The number of bits that are needed to choose `hand_size` of the queues.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "both numbers come from fields of 32 bits"
)]
fn entropy(queues: i64, hand_size: i64) -> i64 {
    ((queues as f64).log2() * hand_size as f64).ceil() as i64
}

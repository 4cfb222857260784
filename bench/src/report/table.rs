//! A table of medians, with how far the samples lie apart.

use crate::{
    contender::Contender,
    scenario::{Number, Outcome},
};

pub(super) const HEAD: &str = "\
| scenario | of | Windlass | kube-runtime | ratio | floor |
|---|---|--:|--:|--:|--:|
";

/// One number of one scenario.
pub(super) fn row(outcome: &Outcome, number: Number, ratio: &str) -> String {
    let cell = |contender| {
        outcome.spread(contender, number.measure).map_or_else(
            || "-".to_owned(),
            |spread| {
                let [median, least, most] =
                    [spread.median, spread.least, spread.most].map(|it| number.unit.show(it));
                if least == most {
                    median
                } else {
                    format!("{median} ({least}..{most})")
                }
            },
        )
    };
    format!(
        "| {} | {} | {} | {} | {ratio} | {} |\n",
        outcome.scenario.name,
        number.suffix,
        cell(Contender::Windlass),
        cell(Contender::Runtime),
        cell(Contender::Floor),
    )
}

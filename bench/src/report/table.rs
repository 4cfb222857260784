//! A table of medians, with the spread of the samples.

use std::fmt::Write as _;

use super::{better, ratio};
use crate::{
    contender::Contender,
    scenario::{Number, Outcome},
};

/// A row for each number of each scenario, and a column for each contender. The ratio refers to the
/// peer before it. A peer that is better than Windlass is bold.
pub(super) fn of(outcomes: &[&Outcome]) -> String {
    let among = |contender: &Contender| {
        let mut scenarios = outcomes.iter().map(|outcome| &outcome.scenario);
        scenarios.any(|scenario| scenario.contenders.contains(contender))
    };
    let contenders: Vec<_> = Contender::ALL.into_iter().filter(among).collect();
    let first_peer = contenders.iter().position(|contender| contender.is_peer());
    let row = |cells: &mut dyn Iterator<Item = String>, ratio: &str| {
        let mut row = String::new();
        for (index, cell) in cells.enumerate() {
            _ = write!(row, " {cell} |");
            if Some(index) == first_peer {
                _ = write!(row, " {ratio} |");
            }
        }
        row
    };
    let mut names = contenders.iter().map(|contender| match contender {
        Contender::Windlass => "Windlass".to_owned(),
        other => other.name().to_owned(),
    });
    let mut text = format!("| scenario | of |{}\n", row(&mut names, "ratio"));
    let mut rules = contenders.iter().map(|_| "--:".to_owned());
    text.push_str(&format!("|---|---|{}\n", row(&mut rules, "--:")).replace(' ', ""));
    for outcome in outcomes {
        for number in &outcome.scenario.numbers {
            let mut cells = contenders.iter().map(|it| cell(outcome, *it, *number));
            let cells = row(&mut cells, &ratio(outcome, *number));
            let (name, suffix) = (&outcome.scenario.name, number.suffix);
            _ = writeln!(text, "| {name} | {suffix} |{cells}");
        }
    }
    text
}

fn cell(outcome: &Outcome, contender: Contender, number: Number) -> String {
    let Some(spread) = outcome.spread(contender, number.measure) else {
        return "-".to_owned();
    };
    let [median, least, most] =
        [spread.median, spread.least, spread.most].map(|it| number.unit.show(it));
    let median = if better(outcome, number) == Some(contender) {
        format!("**{median}**")
    } else {
        median
    };
    if least == most {
        median
    } else {
        format!("{median} ({least}..{most})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcome;

    #[test]
    fn a_peer_that_is_better_is_bold() {
        assert_eq!(
            super::of(&[&outcome()]),
            "\
| scenario | of | Windlass | kube-runtime | ratio | client-go | floor |
|---|---|--:|--:|--:|--:|--:|
| P1-pod | cpu | 2.0us | 3.0us (2.0us..4.0us) | 1.50 | **1.5us** | 1.0us |
| P1-pod | settled | 2.0KB | - | - | - | - |
"
        );
    }
}

//! What is printed and kept.

use crate::{
    Result,
    contender::Contender,
    scenario::{Better, Number, Outcome},
};

/// The lines of one scenario: `NAME windlass=X peer=Y ratio=Z floor=F`.
///
/// The ratio is how many times better Windlass is.
pub(crate) fn lines(outcome: &Outcome) -> Vec<String> {
    let numbers = outcome.scenario.numbers.iter();
    numbers.map(|number| line(outcome, *number)).collect()
}

fn line(outcome: &Outcome, number: Number) -> String {
    let median = |contender| {
        let spread = outcome.spread(contender, number.measure)?;
        Some(spread.median)
    };
    let show = |median: Option<f64>| median.map_or_else(|| "-".to_owned(), |median| number.unit.show(median));
    let (windlass, peer) = (median(Contender::Windlass), median(Contender::Runtime));
    format!(
        "{}-{} windlass={} peer={} ratio={} floor={}",
        outcome.scenario.name,
        number.suffix,
        show(windlass),
        show(peer),
        ratio(number.better, windlass, peer),
        show(median(Contender::Floor)),
    )
}

pub(crate) fn ratio(better: Better, windlass: Option<f64>, peer: Option<f64>) -> String {
    let ratio = match (better, windlass, peer) {
        (Better::Less, Some(windlass), Some(peer)) if windlass > 0.0 => peer / windlass,
        (Better::More, Some(windlass), Some(peer)) if peer > 0.0 => windlass / peer,
        _ => return "-".to_owned(),
    };
    format!("{ratio:.2}")
}

/// The tables and plots of a whole run.
#[derive(Debug)]
pub(crate) struct Report<'o> {
    outcomes: &'o [Outcome],
}

// === impl Report ===

impl<'o> Report<'o> {
    pub(crate) fn new(outcomes: &'o [Outcome]) -> Self {
        Self { outcomes }
    }

    pub(crate) fn write(&self) -> Result<()> {
        _ = self.outcomes;
        Ok(())
    }
}

//! Plots, as SVG.

use std::fmt::Write as _;

/// Bars in groups. Each group has its own scale, because only ratios within a group matter.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
}

/// The bars of one scenario: contender, value and label.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<(&'static str, f64, String)>,
}

// === impl Bars ===

impl Bars {
    const WIDTH: f64 = 980.0;
    const NAMES: f64 = 270.0;
    const LONGEST: f64 = 500.0;
    const BAR: f64 = 14.0;

    pub(crate) fn svg(&self) -> String {
        let mut body = String::new();
        let mut y = 50.0;
        for group in &self.groups {
            text(&mut body, 10.0, y + Self::BAR - 3.0, "bold", &group.name);
            let most = group
                .bars
                .iter()
                .map(|(_, value, _)| *value)
                .fold(0.0, f64::max);
            for (who, value, written) in &group.bars {
                let length = if most > 0.0 {
                    value / most * Self::LONGEST
                } else {
                    0.0
                };
                let (x, height, fill) = (Self::NAMES, Self::BAR - 2.0, colour(who));
                _ = writeln!(
                    body,
                    "<rect x=\"{x}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"{height}\" fill=\"{fill}\"/>"
                );
                let label = format!("{written} {who}");
                text(
                    &mut body,
                    x + length + 6.0,
                    y + Self::BAR - 4.0,
                    "normal",
                    &label,
                );
                y += Self::BAR;
            }
            y += 12.0;
        }
        let mut svg = String::new();
        let width = Self::WIDTH;
        _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y:.0}\" viewBox=\"0 0 {width} {y:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
        );
        text(&mut svg, 10.0, 26.0, "bold", &self.title);
        svg.push_str(&body);
        svg.push_str("</svg>\n");
        svg
    }
}

fn text(to: &mut String, x: f64, y: f64, weight: &str, text: &str) {
    _ = writeln!(
        to,
        "<text x=\"{x:.0}\" y=\"{y:.0}\" font-weight=\"{weight}\" fill=\"#222222\">{text}</text>"
    );
}

fn colour(who: &str) -> &'static str {
    match who {
        "windlass" => "#1b6ca8",
        "floor" => "#bbbbbb",
        "client-go" => "#5f8f4e",
        "controller-runtime" => "#8a63a6",
        "grafana-app-sdk" => "#b5495b",
        _ => "#d9822b",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Bars, Group, colour};
    use crate::contender::Contender;

    #[test]
    fn each_contender_has_its_own_colour() {
        let colours: BTreeSet<_> = Contender::ALL.map(|it| colour(it.name())).into();
        // Servers and readers are never in the same group.
        assert_eq!(colours.len(), Contender::ALL.len() - 1);
    }

    #[test]
    fn the_longest_bars_of_all_groups_have_the_same_length() {
        let group = |most: f64| Group {
            name: "P1".to_owned(),
            bars: vec![
                ("windlass", most / 2.0, "1us".to_owned()),
                ("floor", most, "2us".to_owned()),
            ],
        };
        let bars = Bars {
            title: "CPU".to_owned(),
            groups: vec![group(2.0), group(2000.0)],
        };
        let svg = bars.svg();
        assert_eq!(svg.matches("width=\"500.0\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("width=\"250.0\"").count(), 2, "{svg}");
    }
}

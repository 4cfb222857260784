//! The report: printed tables and written files.

mod table;

use std::{fmt::Write as _, fs, path::Path, process::Command};

use crate::{
    Result,
    contender::Contender,
    plot::{Bars, Group},
    scenario::{Better, Number, Outcome, Served},
};

/// The lines of one scenario:
/// `NAME windlass=X peer=Y ratio=Z floor=F`, and the other peers by their names.
///
/// The ratio is the factor by which Windlass is better than the first peer. The best peer that is
/// better than Windlass is named at the end.
pub(crate) fn lines(outcome: &Outcome) -> Vec<String> {
    let numbers = outcome.scenario.numbers.iter();
    numbers.map(|number| line(outcome, *number)).collect()
}

fn line(outcome: &Outcome, number: Number) -> String {
    let show = |contender| {
        median(outcome, contender, number)
            .map_or_else(|| "-".to_owned(), |median| number.unit.show(median))
    };
    let mut peers = outcome.peers();
    let mut line = format!(
        "{}-{} windlass={} peer={} ratio={} floor={}",
        outcome.scenario.name,
        number.suffix,
        show(Contender::Windlass),
        peers.next().map_or_else(|| "-".to_owned(), show),
        ratio(outcome, number),
        show(Contender::Floor),
    );
    for peer in peers {
        _ = write!(line, " {}={}", peer.name(), show(peer));
    }
    if let Some(better) = better(outcome, number) {
        _ = write!(line, " better={}", better.name());
    }
    line
}

/// The best of the peers that are better than Windlass.
fn better(outcome: &Outcome, number: Number) -> Option<Contender> {
    let windlass = median(outcome, Contender::Windlass, number)?;
    let peers = outcome.peers();
    let peers = peers.filter_map(|peer| Some((median(outcome, peer, number)?, peer)));
    let best = match number.better {
        Better::Less => peers
            .filter(|(median, _)| *median < windlass)
            .min_by(|one, other| one.0.total_cmp(&other.0)),
        Better::More => peers
            .filter(|(median, _)| *median > windlass)
            .max_by(|one, other| one.0.total_cmp(&other.0)),
    };
    best.map(|(_, peer)| peer)
}

fn median(outcome: &Outcome, contender: Contender, number: Number) -> Option<f64> {
    let spread = outcome.spread(contender, number.measure)?;
    Some(spread.median)
}

fn ratio(outcome: &Outcome, number: Number) -> String {
    let windlass = median(outcome, Contender::Windlass, number);
    let peer = outcome.peers().next();
    let peer = peer.and_then(|peer| median(outcome, peer, number));
    let ratio = match (number.better, windlass, peer) {
        (Better::Less, Some(windlass), Some(peer)) if windlass > 0.0 => peer / windlass,
        (Better::More, Some(windlass), Some(peer)) if peer > 0.0 => windlass / peer,
        _ => return "-".to_owned(),
    };
    if ratio >= 100.0 {
        format!("{ratio:.0}")
    } else {
        format!("{ratio:.2}")
    }
}

/// The tables and plots of a whole run.
#[derive(Debug)]
pub(crate) struct Report<'o> {
    outcomes: &'o [Outcome],
    seconds: u64,
}

// === impl Report ===

impl<'o> Report<'o> {
    /// The page, and the line after which the tables begin.
    const PAGE: &'static str = "performance.md";
    const MARK: &'static str = "<!-- Written by `cargo xtask bench`; what is above is not. -->";

    pub(crate) fn new(outcomes: &'o [Outcome], seconds: u64) -> Self {
        Self { outcomes, seconds }
    }

    /// Writes the tables into the page, and the plots beside it.
    pub(crate) fn write(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let docs = root.join("docs");
        let page = docs.join(Self::PAGE);
        let text = fs::read_to_string(&page)?;
        let (prose, _) = text
            .split_once(Self::MARK)
            .ok_or("docs/performance.md does not contain the line after which the tables begin")?;
        let text = format!("{prose}{}\n\n{}", Self::MARK, self.tables(&root));
        fs::write(page, text)?;
        let plots = docs.join("performance");
        fs::create_dir_all(&plots)?;
        fs::write(
            plots.join("cpu.svg"),
            self.plot("CPU per object or event", Number::CPU, "us"),
        )?;
        let settled = self.plot("Memory per object, settled", Number::SETTLED, "bytes");
        fs::write(plots.join("memory.svg"), settled)?;
        Ok(())
    }

    fn tables(&self, root: &Path) -> String {
        let mut text = machine(root, self.seconds);
        text.push_str("\n![CPU](performance/cpu.svg)\n\n![Memory](performance/memory.svg)\n\n");
        // Servers have another peer than readers.
        let (servers, readers): (Vec<_>, Vec<_>) = self
            .outcomes
            .iter()
            .partition(|outcome| outcome.scenario.served == Served::Contender);
        for outcomes in [readers, servers] {
            if !outcomes.is_empty() {
                text.push_str(&table::of(&outcomes));
                text.push('\n');
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    fn plot(&self, title: &str, number: Number, unit: &str) -> String {
        let groups = self.outcomes.iter().filter(|outcome| {
            let mut numbers = outcome.scenario.numbers.iter();
            numbers.any(|other| other.measure == number.measure)
        });
        let bars = Bars {
            title: format!("{title} ({unit}, less is better)"),
            groups: groups
                .map(|outcome| Group {
                    name: outcome.scenario.name.clone(),
                    bars: Contender::ALL
                        .into_iter()
                        .filter_map(|contender| {
                            let median = median(outcome, contender, number)?;
                            Some((contender.name(), median, number.unit.show(median)))
                        })
                        .collect(),
                })
                .collect(),
        };
        bars.svg()
    }
}

/// A description of the machine and the versions.
fn machine(root: &Path, seconds: u64) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name)
        .to_owned();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(root)
            .output();
        output.map_or_else(
            |_| "unknown".to_owned(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    format!(
        "Measured on {} in {seconds} s, on {cores} cores of {cpu} under {}, load {load} at the end \
         (other processes ran too: compare only numbers in the same row), at commit {} with {}; \
         kube {}, k8s-openapi {}.\n",
        output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        output("uname", &["-s"]),
        output("git", &["rev-parse", "--short", "HEAD"]),
        output("rustc", &["--version"]),
        version(root, "kube"),
        version(root, "k8s-openapi"),
    )
}

/// The version of a dependency in `Cargo.lock`.
fn version(root: &Path, package: &str) -> String {
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let entry = format!("name = \"{package}\"\nversion = \"");
    lock.split_once(&entry)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or_else(|| "unknown".to_owned(), |(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::{
        contender::Contender,
        measure::Measured,
        scenario::{Number, Outcome, catalogue},
    };

    /// Some samples of a scenario.
    pub(super) fn outcome() -> Outcome {
        let mut scenario = catalogue(crate::scenario::Size::Quick).remove(0);
        "P1-pod".clone_into(&mut scenario.name);
        scenario.numbers = vec![Number::CPU, Number::SETTLED];
        scenario.contenders = vec![
            Contender::Windlass,
            Contender::Runtime,
            Contender::ClientGo,
            Contender::Floor,
        ];
        let mut outcome = Outcome::new(scenario);
        for (contender, printed) in [
            (
                Contender::Windlass,
                r#"{"numbers":{"cpu_us":2,"settled_bytes":2000,"wall_us":9}}"#,
            ),
            (Contender::Runtime, r#"{"numbers":{"cpu_us":4.0}}"#),
            (Contender::Runtime, r#"{"numbers":{"cpu_us":2.0}}"#),
            (Contender::ClientGo, r#"{"numbers":{"cpu_us":1.5}}"#),
            (Contender::Floor, r#"{"numbers":{"cpu_us":1}}"#),
        ] {
            let measured = Measured::read(printed.as_bytes()).expect("as a child prints it");
            for number in [Number::CPU, Number::SETTLED] {
                outcome.note(contender, number, &measured);
            }
        }
        outcome
    }

    #[test]
    fn a_line_names_a_peer_that_is_better() {
        assert_eq!(
            lines(&outcome()),
            [
                "P1-pod-cpu windlass=2.0us peer=3.0us ratio=1.50 floor=1.0us client-go=1.5us better=client-go",
                "P1-pod-settled windlass=2.0KB peer=- ratio=- floor=- client-go=-",
            ]
        );
    }
}

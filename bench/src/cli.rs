//! The command line.

use std::{collections::BTreeSet, error::Error, process::ExitCode, sync::Mutex, thread};

use clap::{Parser, Subcommand};

use crate::{
    Meter, Result,
    child::Job,
    events::Events,
    progress::Progress,
    queue::Reconciles,
    report::{Report, lines},
    scenario::{Programs, Runner, Scenario, Size, catalogue},
    servers,
};

/// Windlass side by side with its peers.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,

    /// Small, in under two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Runs each scenario once, as small as can be and several at a time, and fails if a number
    /// of Windlass or kube-runtime is missing. For tests: the numbers mean nothing, and are not
    /// printed.
    #[arg(long, conflicts_with = "quick")]
    once: bool,

    /// Only the scenarios whose names contain this; writes nothing.
    #[arg(long)]
    only: Option<String>,

    #[command(flatten)]
    programs: Programs,
}

/// What a run has other processes do.
#[derive(Debug, Subcommand)]
enum Part {
    /// Does one job, and prints what it measured.
    #[command(hide = true)]
    Child {
        /// What to do, as JSON.
        job: String,
    },

    /// Serves the embedded API server until its stdin closes.
    #[command(hide = true)]
    Serve,

    /// Delivers watch events without a socket, to count instructions of.
    #[command(hide = true)]
    Events(Events),

    /// Has objects reconciled by a handler that does nothing, to count instructions of.
    #[command(hide = true)]
    Reconciles(Reconciles),

    /// Prints which programs the scenarios need that are not built by cargo.
    #[command(hide = true)]
    Needs,
}

/// Runs what the command line says.
#[must_use]
pub fn main(meter: Option<Meter>) -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.part {
        Some(Part::Child { job }) => child(job, meter),
        Some(Part::Serve) => servers::serve(),
        Some(Part::Events(events)) => events.run(),
        Some(Part::Reconciles(rounds)) => rounds.run(),
        Some(Part::Needs) => {
            needs(&cli);
            Ok(())
        }
        None if cli.once => once(&cli),
        None => compare(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn child(job: &str, meter: Option<Meter>) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    println!("{}", serde_json::to_string(&job.run(meter)?)?);
    Ok(())
}

fn needs(cli: &Cli) {
    let scenarios = wanted(cli);
    let contenders = scenarios.iter().flat_map(|scenario| &scenario.contenders);
    let programs: BTreeSet<_> = contenders.filter_map(|it| Programs::of(*it)).collect();
    for program in programs {
        println!("{program}");
    }
}

fn wanted(cli: &Cli) -> Vec<Scenario> {
    let size = match cli {
        Cli { once: true, .. } => Size::Least,
        Cli { quick: true, .. } => Size::Quick,
        _ => Size::Full,
    };
    let mut scenarios = catalogue(size);
    if let Some(only) = &cli.only {
        scenarios.retain(|scenario| scenario.name.contains(only));
    }
    scenarios
}

fn compare(cli: &Cli) -> Result<()> {
    let scenarios = wanted(cli);
    let runner = Runner::new(cli.programs.clone())?;
    let mut progress = Progress::new(scenarios.len());
    let mut outcomes = Vec::new();
    for scenario in scenarios {
        let outcome = runner.run(scenario, &outcomes, &mut progress)?;
        progress.clear();
        for line in lines(&outcome) {
            println!("{line}");
        }
        outcomes.push(outcome);
    }
    println!("{} scenarios in {} s", outcomes.len(), progress.seconds());
    if !cli.quick && cli.only.is_none() {
        Report::new(&outcomes, progress.seconds()).write()?;
    }
    Ok(())
}

/// Runs each scenario once, several at a time: most of what they do is to wait.
fn once(cli: &Cli) -> Result<()> {
    /// Few enough that a scenario which measures what comes within two seconds has the time.
    const AT_ONCE: usize = 6;

    let scenarios = wanted(cli);
    let (count, runner) = (scenarios.len(), Runner::new(cli.programs.clone())?);
    let (runner, scenarios) = (&runner, &Mutex::new(scenarios.into_iter()));
    let run = move || -> Result<()> {
        let next = || scenarios.lock().ok()?.next();
        while let Some(scenario) = next() {
            let name = scenario.name.clone();
            let outcome = runner.run(scenario, &[], &mut Progress::silent());
            let outcome = outcome.map_err(|error| format!("{name}: {error}"))?;
            if let Some(missing) = outcome.missing() {
                return Err(format!("{name}: nothing was measured of {missing}").into());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        for thread in running {
            thread.join().map_err(|_| "a scenario panicked")??;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    })?;
    println!("{count} scenarios ran");
    Ok(())
}

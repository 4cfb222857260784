//! The command line.

use std::{collections::BTreeSet, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    Meter, Result,
    child::Job,
    events::Events,
    progress::Progress,
    queue::Reconciles,
    report::{Report, lines},
    scenario::{Programs, Runner, Scenario, catalogue},
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
    let mut scenarios = catalogue(cli.quick);
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

//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    Meter, Result,
    child::Job,
    progress::Progress,
    report::{Report, lines},
    scenario::{Runner, catalogue},
};

/// Windlass side by side with its peers.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    child: Option<Child>,

    /// Small, in under two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Only the scenarios whose names contain this; writes nothing.
    #[arg(long)]
    only: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Child {
    /// Does one job, and prints what it measured.
    #[command(hide = true)]
    Child {
        /// What to do, as JSON.
        job: String,
    },
}

/// Runs what the command line says.
#[must_use]
pub fn main(meter: Option<Meter>) -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.child {
        Some(Child::Child { job }) => child(job, meter),
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

fn compare(cli: &Cli) -> Result<()> {
    let mut scenarios = catalogue(cli.quick);
    if let Some(only) = &cli.only {
        scenarios.retain(|scenario| scenario.name.contains(only));
    }
    let runner = Runner::new()?;
    let mut progress = Progress::new(scenarios.len());
    let mut outcomes = Vec::new();
    for scenario in scenarios {
        let outcome = runner.run(scenario, &mut progress)?;
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

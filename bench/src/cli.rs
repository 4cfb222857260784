//! The command line.

use std::{collections::BTreeSet, error::Error, process::ExitCode, sync::Mutex, thread};

use clap::{Parser, Subcommand};

use crate::{
    Meter, Result,
    child::Job,
    creates::Creates,
    events::Events,
    progress::Progress,
    queue::Reconciles,
    report::{Report, lines},
    scenario::{Programs, Runner, Scenario, Size, catalogue},
    servers,
};

/// Compares Windlass with other frameworks.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,

    /// Runs with small sizes, in less than two minutes; writes nothing.
    #[arg(long)]
    quick: bool,

    /// Runs each scenario once at its smallest size, several at a time, and fails if a number of
    /// Windlass or kube-runtime is missing. For tests: the numbers are not meaningful and not
    /// printed.
    #[arg(long, conflicts_with = "quick")]
    once: bool,

    /// Runs only the scenarios whose names contain this text; writes nothing.
    #[arg(long)]
    only: Option<String>,

    #[command(flatten)]
    programs: Programs,
}

/// The subcommands for other processes of a run.
#[derive(Debug, Subcommand)]
enum Part {
    /// Runs one job, and prints the measurements.
    #[command(hide = true)]
    Child {
        /// The job as JSON.
        job: String,
    },

    /// Runs the embedded API server until stdin is closed.
    #[command(hide = true)]
    Serve,

    /// Delivers watch events without a socket, to count instructions.
    #[command(hide = true)]
    Events(Events),

    /// Creates objects on the embedded API server without a socket, to count instructions.
    #[command(hide = true)]
    Creates(Creates),

    /// Runs empty reconciles, to count instructions.
    #[command(hide = true)]
    Reconciles(Reconciles),

    /// Prints the programs that the scenarios need and cargo does not build.
    #[command(hide = true)]
    Needs,
}

/// Runs the command line.
#[must_use]
pub fn main(meter: Option<Meter>) -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.part {
        Some(Part::Child { job }) => child(job, meter),
        Some(Part::Serve) => servers::serve(),
        Some(Part::Events(events)) => events.run(),
        Some(Part::Creates(creates)) => creates.run(),
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

/// Runs each scenario once, several at a time, because they mostly wait.
fn once(cli: &Cli) -> Result<()> {
    /// Few enough for the scenario that measures which events arrive within two seconds.
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
                return Err(format!("{name}: the number {missing} is missing").into());
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

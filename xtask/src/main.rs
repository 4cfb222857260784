//! The commands of this repository: `cargo xtask <command>`.

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

// Where everything is.
mod repository;

// One file per command.
mod bench;
mod coverage;
mod features;
mod fuzz;
mod kube_apiserver;
mod mutants;
mod openapi;
mod protobuf_tables;
mod reverts;
mod sim;
mod soak;
mod stats;
mod test;
mod tools;

// What they share.
mod duration;
mod go;
mod go_clients;
mod patch;
mod progress;

// What must hold of the repository itself.
#[cfg(test)]
mod tidy;

/// The exit code of a command, or why it could not do its work.
type Result<T = ExitCode> = std::result::Result<T, Box<dyn Error>>;

/// The commands of this repository.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks all that CI checks, and ends with one line of totals.
    Test(test::Test),

    /// Simulates operators with faults, and checks that planted bugs are found.
    Sim(sim::Sim),

    /// Says which rows of docs/features.md have a test.
    Coverage(coverage::Coverage),

    /// Builds the real kube-apiserver once, starts it, and prints its kubeconfig.
    KubeApiserver(kube_apiserver::KubeApiserver),

    /// Generates the field tables of crates/protobuf from Kubernetes' Go modules.
    ProtobufTables(protobuf_tables::ProtobufTables),

    /// Undoes each fix of defects 1 to 8 alone, and demands that the random histories find it.
    Reverts(reverts::Reverts),
    /// Generates the table of built-in types of crates/apiserver from the real server's `OpenAPI`.
    Openapi(openapi::Openapi),

    /// Measures Windlass side by side with its peers.
    Bench(bench::Bench),

    /// Changes the code in one place at a time, and says which changes no test notices.
    Mutants(mutants::Mutants),
    /// Runs each fuzz target for some minutes.
    Fuzz(fuzz::Fuzz),

    /// Runs random work under random faults for minutes, on both servers.
    Soak(soak::Soak),

    /// Lists files by size and public items by crate.
    Stats(stats::Stats),

    /// Checks each set of features, and the oldest Rust.
    Features(features::Features),

    /// Installs the programs that some checks need.
    Tools(tools::Tools),

    /// Starts the binaries in `KUBEBUILDER_ASSETS`, for tests.
    #[command(hide = true)]
    Envtest(kube_apiserver::Envtest),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(test) => test.run(),
        Command::Coverage(coverage) => coverage.run(),
        Command::Sim(sim) => sim.run(),
        Command::KubeApiserver(server) => server.run(),
        Command::ProtobufTables(tables) => tables.run(),
        Command::Reverts(reverts) => reverts.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::Bench(bench) => bench.run(),
        Command::Stats(stats) => stats.run(),
        Command::Features(features) => features.run(),
        Command::Tools(tools) => tools.run(),
        Command::Mutants(mutants) => mutants.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Soak(soak) => soak.run(),
        Command::Envtest(envtest) => envtest.run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

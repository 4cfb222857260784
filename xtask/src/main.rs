//! The commands of this repository: `cargo xtask <command>`.

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

// Paths and sources of the repository.
mod repository;

// One file per command.
mod bench;
mod coverage;
mod features;
mod fuzz;
mod kube_apiserver;
mod mutants;
mod nightly;
mod openapi;
mod protobuf_tables;
mod release;
mod reverts;
mod semver;
mod sim;
mod soak;
mod stats;
mod test;
mod tools;

// Code that the commands share.
mod duration;
mod go;
mod go_clients;
mod patch;
mod progress;
mod script_clients;

// Rules of the repository, as tests.
#[cfg(test)]
mod tidy;

/// The exit code of a command, or the error that stopped it.
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
    /// Runs everything that CI checks, and prints one line of totals at the end.
    Test(test::Test),

    /// Simulates operators under faults; with --planted, checks that planted bugs are found.
    Sim(sim::Sim),

    /// Prints which rows of docs/features.md have a test.
    Coverage(coverage::Coverage),

    /// Builds the real kube-apiserver once, starts it, and prints its kubeconfig.
    KubeApiserver(kube_apiserver::KubeApiserver),

    /// Generates the field tables of crates/protobuf from Kubernetes' Go modules.
    ProtobufTables(protobuf_tables::ProtobufTables),

    /// Reverts each fix of defects 1 to 8, and checks that the random histories find the defect.
    Reverts(reverts::Reverts),
    /// Generates the table of built-in types of crates/apiserver from the real server's `OpenAPI`.
    Openapi(openapi::Openapi),

    /// Runs the benchmark: compares Windlass with other frameworks.
    Bench(bench::Bench),

    /// Mutation testing: changes one place at a time, and lists the changes that no test detects.
    Mutants(mutants::Mutants),
    /// Runs each fuzz target for some minutes.
    Fuzz(fuzz::Fuzz),

    /// Runs random work under random faults for some minutes, on both servers.
    Soak(soak::Soak),

    /// Makes the long random runs, which are too long for each change.
    Nightly(nightly::Nightly),

    /// Lists files by size and public items by crate.
    Stats(stats::Stats),

    /// Checks each combination of features, and the minimum Rust version.
    Features(features::Features),

    /// Finds changes of the public API that break users.
    Semver(semver::Semver),

    /// Packages the published crates in the order of their dependencies, or publishes them.
    Release(release::Release),

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
        Command::Semver(semver) => semver.run(),
        Command::Release(release) => release.run(),
        Command::Tools(tools) => tools.run(),
        Command::Mutants(mutants) => mutants.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Soak(soak) => soak.run(),
        Command::Nightly(nightly) => nightly.run(),
        Command::Envtest(envtest) => envtest.run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

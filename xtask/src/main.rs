//! The commands of this repository: `cargo xtask <command>`.

use std::{error::Error, process::ExitCode};

use clap::{Parser, Subcommand};

// Where everything is.
mod repository;

// One file per command.
mod bench;
mod kube_apiserver;
mod protobuf_tables;
mod rooms;
mod rows;
mod soak;
mod test;

// What they share.
mod duration;
mod go;
mod go_clients;
mod progress;

// What must hold of the repository itself.
#[cfg(test)]
mod tidy;

/// What a command ends with: whether it found all to be well, or why it could not tell.
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

    /// Says which rows of docs/features.md have a test.
    Rows(rows::Rows),

    /// Builds the real kube-apiserver once, starts it, and prints its kubeconfig.
    KubeApiserver(kube_apiserver::KubeApiserver),

    /// Generates the field tables of crates/protobuf from Kubernetes' Go modules.
    ProtobufTables(protobuf_tables::ProtobufTables),

    /// Measures Windlass side by side with its peers.
    Bench(bench::Bench),

    /// Runs random work under random faults for minutes, on both servers.
    Soak(soak::Soak),

    /// Lists files by size and public items by crate.
    Rooms(rooms::Rooms),

    /// Starts the binaries in `KUBEBUILDER_ASSETS`, for tests.
    #[command(hide = true)]
    Envtest(kube_apiserver::Envtest),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(test) => test.run(),
        Command::Rows(rows) => rows.run(),
        Command::KubeApiserver(server) => server.run(),
        Command::ProtobufTables(tables) => tables.run(),
        Command::Bench(bench) => bench.run(),
        Command::Soak(soak) => soak.run(),
        Command::Rooms(rooms) => rooms.run(),
        Command::Envtest(envtest) => envtest.run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

//! The benchmark, and its child processes whose time is measured.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_bench::main(None)
}

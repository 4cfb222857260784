//! The benchmark, and the children whose time is measured.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_bench::main(None)
}

//! Runs the complete benchmark at its smallest size, so that a change that breaks it fails a test. The
//! measured numbers are ignored.

use std::process::Command;

#[test]
fn every_scenario_runs_and_measures_each_of_its_numbers() {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-bench"))
        .arg("--once")
        // Both binaries are built already.
        .env_remove("CARGO")
        .output()
        .expect("the benchmark starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let ran = text.trim().strip_suffix(" scenarios ran");
    let ran: usize = ran
        .and_then(|it| it.parse().ok())
        .expect("the output has a count");
    assert!(ran > 30, "{ran} scenarios");
}

//! The examples, run as a reader runs them.

use std::process::{Command, Output};

#[test]
fn quickstart_shows_a_whole_life_and_ends_well() {
    let output = run("quickstart", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    let mut rest = told.as_ref();
    // In this order: add, update, a failed step and its retry, delete with clean-up.
    for expected in [
        "serves websites.quickstart.windlass.dev",
        "blog  is added",
        "blog  is published at http://blog.example",
        "blog  changes its Deployment",
        "shop  failed 1x: the name service does not answer for shop.example; again in",
        "shop  is published at http://shop.example",
        "delete the website blog",
        "blog  gives back the host name blog.example",
        "blog  is gone",
        "What was counted",
        "informer_events_total",
        "reconciler_errors_total",
        "all is well",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected:?} does not come, or not in its place:\n{told}"));
        rest = after;
    }
}

#[test]
fn quickstart_says_what_is_wrong_with_a_kubeconfig_that_is_not_there() {
    let output = run("quickstart", &["--kubeconfig", "no/such/file"]);
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("no/such/file"), "{told}");
}

#[test]
fn gateway_accepts_every_route_whose_parent_exists() {
    let output = run("gateway", &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
}

fn run(example: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--example", example, "--"])
        .args(arguments)
        .output()
        .expect("cargo runs")
}

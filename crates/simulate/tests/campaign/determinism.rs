//! Determinism: a plan has the same trace in every process.

use std::process::Command;

use windlass_simulate::{Plan, Simulation};

use crate::{operators, site};

/// With this variable set, the test prints digests and compares nothing.
const CHILD: &str = "WINDLASS_SIMULATION_DIGESTS";

const PLANS: [&str; 3] = [
    "1: crash-after@12, gap@40, delay@50",
    "2: partition@20, strip-finalizers@35, stale@18, restart@44",
    "3: handler-panics@13, handler-slow@22, conflict@30, recreate@25",
];

#[test]
fn a_plan_has_the_same_trace_in_two_processes() {
    let mut own = Vec::new();
    let simulations = [
        site::with_steps(Simulation::new("reconciler", |process| {
            operators::opinionated_reconciler(process, None)
        })),
        site::with_steps(Simulation::new("shared", operators::shared_informers)),
        site::with_steps(Simulation::new("replicas", |process| {
            operators::three_replicas(process, None)
        }))
        .replicas(3),
    ];
    for simulation in &simulations {
        for plan in PLANS {
            let plan: Plan = plan.parse().expect("a plan");
            own.push(format!("digest {:016x}", simulation.trace(&plan).digest()));
        }
    }
    if std::env::var_os(CHILD).is_some() {
        for digest in own {
            println!("{digest}");
        }
        return;
    }
    let test = "determinism::a_plan_has_the_same_trace_in_two_processes";
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("it runs again");
    let output = String::from_utf8_lossy(&output.stdout);
    let other: Vec<_> = output
        .lines()
        .filter(|it| it.starts_with("digest "))
        .collect();
    assert_eq!(own, other);
}

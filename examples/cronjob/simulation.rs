//! Simulates the operator with injected faults.
//!
//! `cargo test --example cronjob` makes a few of the runs, `cargo xtask sim --exhaustive` all.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::CustomResourceExt as _;
use serde_json::json;
use windlass::{
    prelude::*,
    simulate::{Fault, Process, Simulation, Step},
};

use crate::{
    api::CronJob,
    operator::{self, CronJobs, NAME, now},
    tests::{Error, cron_job},
};

/// How long a job runs.
const RUN: Duration = Duration::from_secs(45);

async fn run(process: Process) -> Result<(), Error> {
    let mut builder = operator::builder(process.client(), Watch::all());
    let reconciler = CronJobs::new(&mut builder, Watch::all());
    let jobs = Controller::builder(process.client(), Watch::all()).name("jobs");
    let operator = Operator::new();
    operator.add_controller(builder.build(process.handler(NAME, reconciler))?)?;
    operator.add_controller(jobs.build(play_job)?)?;
    Ok(operator.run_until(process.stop()).await?)
}

/// Plays the controller of jobs: each job succeeds.
async fn play_job(cx: Context<Job>) -> Result<Outcome, Failure> {
    let start = cx.object().metadata.creation_timestamp.as_ref();
    let age = start.map(|it| now().duration_since(it.0).unsigned_abs());
    let left = RUN.saturating_sub(age.unwrap_or_default());
    let status = cx.object().status.as_ref();
    if status.is_some_and(|it| it.completion_time.is_some()) {
        return Ok(Outcome::done());
    }
    if !left.is_zero() {
        return Ok(Outcome::requeue_after(left));
    }
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    cx.write_status(json!({
        "startTime": start,
        "completionTime": now().to_string(),
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }))
    .await?;
    Ok(Outcome::done())
}

#[test]
fn the_operator_survives_every_fault() {
    // The runs are at 00:20 and 00:40. The virtual time begins at midnight.
    let schedule = "*/20 0 1 1 *";
    let create = |name: &str, policy: &str, kept: u32| {
        let fields = json!({ "concurrencyPolicy": policy, "successfulJobsHistoryLimit": kept });
        Step::create(&cron_job(name, schedule, &fields))
    };
    let simulation = Simulation::new("example cronjob", run)
        .object(&CronJob::crd())
        .step(create("allow", "Allow", 3))
        .step(create("forbid", "Forbid", 3))
        // A job that is not kept would run twice, if a call did not know that it was started.
        .step(create("replace", "Replace", 0))
        .step(Step::wait(Duration::from_secs(45 * 60)))
        // The time of day decides which runs there are, and a recreated cron job has none of before.
        .without_faults([Fault::ClockForward, Fault::ClockBack, Fault::Recreate])
        .single_faults(40)
        .seeds(10);
    match simulation.run() {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

//! Tests of the operator in virtual time, which begins at midnight (UTC) of 1 January 2026.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, events::v1::Event};
use kube::{Client, CustomResourceExt as _, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::{
    admin::{Route as _, http::Request},
    kit::{self, Kit, NewStatus, Verb},
    prelude::*,
};

use crate::{
    api::CronJob,
    operator::{self, CronJobs},
    webhooks::webhooks,
};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

const MINUTE: Duration = Duration::from_secs(60);

async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let mut builder = operator::builder(client, Watch::all());
    let reconciler = CronJobs::new(&mut builder, Watch::all());
    let operator = Operator::new();
    operator.add_controller(builder.build(reconciler)?)?;
    Ok(operator.run_until(stop).await?)
}

/// A cron job whose spec also has these fields.
pub(crate) fn cron_job(name: &str, schedule: &str, fields: &Value) -> CronJob {
    let container = json!({ "name": "main", "image": "busybox:1.37" });
    let pod = json!({ "restartPolicy": "Never", "containers": [container] });
    let mut cron = json!({
        "apiVersion": "cron.windlass.dev/v1",
        "kind": "CronJob",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "schedule": schedule,
            "jobTemplate": {
                "metadata": { "labels": { "team": "blue" } },
                "spec": { "template": { "spec": pod } },
            },
        },
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        cron["spec"][key] = value.clone();
    }
    serde_json::from_value(cron).expect("a cron job")
}

/// The times of the jobs, as `HH:MM`.
async fn jobs(kit: &Kit) -> String {
    let mut jobs = kit.list::<Job>().await;
    jobs.sort_by_key(ResourceExt::name_any);
    let times = jobs.iter().map(|job| {
        let at = &job.annotations()["cron.windlass.dev/scheduled-at"];
        at[11..16].to_owned()
    });
    times.collect::<Vec<_>>().join(" ")
}

/// The name of the job at this minute of the test.
fn job(minute: u64) -> String {
    format!("backup-{}", 1_767_225_600 / 60 + minute)
}

#[test]
fn a_job_starts_at_each_time() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        let operator = kit.start(run);
        let limits = json!({ "successfulJobsHistoryLimit": 1 });
        kit.create(&cron_job("backup", "*/10 * * * *", &limits))
            .await;
        kit.quiet().await;
        assert_eq!(jobs(&kit).await, "");
        kit.advance(10 * MINUTE).await;
        kit.expect::<Job>(&job(10))
            .becomes(|job| job.labels()["team"] == "blue")
            .await;
        let last = "2026-01-01T00:10:00Z";
        kit.expect::<CronJob>("backup")
            .matches(json!({ "status": { "active": [job(10)], "lastScheduleTime": last } }))
            .await;

        kit.set_status::<Job>(&job(10), NewStatus::Complete).await;
        kit.expect::<CronJob>("backup")
            .matches(json!({ "status": { "active": [], "lastScheduleTime": last } }))
            .await;
        kit.advance(10 * MINUTE).await;
        assert_eq!(jobs(&kit).await, "00:10 00:20");
        kit.set_status::<Job>(&job(20), NewStatus::Complete).await;
        kit.expect_gone::<Job>(&job(10)).await;

        // A restart starts the newest of the runs that were missed.
        operator.crash();
        kit.advance(35 * MINUTE).await;
        kit.start(run);
        kit.quiet().await;
        assert_eq!(jobs(&kit).await, "00:20 00:50");
    });
}

#[test]
fn a_policy_decides_about_a_job_that_still_runs() {
    let expected = [
        ("Allow", "00:10 00:20 00:30"),
        ("Forbid", "00:10"),
        ("Replace", "00:30"),
    ];
    for (policy, expected) in expected {
        kit::run(async |kit: Kit| {
            kit.install(&CronJob::crd()).await;
            kit.start(run);
            let fields = json!({ "concurrencyPolicy": policy });
            kit.create(&cron_job("backup", "*/10 * * * *", &fields))
                .await;
            kit.advance(35 * MINUTE).await;
            assert_eq!(jobs(&kit).await, expected, "{policy}");
            if expected == "00:10" {
                // The skipped runs are missed.
                kit.set_status::<Job>(&job(10), NewStatus::Failed).await;
                kit.quiet().await;
                assert_eq!(jobs(&kit).await, "00:10");
                kit.advance(5 * MINUTE).await;
                assert_eq!(jobs(&kit).await, "00:10 00:40");
            }
        });
    }
}

#[test]
fn a_suspended_cron_job_starts_nothing_and_later_the_newest_run_within_the_deadline() {
    for (deadline, expected) in [
        (json!(null), "00:20"),
        (json!(600), "00:20"),
        (json!(60), ""),
    ] {
        kit::run(async |kit: Kit| {
            kit.install(&CronJob::crd()).await;
            kit.start(run);
            let fields = json!({ "suspend": true, "startingDeadlineSeconds": deadline });
            kit.create(&cron_job("backup", "*/10 * * * *", &fields))
                .await;
            kit.advance(25 * MINUTE).await;
            assert_eq!(jobs(&kit).await, "");
            kit.edit::<CronJob>("backup", |it| it.spec.suspend = false)
                .await;
            kit.advance(MINUTE).await;
            assert_eq!(jobs(&kit).await, expected, "{deadline}");
        });
    }
}

#[test]
fn a_changed_schedule_replaces_the_next_time_and_nothing_is_written_in_between() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        kit.start(run);
        kit.create(&cron_job("backup", "@daily", &json!({}))).await;
        kit.quiet().await;
        kit.edit::<CronJob>("backup", |it| it.spec.schedule = "15 * * * *".to_owned())
            .await;
        kit.quiet().await;
        let since = kit.mark();
        kit.advance(10 * MINUTE).await;
        assert_eq!(kit.writes(since), []);
        // A failed write delays the run, and it keeps its name.
        kit.refuse_next(Verb::Patch, "jobs.batch", 500);
        kit.advance(5 * MINUTE).await;
        kit.quiet().await;
        assert_eq!(kit.calls(since).of("default/backup").failed(), 1);
        kit.expect::<Job>(&job(15)).becomes(|_| true).await;
        assert_eq!(jobs(&kit).await, "00:15");
    });
}

#[test]
fn a_deleted_job_is_not_started_again() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        let operator = kit.start(run);
        kit.create(&cron_job("backup", "0 * * * *", &json!({})))
            .await;
        kit.advance(60 * MINUTE).await;
        kit.quiet().await;
        kit.delete::<Job>(&job(60)).await;
        kit.quiet().await;
        operator.restart();
        kit.quiet().await;
        assert_eq!(jobs(&kit).await, "");
    });
}

#[test]
fn another_writer_of_the_status_does_not_delay_a_run() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        kit.start(run);
        kit.create(&cron_job("backup", "*/10 * * * *", &json!({})))
            .await;
        kit.advance(12 * MINUTE).await;
        kit.set_status::<CronJob>(
            "backup",
            json!({ "lastScheduleTime": null, "active": ["other"] }),
        )
        .await;
        kit.advance(9 * MINUTE).await;
        assert_eq!(jobs(&kit).await, "00:10 00:20");
        let status =
            json!({ "lastScheduleTime": "2026-01-01T00:20:00Z", "active": [job(10), job(20)] });
        kit.expect::<CronJob>("backup")
            .matches(json!({ "status": status }))
            .await;
    });
}

#[test]
fn an_invalid_schedule_is_reported_and_not_retried() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        kit.start(run);
        let since = kit.mark();
        kit.create(&cron_job("backup", "60 * * * *", &json!({})))
            .await;
        kit.advance(10 * MINUTE).await;
        assert_eq!(kit.calls(since).of("default/backup").len(), 1);
        let events = kit.list::<Event>().await;
        let notes: Vec<_> = events.iter().filter_map(|it| it.note.clone()).collect();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("minutes is no number"), "{notes:?}");

        kit.edit::<CronJob>("backup", |it| it.spec.schedule = "@hourly".to_owned())
            .await;
        kit.advance(51 * MINUTE).await;
        assert_eq!(jobs(&kit).await, "01:00");
    });
}

/// The verbs of the manifest suffice.
#[test]
fn the_operator_needs_no_more_than_its_roles() {
    kit::run(async |kit: Kit| {
        kit.install(&CronJob::crd()).await;
        kit.install(include_str!("deploy/operator.yaml")).await;
        let operator = kit.start_as("cronjob/cronjob", run);
        let limits = json!({ "successfulJobsHistoryLimit": 0 });
        kit.create(&cron_job("backup", "*/10 * * * *", &limits))
            .await;
        // An event is published.
        kit.create(&cron_job("broken", "60 * * * *", &json!({})))
            .await;
        kit.advance(10 * MINUTE).await;
        kit.expect::<Job>(&job(10)).becomes(|_| true).await;
        assert_eq!(kit.list::<Event>().await.len(), 1);
        kit.set_status::<Job>(&job(10), NewStatus::Complete).await;
        kit.expect_gone::<Job>(&job(10)).await;
        // The event is counted.
        operator.restart();
        kit.quiet().await;
    });
}

#[tokio::test]
async fn a_webhook_expands_a_name_and_denies_what_is_no_schedule() -> Result<(), Error> {
    let folder = std::path::Path::new("/not/read");
    let webhooks = webhooks(([127, 0, 0, 1], 0), folder)?;
    let cases = [
        ("/mutate-cronjob", "@daily", "0 0 * * *"),
        ("/mutate-cronjob", "5 * * * *", ""),
        ("/validate-cronjob", "5 * * * *", ""),
        (
            "/validate-cronjob",
            "60 * * * *",
            "is no number from 0 to 59",
        ),
    ];
    for (path, schedule, expected) in cases {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "CREATE", "userInfo": {},
                "kind": { "group": "cron.windlass.dev", "version": "v1", "kind": "CronJob" },
                "resource": { "group": "cron.windlass.dev", "version": "v1", "resource": "cronjobs" },
                "object": cron_job("backup", schedule, &json!({})),
            },
        });
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(review.to_string().into())?;
        let response: Value = serde_json::from_slice(webhooks.answer(request).await.body())?;
        let response = &response["response"];
        let patch = response["patch"].as_array().into_iter().flatten();
        let patch = patch.filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
        let patch = String::from_utf8(patch.collect())?;
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert!(format!("{patch}{message}").contains(expected), "{response}");
        assert_eq!(response["allowed"], message.is_empty());
    }
    Ok(())
}

//! The kind `CronJob`: what users write, and the status that the operator writes.

use k8s_openapi::{api::batch::v1::JobTemplateSpec, apimachinery::pkg::apis::meta::v1::Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A job that is started at the times of a schedule.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "cron.windlass.dev",
    version = "v1",
    kind = "CronJob",
    namespaced,
    status = "CronJobStatus",
    printcolumn = r#"{"name":"Schedule","type":"string","jsonPath":".spec.schedule"}"#,
    printcolumn = r#"{"name":"Last","type":"date","jsonPath":".status.lastScheduleTime"}"#
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CronJobSpec {
    /// Five fields, as in `30 2 * * mon-fri`, or a name such as `@daily`.
    pub(crate) schedule: String,

    /// The time zone of the schedule, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    pub(crate) time_zone: String,

    /// Starts no jobs while it is true. Running jobs continue.
    #[serde(default)]
    pub(crate) suspend: bool,

    /// How late a job may start. A run that is later is missed. Without it, each may be late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) starting_deadline_seconds: Option<u32>,

    /// What happens if a job still runs when the next one is due.
    #[serde(default)]
    pub(crate) concurrency_policy: ConcurrencyPolicy,

    /// How many successful jobs are kept.
    #[serde(default = "three")]
    pub(crate) successful_jobs_history_limit: u32,

    /// How many failed jobs are kept.
    #[serde(default = "one")]
    pub(crate) failed_jobs_history_limit: u32,

    /// The job.
    #[schemars(schema_with = "any_fields")]
    pub(crate) job_template: JobTemplateSpec,
}

/// What happens if a job still runs when the next one is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum ConcurrencyPolicy {
    /// The next one starts too.
    #[default]
    Allow,
    /// The next run is missed.
    Forbid,
    /// The running job is deleted.
    Replace,
}

/// The status of a cron job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CronJobStatus {
    /// The names of the jobs that run.
    #[serde(default)]
    pub(crate) active: Vec<String>,

    /// The time of the newest run that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_schedule_time: Option<Time>,
}

/// The schema of a template: the API server checks it when a job is created. With all fields of a Pod,
/// the definition has half a megabyte, which `kubectl apply` refuses without `--server-side`.
fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn one() -> u32 {
    1
}

const fn three() -> u32 {
    3
}

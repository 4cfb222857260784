//! The decision of one call for a cron job: which jobs it starts and deletes. *(pure)*

use std::{cmp::Reverse, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

use crate::{
    api::{ConcurrencyPolicy, CronJob},
    schedule::{InvalidSchedule, Schedule},
};

/// The annotation of a job with the time for which it was scheduled.
pub(crate) const SCHEDULED_AT: &str = "cron.windlass.dev/scheduled-at";

/// What one call does.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The time of the run to start.
    pub(crate) start: Option<Timestamp>,
    /// The time of a run that is not started, because another job runs.
    pub(crate) skip: Option<Timestamp>,
    /// The jobs that the new one replaces.
    pub(crate) replace: Vec<Arc<Job>>,
    /// The finished jobs above the limits of the history.
    pub(crate) forget: Vec<Arc<Job>>,
    /// The other jobs that run.
    pub(crate) active: Vec<Arc<Job>>,
    /// The newest run that was started or skipped, also by this call.
    pub(crate) last: Option<Timestamp>,
    /// When the next run is due. `None` if never, or while the cron job is suspended.
    pub(crate) next: Option<Timestamp>,
}

/// How a job has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
}

// === impl Plan ===

impl Plan {
    /// Decides by the cron job, its jobs and the time of day.
    pub(crate) fn new(
        cron: &CronJob,
        jobs: Vec<Arc<Job>>,
        now: Timestamp,
    ) -> Result<Self, InvalidSchedule> {
        let spec = &cron.spec;
        let schedule = Schedule::parse(&spec.schedule, &spec.time_zone)?;
        let status = cron.status.as_ref();
        let recorded = status.and_then(|it| it.last_schedule_time.as_ref());
        // A job without its time in the status: the process ended before it wrote the status.
        let started = jobs.iter().filter_map(|job| scheduled_at(job));
        let last = started.chain(recorded.map(|it| it.0)).max();

        let (finished, active): (Vec<_>, _) = jobs.into_iter().partition(|job| end(job).is_some());
        let mut plan = Self {
            start: None,
            skip: None,
            replace: Vec::new(),
            forget: forgotten(cron, &finished),
            active,
            last,
            next: None,
        };
        if !spec.suspend {
            plan.next = schedule.next(now);
            plan.start = schedule.latest(earliest(cron, last, now), now);
            plan.apply_policy(spec.concurrency_policy);
            plan.last = plan.last.max(plan.start).max(plan.skip);
        }
        Ok(plan)
    }

    fn apply_policy(&mut self, policy: ConcurrencyPolicy) {
        if self.start.is_none() || self.active.is_empty() {
            return;
        }
        match policy {
            ConcurrencyPolicy::Allow => {}
            ConcurrencyPolicy::Forbid => self.skip = self.start.take(),
            ConcurrencyPolicy::Replace => self.replace = std::mem::take(&mut self.active),
        }
    }
}

/// The name of the job of the run at this time: a run has one name, so that it has at most one job.
pub(crate) fn job_name(cron: &str, at: Timestamp) -> String {
    format!("{cron}-{}", at.as_second() / 60)
}

/// Runs at or before this time are not started any more.
fn earliest(cron: &CronJob, last: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let created = cron.metadata.creation_timestamp.as_ref();
    let since = last.or(created.map(|it| it.0)).unwrap_or(now);
    let Some(deadline) = cron.spec.starting_deadline_seconds else {
        return since;
    };
    let late = now.checked_sub(SignedDuration::from_secs(deadline.into()));
    since.max(late.unwrap_or(Timestamp::MIN))
}

/// The finished jobs above the limits: the oldest ones.
fn forgotten(cron: &CronJob, finished: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let limits = [
        (End::Succeeded, cron.spec.successful_jobs_history_limit),
        (End::Failed, cron.spec.failed_jobs_history_limit),
    ];
    let mut forgotten = Vec::new();
    for (how, limit) in limits {
        let ended = finished.iter().filter(|job| end(job) == Some(how));
        let mut ended: Vec<_> = ended.cloned().collect();
        ended.sort_by_cached_key(|job| Reverse((scheduled_at(job), job.name_any())));
        forgotten.extend(ended.into_iter().skip(limit as usize));
    }
    forgotten
}

fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED_AT)?.parse().ok()
}

fn end(job: &Job) -> Option<End> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is = |kind: &str| {
        let mut matching = conditions.iter().filter(|it| it.type_ == kind);
        matching.any(|it| it.status == "True")
    };
    if is("Complete") {
        return Some(End::Succeeded);
    }
    is("Failed").then_some(End::Failed)
}

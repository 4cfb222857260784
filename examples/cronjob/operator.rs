//! The controller: starts the jobs of each cron job at their times.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Client, ResourceExt as _};
use windlass::{
    controller::HandlerError,
    level::{Retry, UpdateStrategy},
    operator::wall_clock,
    prelude::*,
    recorder::ObjectEvent,
};

use crate::{
    api::{CronJob, CronJobStatus},
    plan::{Plan, SCHEDULED_AT, job_name},
};

/// The name of the controller, of its field manager, and of the lease.
pub(crate) const NAME: &str = "cronjob";

/// The time limit of a call, which sends a few requests: a request that hangs must not delay a run.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Configures the controller of these cron jobs.
pub(crate) fn builder(client: Client, cron_jobs: Watch<CronJob>) -> ControllerBuilder<CronJob> {
    Controller::builder(client, cron_jobs)
        .name(NAME)
        .timeout(TIMEOUT)
        // Without the last write of the status, a run whose job was deleted would start again.
        .own_write_timeout(Duration::MAX)
}

/// Starts the jobs of cron jobs.
pub(crate) struct CronJobs {
    jobs: Owned<CronJob, Job>,
}

impl ObjectReconciler<CronJob> for CronJobs {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<CronJob>) -> Result<Outcome, Failure> {
        let now = now();
        // An invalid schedule is corrected by a change of the cron job, and by no retry.
        let plan = Plan::new(cx.object(), self.jobs.of(&cx), now);
        let plan = plan.map_err(|it| Failure::new(it).permanent())?;

        for job in &plan.replace {
            self.jobs.delete(&cx, job).await?;
        }
        if let Some(at) = plan.skip {
            let note = format!("the run of {at} is skipped: another job runs");
            cx.event(ObjectEvent::normal("JobAlreadyActive", note));
        }
        let mut active: Vec<_> = plan.active.iter().map(|job| job.name_any()).collect();
        if let Some(at) = plan.start {
            active.push(self.start(&cx, at).await?);
        }
        // Before finished jobs are deleted, because they also say which runs were started.
        cx.write_status(CronJobStatus {
            active,
            last_schedule_time: plan.last.map(Time),
        })
        .await?;
        for job in &plan.forget {
            self.jobs.delete(&cx, job).await?;
        }
        Ok(plan.next.map_or(Outcome::done(), |next| {
            let wait = next.duration_since(now).unsigned_abs();
            Outcome::requeue_after(wait)
        }))
    }

    /// Tells the user, for example of a template that the API server refuses.
    async fn failed(&self, cx: &Context<CronJob>, error: &HandlerError) -> Retry {
        let note = ErrorChain::new(error).to_string();
        cx.event(ObjectEvent::warning("ReconcileFailed", note));
        Retry::Policy
    }
}

impl CronJobs {
    /// Adds these jobs to the controller of the cron jobs.
    pub(crate) fn new(builder: &mut ControllerBuilder<CronJob>, jobs: Watch<Job>) -> Self {
        let jobs = builder.owns(jobs);
        Self { jobs }
    }

    /// Starts the job of the run at this time, unless an earlier call has started it. Returns its name.
    async fn start(&self, cx: &Context<CronJob>, at: Timestamp) -> Result<String, Failure> {
        let template = &cx.object().spec.job_template;
        let mut job = Job {
            metadata: template.metadata.clone().unwrap_or_default(),
            spec: template.spec.clone(),
            status: None,
        };
        job.annotations_mut()
            .insert(SCHEDULED_AT.to_owned(), at.to_string());
        let name = job_name(cx.key().name(), at);
        let desired = Desired::from(job)
            .named(&*name)
            .strategy(UpdateStrategy::OnDelete);
        self.jobs.apply(cx, desired).await?;
        Ok(name)
    }
}

/// The time of day: in a test, that of the test.
pub(crate) fn now() -> Timestamp {
    Timestamp::try_from(wall_clock()).unwrap_or_default()
}

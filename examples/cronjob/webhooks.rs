//! The webhooks: schedules are checked, and their names expanded, before they are stored.

use std::path::Path;

use kube::{ResourceExt as _, core::admission::AdmissionRequest};
use windlass::{
    admin::{Listen, RouteError},
    webhook::{Denied, WebhookServer},
};

use crate::{
    api::CronJob,
    schedule::{Schedule, expanded},
};

/// The longest name of a cron job: that of a job has 63 characters, and ends with the time of the run.
const LONGEST_NAME: usize = 52;

/// Creates the server, with the certificate in this folder.
pub(crate) fn webhooks(
    listen: impl Into<Listen>,
    folder: &Path,
) -> Result<WebhookServer, RouteError> {
    WebhookServer::new(listen, folder.join("tls.crt"), folder.join("tls.key"))
        .mutate("/mutate-cronjob", |mut cron: CronJob, _| async move {
            cron.spec.schedule = expanded(&cron.spec.schedule).to_owned();
            Ok::<_, Denied>(cron)
        })?
        .validate(
            "/validate-cronjob",
            |request: AdmissionRequest<CronJob>| async move {
                // A delete has no object.
                request.object.as_ref().map_or(Ok(()), validate)
            },
        )
}

fn validate(cron: &CronJob) -> Result<(), Denied> {
    if cron.name_any().len() > LONGEST_NAME {
        let message = format!("metadata.name has more than {LONGEST_NAME} characters");
        return Err(Denied::new(message).code(422));
    }
    let parsed = Schedule::parse(&cron.spec.schedule, &cron.spec.time_zone);
    parsed.map(drop).map_err(|it| Denied::new(it).code(422))
}

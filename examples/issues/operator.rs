//! The handlers, their policies and their controller.

use std::{sync::Arc, time::Duration};

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use windlass::controller::{DeadLetter, ErrorReport};
use windlass::retry::{NewEvent, PendingCall};
use windlass::store::{ErasedObject, Index};
use windlass::{prelude::*, settings::Settings};

use crate::api::{Issue, Team, phase};
use crate::tracker::{Tracker, TrackerError};
use crate::{Error, NAME};

/// Keeps a ticket for each issue.
struct Issues(Client, Tracker);

impl Reconciler<Issue> for Issues {
    type Error = Failure;

    async fn reconcile(&self, request: Request<Issue>) -> Result<Outcome, Failure> {
        let Self(client, tracker) = self;
        let issue = request.object();
        let id = issue.metadata.uid.as_deref().unwrap_or_default();
        if request.action() == Action::Deleted {
            // The wrapper removes the finalizer after this call.
            tracker.lock().put(id, None)?;
        } else {
            tracker.lock().put(id, Some(&issue.spec.title))?;
            write_phase(client, issue, "Open").await?;
        }
        Ok(Outcome::done())
    }
}

/// Counts the open issues of each team.
struct Teams(Tracker, Informer<Issue>, Index<Issue, ObjectKey>);

impl Watcher<Team> for Teams {
    type Error = Failure;

    async fn add(&self, team: Arc<Team>) -> Result<(), Failure> {
        let Self(tracker, issues, by_team) = self;
        let team = ObjectKey::of(&*team);
        let open = issues.store().by(by_team, &team)?.len();
        tracker.lock().teams.insert(team.to_string(), open);
        Ok(())
    }

    /// Also called, with one state twice, after a change of an issue of the team.
    async fn update(&self, _: Arc<Team>, new: Arc<Team>) -> Result<(), Failure> {
        self.add(new).await
    }
}

async fn write_phase(client: &Client, issue: &Issue, to: &str) -> Result<(), kube::Error> {
    let key = ObjectKey::of(issue);
    let api = Api::<Issue>::namespaced(client.clone(), key.namespace().unwrap_or_default());
    let (params, patch) = (PatchParams::default(), Patch::Merge(phase(to)));
    api.patch_status(key.name(), &params, &patch).await?;
    Ok(())
}

/// Ten retries, and none after an answer 4xx. A clean-up is retried without end.
fn retry(failed: &ErrorReport<'_>) -> Option<Duration> {
    const TEN: ExponentialBackoff = ExponentialBackoff::new(Duration::from_secs(1), 10).jitter(0.1);

    if failed.action == Action::Deleted {
        return ExponentialBackoff::DEFAULT.delay_after(failed.attempt, failed.random);
    }
    match failed.error.downcast_ref() {
        Some(TrackerError(400..500)) => None,
        _ => TEN.delay_after(failed.attempt, failed.random),
    }
}

/// Drops a pending call if the spec has changed, and keeps it after other changes.
fn dequeue(new: &NewEvent<'_>, pending: &PendingCall<'_>) -> bool {
    let spec = |it: &Arc<dyn ErasedObject>| Some(it.typed::<Issue>().ok()??.spec.clone());
    spec(new.object) != spec(pending.object)
}

/// The team of an issue.
fn team_of(issue: &Issue) -> Option<ObjectKey> {
    let namespace = issue.metadata.namespace.as_deref()?;
    Some(ObjectKey::new(&*issue.spec.team).within(namespace))
}

/// Builds the controller of both kinds.
pub(crate) fn controller(
    client: &Client,
    settings: &Settings,
    tracker: &Tracker,
) -> Result<InformerController, Error> {
    let writer = client.clone();
    let builder = InformerController::builder().name(NAME);
    let builder = settings.controller.apply_to_informer_controller(builder)?;
    let controller = builder
        .retry_policy(retry)
        .retry_dequeue_policy(dequeue)
        .on_exhausted(move |letter: DeadLetter| {
            let writer = writer.clone();
            async move {
                if let Some(issue) = letter.object::<Issue>()
                    && let Err(error) = write_phase(&writer, &issue, "Failed").await
                {
                    tracing::warn!(%error, "cannot write the phase `Failed`");
                }
            }
        })
        .build()?;

    let by_team = Index::new(team_of);
    let list = ListWatch::new(Api::<Issue>::all(client.clone()));
    let issues = Informer::builder(settings.watch.apply_to_list_watch(list)?)
        .index(&by_team)
        // Repeats the calls of dead letters, too.
        .resync(Duration::from_secs(3600))
        .build();
    let teams = Informer::<Team>::new(Api::all(client.clone()));
    let issue = controller.kind::<Issue>("issues")?;
    let team = controller.kind::<Team>("teams")?;
    controller.add_informer(&issue, &issues)?;
    controller.add_informer(&team, &teams)?;
    controller.add_mapper(&issue, &team, team_of)?;

    let finalizer = FinalizerName::new("tracker.example.io/ticket")?;
    let finalizers = Finalizers::new(client.clone(), finalizer)?;
    let handler = OpinionatedReconciler::new(finalizers, Issues(client.clone(), tracker.clone()));
    controller.add_reconciler(&issue, handler.filter(GenerationChanged))?;
    controller.add_watcher(&team, Teams(tracker.clone(), issues, by_team))?;
    Ok(controller)
}

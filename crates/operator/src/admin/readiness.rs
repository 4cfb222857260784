//! The lines of the page `/ready`.

use std::{sync::Arc, time::Duration};

use futures::future::{OptionFuture, join, join_all};
use windlass_controller::{ErasedRunnable, InformerHealth};
use windlass_informer::{ErrorChain, HealthState};

use super::{RunningWebhooks, Subject, page::Line};
use crate::blocking_call::BlockingCall;
use crate::{LeaderElection, election::ElectionState};

/// Reads the state of an operator for `/ready`.
pub(super) struct Readiness {
    subject: Subject,
    controllers: Vec<ControllerHealth>,
    /// The tasks that also run in a replica that does not lead.
    each_replica: Vec<ControllerHealth>,
}

/// The lines about informers.
pub(super) struct InformerLines {
    /// None while this replica does not lead, because then no controllers run.
    controllers: Option<Vec<Line>>,
    each_replica: Vec<Line>,
}

/// Reads the health of one controller. Health functions are user code and may block.
struct ControllerHealth {
    name: String,
    controller: Arc<dyn ErasedRunnable>,
    call: BlockingCall<Vec<Line>>,
}

// === impl Readiness ===

impl Readiness {
    pub(super) fn new(mut subject: Subject) -> Self {
        let mut health = |of: fn(&mut Subject) -> &mut Vec<Arc<dyn ErasedRunnable>>| {
            let all = std::mem::take(of(&mut subject));
            all.into_iter().map(ControllerHealth::new).collect()
        };
        Self {
            controllers: health(|it| &mut it.controllers),
            each_replica: health(|it| &mut it.each_replica),
            subject,
        }
    }

    /// The line about a runtime that is blocked, if it is.
    pub(super) fn blocked(&self) -> Vec<Line> {
        let blocked = self.subject.progress.blocked();
        let line = blocked.map(|reason| Line::new("runtime", Err(reason)));
        line.into_iter().collect()
    }

    /// The lines about the informers. Each health function has the time `limit`.
    pub(super) async fn health(&self, limit: Duration) -> InformerLines {
        let election = self.subject.election.as_ref();
        let runs = election.is_none_or(|it| it.state() == ElectionState::Leader);
        let controllers = OptionFuture::from(runs.then(|| lines(&self.controllers, limit)));
        let (controllers, each_replica) = join(controllers, lines(&self.each_replica, limit)).await;
        InformerLines {
            controllers,
            each_replica,
        }
    }

    /// The lines about the operator, its election and its informers. `health` was read just before.
    pub(super) async fn lines(&self, health: InformerLines, limit: Duration) -> Vec<Line> {
        let mut lines = self.blocked();
        if self.subject.stop.is_cancelled() {
            lines.push(Line::new("operator", Err("is stopping".to_owned())));
        }
        lines.extend(self.subject.webhooks.as_ref().map(webhook_line));
        lines.extend(health.each_replica);
        if let Some(election) = &self.subject.election {
            let state = election.state();
            lines.push(election_line(election, &state));
            if state != ElectionState::Leader {
                return lines;
            }
        }
        lines.extend(match health.controllers {
            Some(controllers) => controllers,
            // This replica began to lead in the meantime.
            None => self::lines(&self.controllers, limit).await,
        });
        lines
    }
}

// === impl ControllerHealth ===

impl ControllerHealth {
    fn new(controller: Arc<dyn ErasedRunnable>) -> Self {
        Self {
            name: controller.name().to_owned(),
            controller,
            // A probe shows the state at its time.
            call: BlockingCall::new(Duration::ZERO),
        }
    }

    async fn lines(&self, limit: Duration) -> Vec<Line> {
        let (name, controller) = (self.name.clone(), Arc::clone(&self.controller));
        let read = move || {
            let health = controller.health();
            health
                .iter()
                .map(|health| informer(&name, health))
                .collect()
        };
        let failure = match self.call.get(limit, read).await {
            Some(Ok(lines)) => return lines,
            Some(Err(panic)) => format!("its health function panicked: {panic}"),
            None => format!("its health function did not return within {limit:?}"),
        };
        vec![Line::new(
            &format!("controller {}", self.name),
            Err(failure),
        )]
    }
}

async fn lines(controllers: &[ControllerHealth], limit: Duration) -> Vec<Line> {
    let lines = controllers.iter().map(|it| it.lines(limit));
    join_all(lines).await.into_iter().flatten().collect()
}

/// The line about the webhook server, which does not depend on the election.
fn webhook_line(webhooks: &RunningWebhooks) -> Line {
    let verdict = if webhooks.ended.is_cancelled() {
        Err("the server accepts no more connections; the log says why".to_owned())
    } else {
        Ok(format!("listening on {:?}", webhooks.addresses))
    };
    Line::new("webhooks", verdict)
}

/// The line about the leader election.
fn election_line(election: &LeaderElection, state: &ElectionState) -> Line {
    let lease = election.lease();
    let verdict = match state {
        ElectionState::Leader => Ok(format!("leading, with the lease {lease}")),
        ElectionState::Standby { holder } if holder.is_empty() => {
            Ok(format!("standing by; the lease {lease} is free"))
        }
        ElectionState::Standby { holder } => {
            Ok(format!("standing by; {holder} holds the lease {lease}"))
        }
        ElectionState::Unknown => Err(format!("the lease {lease} has not been read yet")),
        ElectionState::Expired => Err(format!("the lease {lease} expired; it was not renewed")),
        ElectionState::Failing { error } => Err(error.clone()),
        ElectionState::Ended => Err(format!("lost or released the lease {lease}")),
    };
    Line::new("leader election", verdict)
}

/// The line about one informer.
fn informer(controller: &str, health: &InformerHealth) -> Line {
    let mut text = match &health.watch.state {
        HealthState::Down { error } => {
            let scope = health.watch.scope();
            format!("{scope}: down, {}", ErrorChain::new(&**error))
        }
        _ => health.watch.to_string(),
    };
    let is_up = matches!(
        health.watch.state,
        HealthState::Listing | HealthState::Watching
    );
    if !health.has_synced {
        text.push_str("; its first list is not complete");
    }
    if health.is_optional {
        text.push_str("; optional");
    }
    let name = format!("informer {} of {controller}", health.kind);
    let is_ok = health.is_optional || (is_up && health.has_synced);
    Line::new(&name, if is_ok { Ok(text) } else { Err(text) })
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{ElectionState, LeaderElection, RunningWebhooks, election_line, webhook_line};

    #[test]
    fn a_replica_whose_webhook_server_has_ended_is_not_ready() {
        let webhooks = RunningWebhooks {
            addresses: vec![([127, 0, 0, 1], 9443).into()],
            ended: CancellationToken::new(),
        };
        let line = || format!("{:?}", webhook_line(&webhooks));
        assert!(line().contains("[+] webhooks: listening on [127.0.0.1:9443]"));
        webhooks.ended.cancel();
        assert!(line().contains("[-] webhooks: "));
    }

    /// A standby is ready, also in the moment in which the lease has no holder.
    #[tokio::test]
    async fn a_standby_names_the_holder_or_says_that_the_lease_is_free() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        let election = LeaderElection::new(config, "default", "web").expect("names");
        let line = |holder: &str| {
            let holder = holder.to_owned();
            format!(
                "{:?}",
                election_line(&election, &ElectionState::Standby { holder })
            )
        };
        assert!(line("").contains("standing by; the lease default/web is free"));
        assert!(line("them").contains("standing by; them holds the lease default/web"));
    }
}

//! The lines of the page `/ready`.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use windlass_controller::{ErasedRunnable, InformerHealth};
use windlass_informer::{ErrorChain, HealthState};

use super::{RunningWebhooks, Subject, page::Line};
use crate::blocking_call::BlockingCall;
use crate::{LeaderElection, election::ElectionState};

/// Reads the state of an operator for `/ready`.
pub(super) struct Readiness {
    subject: Subject,
    controllers: Vec<ControllerHealth>,
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
        let controllers = std::mem::take(&mut subject.controllers);
        let controllers = controllers.into_iter().map(|controller| ControllerHealth {
            name: controller.name().to_owned(),
            controller,
            // A probe shows the state at its time.
            call: BlockingCall::new(Duration::ZERO),
        });
        Self {
            controllers: controllers.collect(),
            subject,
        }
    }

    /// The line about a runtime that is blocked, if it is.
    pub(super) fn blocked(&self) -> Vec<Line> {
        let blocked = self.subject.progress.blocked();
        let line = blocked.map(|reason| Line::new("runtime", Err(reason)));
        line.into_iter().collect()
    }

    /// The lines about the informers. `None` while this replica does not lead, because then no
    /// controllers run. Each health function has the time `limit`.
    pub(super) async fn health(&self, limit: Duration) -> Option<Vec<Line>> {
        let election = self.subject.election.as_ref();
        if election.is_some_and(|it| it.state() != ElectionState::Leader) {
            return None;
        }
        let controllers = self.controllers.iter().map(|it| it.lines(limit));
        Some(join_all(controllers).await.into_iter().flatten().collect())
    }

    /// The lines about the operator, its election and its informers. `health` was read just before.
    pub(super) async fn lines(&self, health: Option<Vec<Line>>, limit: Duration) -> Vec<Line> {
        let mut lines = self.blocked();
        if self.subject.stop.is_cancelled() {
            lines.push(Line::new("operator", Err("is stopping".to_owned())));
        }
        lines.extend(self.subject.webhooks.as_ref().map(webhook_line));
        if let Some(election) = &self.subject.election {
            let state = election.state();
            lines.push(election_line(election, &state));
            if state != ElectionState::Leader {
                return lines;
            }
        }
        let health = match health {
            Some(health) => Some(health),
            // This replica began to lead in the meantime.
            None => self.health(limit).await,
        };
        lines.extend(health.into_iter().flatten());
        lines
    }
}

// === impl ControllerHealth ===

impl ControllerHealth {
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

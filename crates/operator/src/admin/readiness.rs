//! Whether an operator is ready, line by line.

use windlass_controller::InformerHealth;
use windlass_informer::HealthState;

use super::{Subject, page::Line};
use crate::{LeaderElection, election::Standing, error::Causes};

/// What there is to say about the operator itself.
pub(super) fn lines(subject: &Subject) -> Vec<Line> {
    let mut lines = Vec::new();
    if subject.stop.is_cancelled() {
        lines.push(Line::new("operator", Err("is stopping".to_owned())));
    }
    if let Some(election) = &subject.election {
        let standing = election.standing();
        lines.push(stands(election, &standing));
        // Nothing runs before it leads.
        if standing != Standing::Leads {
            return lines;
        }
    }
    for controller in &subject.controllers {
        let name = controller.name();
        match controller.health() {
            Ok(health) => lines.extend(health.iter().map(|health| informer(name, health))),
            Err(panic) => lines.push(Line::new(
                &format!("controller {name}"),
                Err(format!(
                    "panicked when it was asked for its health: {panic}"
                )),
            )),
        }
    }
    lines
}

/// Where the operator stands in its election.
fn stands(election: &LeaderElection, standing: &Standing) -> Line {
    let lease = election.lease();
    let verdict = match standing {
        Standing::Leads => Ok(format!("leading, with the lease {lease}")),
        Standing::Waits { holder } if holder.is_empty() => {
            Ok(format!("standing by; nobody holds the lease {lease}"))
        }
        Standing::Waits { holder } => Ok(format!("standing by; {holder} holds the lease {lease}")),
        Standing::Unknown => Err(format!("has not looked at the lease {lease} yet")),
        Standing::Troubled { error } => Err(error.clone()),
        Standing::Ended => Err(format!("leading no more, with the lease {lease}")),
    };
    Line::new("leader election", verdict)
}

/// How one informer is.
fn informer(controller: &str, health: &InformerHealth) -> Line {
    let resource = &health.watch.resource;
    let mut text = match &health.watch.state {
        HealthState::Down { error } => format!("{resource}: down, {}", Causes(&**error)),
        _ => health.watch.to_string(),
    };
    let is_up = matches!(
        health.watch.state,
        HealthState::Listing | HealthState::Watching
    );
    if !health.has_synced {
        text.push_str("; its first list has not been told yet");
    }
    let name = format!("informer {} of {controller}", health.kind);
    let is_well = is_up && health.has_synced;
    Line::new(&name, if is_well { Ok(text) } else { Err(text) })
}

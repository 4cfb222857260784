//! Tests of the operator in virtual time.

use std::time::Duration;

use kube::CustomResourceExt as _;
use windlass::{kit, kit::Kit, prelude::*, settings::Settings};

use crate::api::{Issue, Team, TeamSpec, issue, phase};
use crate::{Error, operator::controller, tracker::Tracker};

/// Starts the operator, without leader election.
async fn start(kit: &Kit) -> Tracker {
    kit.install(&Issue::crd()).await;
    kit.install(&Team::crd()).await;
    kit.create(&Team::new("blue", TeamSpec {})).await;
    let tracker = Tracker::default();
    let shared = tracker.clone();
    kit.start(move |client, stop| {
        let controller = controller(&client, &Settings::default(), &shared);
        async move {
            let operator = Operator::new();
            operator.add_controller(controller?)?;
            Ok::<_, Error>(operator.run_until(stop).await?)
        }
    });
    tracker
}

#[test]
fn an_issue_has_a_ticket_until_its_clean_up_succeeds() {
    kit::run(async |kit: Kit| {
        let tracker = start(&kit).await;
        kit.create(&issue("bug", "Crash")).await;
        kit.quiet().await;
        assert_eq!(tracker.lock().titles.len(), 1);
        assert_eq!(tracker.lock().teams["default/blue"], 1);

        tracker.lock().is_down = true;
        kit.delete::<Issue>("bug").await;
        kit.advance(Duration::from_secs(3600)).await;
        tracker.lock().is_down = false;
        kit.advance(Duration::from_secs(600)).await;
        kit.expect_gone::<Issue>("bug").await;
        kit.quiet().await;
        assert!(tracker.lock().titles.is_empty());
        assert_eq!(tracker.lock().teams["default/blue"], 0);
    });
}

#[test]
fn a_refused_ticket_is_not_retried_until_the_spec_changes() {
    kit::run(async |kit: Kit| {
        start(&kit).await;
        kit.create(&issue("bug", "")).await;
        kit.expect::<Issue>("bug").matches(phase("Failed")).await;
        kit.quiet().await;
        let since = kit.mark();
        kit.advance(Duration::from_secs(600)).await;
        assert_eq!(kit.calls(since).of("default/bug").failed(), 0);
        kit.edit::<Issue>("bug", |it| it.spec.title = "Crash".into())
            .await;
        kit.expect::<Issue>("bug").matches(phase("Open")).await;
    });
}

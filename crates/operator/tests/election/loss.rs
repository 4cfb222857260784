//! Loss of the lease, real and apparent.

use std::sync::atomic::Ordering;

use kube::api::{DeleteParams, Patch, PatchParams};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_operator::{LeadershipLost, Operator, OperatorError};

use crate::{
    replica::{Replica, RunCount, secs, until},
    server::{NAME, builder, cut, election, lease, leases, set},
};

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_leader_without_answers_aborts_its_controllers_before_another_replica_leads() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let (client, is_cut) = cut(&server);
    let first = builder(client, "first").build().expect("valid settings");
    let first = Replica::start(first, count.lingers(None));
    first.leads().await;
    let second = Replica::start(election(&server, "second"), count.lingers(secs(0)));
    sleep(secs(60)).await;

    is_cut.store(true, Ordering::SeqCst);
    let cut = Instant::now();
    match first.end().await {
        Err(OperatorError::LeadershipLost {
            source:
                LeadershipLost::NotRenewed {
                    lease,
                    deadline,
                    source,
                },
        }) => {
            assert_eq!((&*lease, deadline), ("default/web", secs(10)));
            assert_eq!(source.expect("the last request failed").reason(), "silent");
        }
        other => panic!("{other:?}"),
    }
    assert!(cut.elapsed() <= secs(10), "{:?}", cut.elapsed());
    assert_eq!(count.now(), 0, "all was aborted");
    assert!(!second.election.is_leader());
    second.leads().await;
    until("it works", || count.now() == 1).await;
    assert_eq!(count.most(), 1);
    second.stop().await.expect("no error");
}

/// Rows: BO-24
#[tokio::test(start_paused = true)]
async fn a_taken_emptied_or_deleted_lease_ends_the_operator() {
    for (what, reason) in [
        ("taken", "taken"),
        ("emptied", "emptied"),
        ("deleted", "deleted"),
    ] {
        let (server, count) = (ApiServer::new(), RunCount::default());
        let replica = Replica::start(election(&server, "us"), count.lingers(None));
        replica.leads().await;
        until("it works", || count.now() == 1).await;
        let leases = leases(&server);
        match what {
            "taken" => set(&leases, "them").await,
            "emptied" => set(&leases, "").await,
            _ => {
                let deleted = leases.delete(NAME, &DeleteParams::default()).await;
                deleted.expect("the object exists");
            }
        }
        let began = Instant::now();
        match replica.end().await {
            Err(OperatorError::LeadershipLost { source }) => {
                assert_eq!(source.reason(), reason);
                assert!(source.to_string().contains("default/web"), "{source}");
            }
            other => panic!("{what}: {other:?}"),
        }
        // At the next renewal.
        assert!(began.elapsed() <= secs(2), "{what}: {:?}", began.elapsed());
        assert_eq!(count.now(), 0, "{what}: all was dropped");
    }
}

/// The controllers are dropped before `run_until` returns.
#[tokio::test(start_paused = true)]
async fn no_controller_runs_when_an_operator_that_lost_its_lease_has_ended() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let election = election(&server, "us");
    let operator = Operator::builder()
        .leader_election(election.clone())
        .build();
    let added = operator.add_controller(count.lingers(None));
    added.expect("the operator is not running");
    let steal = async {
        until("it works", || count.now() == 1).await;
        set(&leases(&server), "them").await;
    };
    let run = async {
        let ended = operator.run_until(CancellationToken::new()).await;
        (ended, count.now(), election.is_leader())
    };
    let ((ended, running, is_leader), ()) = tokio::join!(run, steal);
    assert!(
        matches!(ended, Err(OperatorError::LeadershipLost { .. })),
        "{ended:?}"
    );
    assert_eq!((running, is_leader), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_label_on_the_lease_does_not_end_the_leadership() {
    let (server, count) = (ApiServer::new(), RunCount::default());
    let replica = Replica::start(election(&server, "us"), count.lingers(secs(0)));
    replica.leads().await;
    let patch = serde_json::json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = leases(&server)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("the object exists");
    sleep(secs(60)).await;
    assert_eq!(count.now(), 1);
    assert_eq!(
        replica.counted("leader_election_slowpath_total{name=\"web\"}"),
        Some("1".to_owned())
    );
    replica.stop().await.expect("no error");
    let lease = lease(&server).await;
    assert_eq!(lease.metadata.labels.map(|labels| labels.len()), Some(1));
}

//! Three replicas of one operator with leader election: only the leader runs its controller.

use std::{convert::Infallible, sync::Arc};

use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_controller::{
    FinalizerName, Finalizers, InformerController, OpinionatedReconciler, Runnable,
};
use windlass_operator::{LeaderElection, Operator};
use windlass_simulate::Process;

use super::{Bug, Ended, controller, publish::Publish};

pub(crate) async fn three_replicas(process: Process, bug: Option<Bug>) -> Ended {
    let election = LeaderElection::builder(process.client(), "default", "publisher")
        .identity(process.name())
        .build()?;
    let ignores_lease = bug == Some(Bug::ContinuesAfterTheLease);
    let client = if ignores_lease {
        process.client()
    } else {
        election.fence().client(process.client())
    };
    let (controller, sites) = controller(&process)?;
    let publish = process.handler("publish", Publish::new(&process, client.clone(), bug));
    let name = FinalizerName::new("simulate.windlass.dev/publisher")?;
    let finalizers = Finalizers::new(client, name)?;
    let publish = OpinionatedReconciler::new(finalizers, publish);
    controller.add_reconciler(&sites, publish)?;
    let operator = Operator::builder().leader_election(election).build();
    if ignores_lease {
        // It waits for the lease once, and never checks it again.
        let running = Arc::default();
        operator.add_controller(Once {
            controller,
            running: Arc::clone(&running),
        })?;
        _ = operator.run_until(process.stop()).await;
        return std::future::pending().await;
    }
    operator.add_controller(controller)?;
    Ok(operator.run_until(process.stop()).await?)
}

/// A controller that continues after it was dropped, until the process ends.
struct Once {
    controller: InformerController,
    running: Arc<Mutex<Option<AbortOnDropHandle<()>>>>,
}

impl Runnable for Once {
    type Error = Infallible;

    fn name(&self) -> &str {
        self.controller.name()
    }

    async fn run(&self, _: CancellationToken) -> Result<(), Infallible> {
        let controller = self.controller.clone();
        let stop = CancellationToken::new();
        let run = tokio::spawn(async move { _ = controller.run(stop).await });
        *self.running.lock() = Some(AbortOnDropHandle::new(run));
        std::future::pending().await
    }
}

//! Three replicas of one operator, of which one works.

use windlass_controller::OpinionatedReconciler;
use windlass_operator::{LeaderElection, Operator};
use windlass_simulate::Process;

use super::{Bug, Ended, controller, finalizers, publish::Publish};

pub(crate) async fn three_replicas(process: Process, bug: Option<Bug>) -> Ended {
    let election = LeaderElection::builder(process.client(), "default", "publisher")
        .identity(process.name())
        .build()?;
    let keeps_on = bug == Some(Bug::GoesOnAfterTheLease);
    let client = if keeps_on {
        process.client()
    } else {
        election.fence().client(process.client())
    };
    let controller = controller(&process)?;
    let publish = process.handler("publish", Publish::new(&process, client.clone(), bug));
    let finalizers = if keeps_on {
        finalizers(&process, "publisher")
    } else {
        windlass_controller::Finalizers::new(
            client,
            windlass_controller::FinalizerName::new("simulate.windlass.dev/publisher")?,
        )?
    };
    let publish = OpinionatedReconciler::new(finalizers, publish);
    controller.add_reconciler("sites", publish)?;
    let operator = Operator::builder().leader_election(election).build();
    if keeps_on {
        // It waits for the lease once, and never looks at it again.
        let stop = process.stop();
        operator.add_controller(Once(controller))?;
        _ = operator.run_until(stop).await;
        return std::future::pending().await;
    }
    operator.add_controller(controller)?;
    Ok(operator.run_until(process.stop()).await?)
}

/// A controller that goes on when it is dropped.
struct Once(windlass_controller::InformerController);

impl windlass_controller::Controller for Once {
    type Error = std::convert::Infallible;

    fn name(&self) -> &str {
        self.0.name()
    }

    async fn run(&self, stop: tokio_util::sync::CancellationToken) -> Result<(), Self::Error> {
        let controller = self.0.clone();
        tokio::spawn(async move { controller.run(stop).await });
        std::future::pending().await
    }
}

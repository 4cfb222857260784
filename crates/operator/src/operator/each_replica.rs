//! Tasks that run in each replica, also in one that does not lead.

use std::{pin::pin, sync::Arc};

use futures::future::join;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controller::{ErasedRunnable, Runnable};

use super::{
    Operator,
    controller_set::ControllerSet,
    registry::{Added, Place},
};
use crate::{AddControllerError, AdminLimits, OperatorError, admin::Serving};

// === impl Operator ===

impl Operator {
    /// Adds a task that runs in each replica, and not only in the one that leads: a
    /// [`Runnable`] whose `NeedLeaderElection` returns false, in controller-runtime.
    ///
    /// For informers whose stores webhooks read, for a store that is filled before this replica leads, and
    /// for servers. Without a [`LeaderElection`](crate::LeaderElection) it differs from
    /// [`add_controller`](Self::add_controller) only in the order of the stop.
    ///
    /// # Contract
    ///
    /// *Guaranteed.* It starts with the operator, and is stopped after all controllers and the webhook
    /// server have ended, so that webhooks can read its stores until their end. Then it has what is left of the [drain timeout](crate::OperatorBuilder::drain_timeout), and at least 100 ms.
    /// If it ends before, the operator stops. Its informers count on `/ready`, also while this replica
    /// stands by.
    ///
    /// *Required.* It writes nothing that two replicas must not write at the same time. It has no
    /// [`Fence`](windlass_controller::Fence), and a client of [`connect`](Self::connect) refuses its
    /// writes while this replica does not lead.
    ///
    /// # Errors
    ///
    /// Those of [`add_controller`](Self::add_controller).
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Api;
    /// use tokio_util::sync::CancellationToken;
    /// use windlass_apiserver::ApiServer;
    /// use windlass_controller::InformerController;
    /// use windlass_informer::{Informer, ListWatch};
    /// use windlass_operator::{LeaderElection, Operator};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = ApiServer::new().client();
    /// let stop = CancellationToken::new();
    /// let (mut elections, mut runs) = (Vec::new(), Vec::new());
    /// for replica in ["first", "second"] {
    ///     let election = LeaderElection::builder(client.clone(), "default", "website-operator");
    ///     let election = election.identity(replica).build()?;
    ///     let operator = Operator::builder().leader_election(election.clone()).build();
    ///
    ///     // Give its store to webhooks, and the informer to controllers: `Watch::from(&informer)`.
    ///     let configs = Api::<ConfigMap>::all(client.clone());
    ///     let informer = Informer::new(ListWatch::new(configs));
    ///     let cache = InformerController::builder().name("cache").build()?;
    ///     cache.add_informer(&cache.kind("configs")?, &informer)?;
    ///     operator.add_to_each_replica(cache)?;
    ///     // operator.add_controller(...)?;
    ///
    ///     let stop = stop.clone();
    ///     runs.push(tokio::spawn(async move { operator.run_until(stop).await }));
    ///     informer.synced().await?;
    ///     elections.push(election);
    /// }
    /// let leaders = elections.iter().filter(|it| it.is_leader()).count();
    /// assert!(leaders < 2, "both replicas have listed their objects, and at most one leads");
    /// stop.cancel();
    /// for run in runs {
    ///     run.await??;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_to_each_replica(&self, task: impl Runnable) -> Result<(), AddControllerError> {
        (self.shared.controllers).add(Arc::new(task), Place::EachReplica)
    }

    /// Runs the tasks of each replica and the controllers, until `stop` is cancelled or one of them
    /// ends. Then ends `webhooks`, which may read the stores of the tasks, and stops the tasks last.
    pub(super) async fn run_added(
        &self,
        added: Added,
        stop: &CancellationToken,
        webhooks: Option<Serving>,
    ) -> Result<(), OperatorError> {
        let drain = self.shared.drain;
        let mut tasks = ControllerSet::start(added.each_replica, CancellationToken::new());
        let drained_by = async {
            stop.cancelled().await;
            Instant::now().checked_add(drain)
        };
        let controllers = async {
            let outcome = self.run_controllers(added.controllers, stop).await;
            // Also after the lease was lost.
            stop.cancel();
            outcome
        };
        let mut running = pin!(join(drained_by, controllers));
        let (failed, (drained_by, outcome)) = tokio::select! {
            biased;
            error = tasks.failed() => {
                stop.cancel();
                (Err(error), running.await)
            }
            ended = &mut running => (Ok(()), ended),
        };
        if let Some(webhooks) = webhooks {
            webhooks.end(AdminLimits::WEBHOOKS_END).await;
        }
        let ended = tasks.end(drained_by, drain).await;
        // The first error is the cause of those after it.
        failed.and(outcome).and(ended)
    }

    /// Runs the controllers: with an election, while this replica leads.
    async fn run_controllers(
        &self,
        controllers: Vec<Arc<dyn ErasedRunnable>>,
        stop: &CancellationToken,
    ) -> Result<(), OperatorError> {
        // Boxed, because the future of an election is large and becomes part of the caller's.
        if let Some(election) = &self.shared.election {
            return Box::pin(self.lead(election, stop, controllers)).await;
        }
        let mut controllers = ControllerSet::start(controllers, stop.clone());
        controllers.run(self.shared.drain).await
    }
}

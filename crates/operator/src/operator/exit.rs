//! The time after which a blocked process exits.

use std::time::Duration;

use super::Operator;
use crate::AdminLimits;

/// The time after the drain timeout after which a blocked process exits. Longer than a stop takes:
/// 1 s to abort the controllers and release the lease, and 1 s to stop the admin server. The times of
/// webhooks and of tasks of each replica are added to it.
const EXIT_MARGIN: Duration = Duration::from_secs(3);

// === impl Operator ===

impl Operator {
    /// The time after a signal after which a blocked process exits.
    pub(super) fn exit_after(&self) -> Duration {
        /// To abort the tasks of each replica: they have 100 ms, and `ABORT_TIMEOUT`.
        const TASKS_END: Duration = Duration::from_secs(1);
        let webhooks = self.shared.webhook_metrics.as_ref();
        let webhooks = webhooks.map_or(Duration::ZERO, |_| AdminLimits::WEBHOOKS_END);
        let tasks = if self.shared.controllers.has_tasks() {
            TASKS_END
        } else {
            Duration::ZERO
        };
        let drain = self.shared.drain.saturating_add(EXIT_MARGIN);
        drain.saturating_add(webhooks).saturating_add(tasks)
    }
}

#[cfg(all(test, feature = "webhook"))]
mod tests {
    use windlass_controller::InformerController;

    use super::*;
    use crate::webhook::WebhookServer;

    #[test]
    fn a_blocked_process_exits_after_the_time_for_its_webhooks_and_tasks() {
        let seconds = Duration::from_secs;
        let builder = || Operator::builder().drain_timeout(seconds(20));
        assert_eq!(builder().build().exit_after(), seconds(23));
        let webhooks = WebhookServer::new(([127, 0, 0, 1], 0), "tls.crt", "tls.key");
        let operator = builder().webhook_server(webhooks).build();
        assert_eq!(operator.exit_after(), seconds(32));
        let task = InformerController::new();
        operator.add_to_each_replica(task).expect("a new name");
        assert_eq!(operator.exit_after(), seconds(33));
        let endless = Operator::builder().drain_timeout(Duration::MAX).build();
        assert_eq!(endless.exit_after(), Duration::MAX);
    }
}

//! Handlers around a wrapper that do not return its finalizer.

use std::{error::Error as _, sync::Arc};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use windlass_controller::{ErrorReport, InformerController, Outcome, Reconciler, Request, Watcher};

use crate::{
    support::{Rig, pass},
    world::OWN,
};

/// A handler that only passes on the calls.
struct Around<H>(H);

impl<R: Reconciler<Lease>> Reconciler<Lease> for Around<R> {
    type Error = R::Error;

    async fn reconcile(&self, request: Request<Lease>) -> Result<Outcome, R::Error> {
        self.0.reconcile(request).await
    }
}

impl<W: Watcher<Lease>> Watcher<Lease> for Around<W> {
    type Error = W::Error;

    async fn add(&self, object: Arc<Lease>) -> Result<(), W::Error> {
        self.0.add(object).await
    }
}

/// Without the events and the check of the finalizer's name, the wrapper would lose clean-ups.
#[tokio::test(start_paused = true)]
async fn a_wrapper_whose_finalizer_is_hidden_fails_each_call_and_writes_nothing() {
    for is_watcher in [true, false] {
        let (rig, errors) = (Rig::new(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&errors);
        let controller = InformerController::builder()
            .on_error(move |report: &ErrorReport<'_>| {
                let source = report.error.source().expect("the failure");
                seen.lock().push(source.to_string());
            })
            .build()
            .expect("good settings");
        let leases = controller.kind("leases").expect("a new kind");
        let added = if is_watcher {
            controller.add_watcher(&leases, Around(rig.watcher()))
        } else {
            controller.add_reconciler(&leases, Around(rig.reconciler()))
        };
        added.expect("added");
        let running = rig.start(controller, &leases, None).await;
        rig.world.create("web", 1).await;
        pass(3600).await;
        assert_eq!(rig.logged().await, "");
        assert_eq!(rig.world.finalizers("web").await, "");
        let errors = errors.lock().clone();
        assert_eq!(errors.len(), 1, "it is permanent: {errors:?}");
        for part in [OWN, "return the `finalizer` of the inner handler"] {
            assert!(errors[0].contains(part), "{}", errors[0]);
        }
        running.stop(&rig).await;
    }
}

/// Called directly, as in a test, there is no controller from which it could be hidden.
#[tokio::test(start_paused = true)]
async fn a_wrapper_that_is_called_directly_needs_no_controller() {
    let rig = Rig::new();
    rig.world.create("web", 1).await;
    let object = rig.world.object("web").await;
    let called = Around(rig.watcher()).add(object).await;
    called.expect("it is added");
    assert_eq!(rig.logged().await, "web [wip], add web=1, web [own]");
}

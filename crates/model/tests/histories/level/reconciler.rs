//! A reconciler that records its calls, and does in them what the script says.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use tokio::time::sleep;
use windlass_controller::{Context, Failure, ObjectReconciler, Outcome, Related};
use windlass_informer::ObjectKey;
use windlass_model::{Action, Attempt, Began, CallId, Entry, HandlerId, Outcome as Ended};

use super::{
    play::mapped,
    script::{NAMES, Plan, WriteForm},
    server,
};
use crate::{
    handler::{Call, PLANNED, failed},
    script::Behaviour,
    stage::{NAMESPACE, Stage, snapshot},
};

/// What the next calls do.
pub(super) type Plans = Arc<Mutex<VecDeque<Plan>>>;

/// A reconciler that records its calls.
pub(super) struct RecordedLevel {
    pub(super) others: Related<Lease, Lease>,
    pub(super) stage: Stage,
    pub(super) plans: Plans,
}

// === impl RecordedLevel ===

impl RecordedLevel {
    /// Writes to an object, and records the response.
    async fn write(
        &self,
        cx: &Context<Lease>,
        call: CallId,
        target: Option<char>,
        form: WriteForm,
    ) {
        let own = cx.key().name().to_owned();
        let name = target.map_or(own.clone(), String::from);
        let read = if name == own {
            Some(Arc::clone(cx.object()))
        } else {
            self.others.get(cx, &key(&name))
        };
        let version = read
            .as_deref()
            .and_then(|it| it.metadata.resource_version.clone());
        let precondition = version.as_deref().filter(|_| form == WriteForm::Guarded);
        let request = server::write(call, &name, form, precondition);
        let Ok(written) = cx.client().request::<Lease>(request).await else {
            return;
        };
        self.stage.log(Entry::Answered {
            call,
            version: snapshot(&written).version,
            proven: precondition.is_some()
                && written.metadata.resource_version.as_deref() != precondition,
        });
    }
}

impl ObjectReconciler<Lease> for RecordedLevel {
    type Error = Failure;

    async fn reconcile(&self, cx: Context<Lease>) -> Result<Outcome, Failure> {
        let stage = &self.stage;
        let mut call = Call::new(stage);
        let id = call.id;
        stage.log(Entry::Began(Began {
            call: id,
            handler: HandlerId(0),
            action: Action::Updated,
            old: None,
            object: snapshot(cx.object()),
            request: Some(Attempt {
                attempt: cx.attempt(),
                state: None,
                last: cx.last_attempt(),
            }),
        }));
        for name in NAMES.map(String::from) {
            let affects = mapped()
                .iter()
                .any(|(from, to)| **from == *name && **to == *cx.key().name());
            if affects && let Some(object) = self.others.get(&cx, &key(&name)) {
                let object = snapshot(&object);
                stage.log(Entry::Read { call: id, object });
            }
        }
        let plan = self.plans.lock().pop_front();
        if let Some((target, form)) = plan.and_then(|plan| plan.write) {
            self.write(&cx, id, target, form).await;
        }
        let (ended, result) = match plan.map_or(Behaviour::Succeed, |plan| plan.then) {
            Behaviour::Requeue(after) => {
                let after = Duration::from_secs(after);
                let ended = Ended::Requeue { after, state: None };
                (ended, Ok(Outcome::requeue_after(after)))
            }
            Behaviour::Fail => failed(None, None),
            Behaviour::FailAfter(after) => failed(Some(Duration::from_secs(after)), None),
            Behaviour::Panic => {
                call.end(Ended::Panicked);
                std::panic::panic_any(PLANNED);
            }
            // Simulated seconds: histories run on paused time.
            Behaviour::Slow(taken) => {
                sleep(Duration::from_secs(taken)).await;
                (Ended::Done, Ok(Outcome::done()))
            }
            Behaviour::SlowFail(taken) => {
                sleep(Duration::from_secs(taken)).await;
                failed(None, None)
            }
            _ => (Ended::Done, Ok(Outcome::done())),
        };
        call.end(ended);
        result
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within(NAMESPACE)
}

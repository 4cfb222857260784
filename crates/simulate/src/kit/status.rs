//! The status that the controller of a kind writes, for a test that plays this controller.

use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The status that a test writes with [`Kit::set_status`](super::Kit::set_status).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NewStatus {
    /// Merges a value into the status, by a JSON merge patch.
    Merge(Value),
    /// The status of an object that does its work: a `Deployment`, `StatefulSet` or `ReplicaSet` with
    /// all replicas, a `DaemonSet` on one node, a running `Pod`, a bound `PersistentVolumeClaim`.
    /// Objects of other kinds get the condition `Ready`, beside their other conditions.
    Ready,
    /// The status of a `Job` or `Pod` that has succeeded.
    Complete,
    /// The status of a `Job` or `Pod` that has failed, or of a `Deployment` whose progress deadline was
    /// exceeded. For objects of other kinds, the condition `Ready` becomes `False`.
    Failed,
}

/// An object whose status is written.
struct Target<'a> {
    object: &'a Value,
    now: String,
}

// === impl NewStatus ===

impl From<Value> for NewStatus {
    fn from(status: Value) -> Self {
        Self::Merge(status)
    }
}

impl NewStatus {
    /// What is merged into the status of an object. `Err` says why there is no such status.
    pub(super) fn content(
        self,
        kind: &str,
        object: &Value,
        now: SystemTime,
    ) -> Result<Value, String> {
        let now = Timestamp::try_from(now).unwrap_or_default();
        // To the second, as Kubernetes does.
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let target = Target { object, now };
        Ok(match (self, kind) {
            (Self::Merge(status), _) => return Ok(status),
            _ if object.is_null() => return Err("the object does not exist".to_owned()),
            (Self::Ready, "Job") => {
                return Err("a Job is never ready, use `Complete` or `Failed`".to_owned());
            }
            (Self::Ready, "Deployment" | "StatefulSet" | "ReplicaSet") => target.replicas(kind),
            (Self::Ready, "DaemonSet") => json!({
                "observedGeneration": target.generation(),
                "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1,
                "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
            }),
            (Self::Ready, "PersistentVolumeClaim") => json!({
                "phase": "Bound",
                "accessModes": object["spec"]["accessModes"],
                "capacity": object["spec"]["resources"]["requests"],
            }),
            (Self::Ready, "Pod") => target.pod("Running", "True"),
            (Self::Complete, "Pod") => target.pod("Succeeded", "False"),
            (Self::Failed, "Pod") => target.pod("Failed", "False"),
            (Self::Complete, "Job") => target.job(&["SuccessCriteriaMet", "Complete"]),
            (Self::Failed, "Job") => target.job(&["FailureTarget", "Failed"]),
            (Self::Complete, _) => return Err(format!("a {kind} is never complete")),
            (Self::Failed, "Deployment") => {
                target.condition("Progressing", "False", "ProgressDeadlineExceeded")
            }
            (Self::Ready, _) => target.condition("Ready", "True", "Ready"),
            (Self::Failed, _) => target.condition("Ready", "False", "Failed"),
        })
    }
}

// === impl Target ===

impl Target<'_> {
    fn generation(&self) -> &Value {
        &self.object["metadata"]["generation"]
    }

    /// The conditions of the object, with another state of one of them.
    fn condition(&self, kind: &str, state: &str, reason: &str) -> Value {
        let conditions = self.object["status"]["conditions"].as_array();
        let mut conditions = conditions.cloned().unwrap_or_default();
        conditions.retain(|it| it["type"] != kind);
        conditions.push(json!({
            "type": kind, "status": state, "reason": reason, "message": "set by the test",
            "lastTransitionTime": self.now,
        }));
        json!({ "conditions": conditions })
    }

    fn replicas(&self, kind: &str) -> Value {
        let wanted = self.object["spec"]["replicas"].as_u64().unwrap_or(1);
        let mut status = match kind {
            "Deployment" => self.condition("Available", "True", "MinimumReplicasAvailable"),
            _ => json!({}),
        };
        let updated = match kind {
            "Deployment" => &["updatedReplicas"][..],
            "StatefulSet" => &["updatedReplicas", "currentReplicas"],
            _ => &["fullyLabeledReplicas"],
        };
        for field in ["replicas", "readyReplicas", "availableReplicas"]
            .iter()
            .chain(updated)
        {
            status[*field] = wanted.into();
        }
        status["observedGeneration"] = self.generation().clone();
        status
    }

    fn pod(&self, phase: &str, ready: &str) -> Value {
        let is_running = phase == "Running";
        let state = if is_running {
            json!({ "running": { "startedAt": self.now } })
        } else {
            let code = u8::from(phase == "Failed");
            json!({ "terminated": { "exitCode": code, "finishedAt": self.now } })
        };
        let containers = self.object["spec"]["containers"].as_array();
        let containers = containers.into_iter().flatten().map(|it| {
            json!({
                "name": it["name"], "image": it["image"], "imageID": "", "restartCount": 0,
                "ready": is_running, "started": is_running, "state": state,
            })
        });
        let containers: Vec<_> = containers.collect();
        let conditions = [
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", ready),
            ("Ready", ready),
        ];
        let conditions = conditions.map(|(kind, status)| {
            json!({ "type": kind, "status": status, "lastTransitionTime": self.now })
        });
        json!({
            "phase": phase, "startTime": self.start(), "conditions": conditions,
            "containerStatuses": containers,
        })
    }

    /// The server accepts the end of a job only in this form.
    fn job(&self, conditions: &[&str]) -> Value {
        let is_complete = conditions.contains(&"Complete");
        let counted = if is_complete { "succeeded" } else { "failed" };
        let conditions = conditions
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True", "lastTransitionTime": self.now }));
        let conditions: Vec<_> = conditions.collect();
        let mut status = json!({
            "startTime": self.start(), "active": null, "ready": null, "conditions": conditions,
        });
        status[counted] = match &self.object["spec"]["completions"] {
            Value::Number(count) if is_complete => count.clone().into(),
            _ => 1.into(),
        };
        if is_complete {
            status["completionTime"] = self.now.as_str().into();
        }
        status
    }

    /// When the object started: no other time fits the creation and the end.
    fn start(&self) -> Value {
        match &self.object["status"]["startTime"] {
            Value::Null => self.object["metadata"]["creationTimestamp"].clone(),
            start => start.clone(),
        }
    }
}

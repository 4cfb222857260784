//! The cells of a pod. The status is computed from the states of the containers and the phase.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, int_at, list_at, str_at, text};
use crate::table::age;

/// The summary of the containers of a pod.
#[derive(Debug, Default)]
struct Sum<'a> {
    ready: usize,
    restarts: Restarts<'a>,
    reason: String,
}

/// The restarts of some containers.
#[derive(Debug, Default)]
struct Restarts<'a> {
    count: i64,
    /// The time at which the last container terminated before its restart. The order of the strings
    /// is the order of the times.
    last: Option<&'a str>,
}

pub(in super::super) fn ready(object: &Value, _: Timestamp) -> Value {
    let sidecars = list_at(object, "/spec/initContainers")
        .iter()
        .filter(|c| is_sidecar(c));
    let all = list_at(object, "/spec/containers").len() + sidecars.count();
    format!("{}/{all}", Sum::of(object).ready).into()
}

pub(in super::super) fn status(object: &Value, _: Timestamp) -> Value {
    let phase = str_at(object, "/status/phase", "");
    let is_over = matches!(phase, "Failed" | "Succeeded");
    if crate::metadata::field(object, "deletionTimestamp").is_some() {
        if str_at(object, "/status/reason", "") == "NodeLost" {
            return "Unknown".into();
        } else if !is_over {
            return "Terminating".into();
        }
    }
    Sum::of(object).reason.into()
}

pub(in super::super) fn restarts(object: &Value, now: Timestamp) -> Value {
    let Restarts { count, last } = Sum::of(object).restarts;
    match last {
        Some(last) if count != 0 => {
            let ago = age::since(Some(&last.into()), now);
            format!("{count} ({ago} ago)").into()
        }
        _ => count.to_string().into(),
    }
}

pub(in super::super) fn ip(object: &Value, _: Timestamp) -> Value {
    text(
        object,
        "/status/podIPs/0/ip",
        str_at(object, "/status/podIP", NONE),
    )
}

pub(in super::super) fn node(object: &Value, _: Timestamp) -> Value {
    text(object, "/spec/nodeName", NONE)
}

pub(in super::super) fn nominated_node(object: &Value, _: Timestamp) -> Value {
    text(object, "/status/nominatedNodeName", NONE)
}

pub(in super::super) fn readiness_gates(object: &Value, _: Timestamp) -> Value {
    let gates = list_at(object, "/spec/readinessGates");
    let open = gates.iter().filter(|gate| {
        condition(object, str_at(gate, "/conditionType", ""))
            .is_some_and(|condition| str_at(condition, "/status", "") == "True")
    });
    if gates.is_empty() {
        return NONE.into();
    }
    format!("{}/{}", open.count(), gates.len()).into()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(object, "/status/conditions")
        .iter()
        .find(|condition| str_at(condition, "/type", "") == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| str_at(condition, "/status", "") == "True")
}

/// Returns whether an init container is a sidecar, which runs as long as the pod.
fn is_sidecar(container: &Value) -> bool {
    str_at(container, "/restartPolicy", "") == "Always"
}

/// Returns the reason, signal or exit code of a terminated container.
fn ending(terminated: &Value) -> String {
    let signal = int_at(terminated, "/signal");
    match str_at(terminated, "/reason", "") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", int_at(terminated, "/exitCode")),
        reason => reason.to_owned(),
    }
}

// === impl Sum ===

impl<'a> Sum<'a> {
    fn of(object: &'a Value) -> Self {
        let phase = str_at(object, "/status/phase", "");
        let mut sum = Self {
            reason: str_at(object, "/status/reason", phase).to_owned(),
            ..Self::default()
        };
        let scheduled = condition(object, "PodScheduled");
        if scheduled.is_some_and(|c| str_at(c, "/reason", "") == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut sum.reason);
        }
        let (initializing, sidecar_restarts) = sum.add_init_containers(object);
        if !initializing || is_true(object, "Initialized") {
            sum.restarts = sidecar_restarts;
            sum.add_containers(object);
        }
        sum
    }

    /// Returns whether an init container has not completed, and the restarts of the sidecars.
    fn add_init_containers(&mut self, object: &'a Value) -> (bool, Restarts<'a>) {
        let containers = list_at(object, "/spec/initContainers");
        let mut sidecar_restarts = Restarts::default();
        for (i, status) in list_at(object, "/status/initContainerStatuses")
            .iter()
            .enumerate()
        {
            let name = str_at(status, "/name", "");
            let stays = containers
                .iter()
                .any(|c| str_at(c, "/name", "") == name && is_sidecar(c));
            self.restarts.add(status);
            if stays {
                sidecar_restarts.add(status);
            }
            let terminated = status.pointer("/state/terminated");
            if terminated.is_some_and(|state| int_at(state, "/exitCode") == 0) {
                continue;
            }
            if stays && status.get("started") == Some(&Value::Bool(true)) {
                self.ready += usize::from(status.get("ready") == Some(&Value::Bool(true)));
                continue;
            }
            let waiting = str_at(status, "/state/waiting/reason", "");
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", ending(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{i}/{}", containers.len()),
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    fn add_containers(&mut self, object: &'a Value) {
        let mut runs = false;
        let mut failure = None;
        for status in list_at(object, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waiting = str_at(status, "/state/waiting/reason", "");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = status.pointer("/state/terminated") {
                self.reason = ending(terminated);
                if int_at(terminated, "/exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status.get("ready") == Some(&Value::Bool(true))
                && status.pointer("/state/running").is_some()
            {
                runs = true;
                self.ready += 1;
            }
        }
        // Other containers can run after one has completed.
        if self.reason == "Completed" {
            if runs && is_true(object, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if runs {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

// === impl Restarts ===

impl<'a> Restarts<'a> {
    fn add(&mut self, status: &'a Value) {
        self.count += int_at(status, "/restartCount");
        let ended = status.pointer("/lastState/terminated/finishedAt");
        self.last = self.last.max(ended.and_then(Value::as_str));
    }
}

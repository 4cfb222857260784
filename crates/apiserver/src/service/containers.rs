//! Requests to the containers of a pod: logs, and the sessions of commands and port forwards.
//!
//! The registered functions of [`Hooks`](crate::containers::Hooks) produce the responses.

use http::{Response, StatusCode};
use serde_json::Value;

use super::resources::ResourceRequest;
use super::{ResponseBody, reply};
use crate::containers::LogRequest;
use crate::status::Status;
use crate::wire::LogOptions;

mod session;

pub(super) use self::session::Session;
use self::session::{MAX_PORTS, StreamTarget};

// === impl ResourceRequest ===

impl ResourceRequest<'_> {
    /// Responds with the log of a container, or starts a session.
    pub(super) fn connect(&self) -> Result<Response<ResponseBody>, Status> {
        let key = self.key();
        let shared = &self.service.shared;
        let subresource = self.path.subresource.as_deref().unwrap_or_default();
        let limits = match subresource {
            "log" => LogOptions::parse(&self.query, &key.name)?,
            _ => LogOptions::default(),
        };
        let pod = shared.read(|cluster| cluster.get(&self.resource, &key).cloned())?;
        let spec = &pod.value()["spec"];
        let container = match subresource {
            "portforward" => String::new(),
            _ => container(spec, &key.name, self.query.get("container"))?,
        };
        let hooks = &shared.hooks;
        let flag = |name: &str| self.query.flag(name).unwrap_or_default();
        let (namespace, pod) = (key.namespace.to_string(), key.name.to_string());
        let target = match subresource {
            "log" => {
                if let Some(logs) = &hooks.logs {
                    let log = logs(LogRequest {
                        namespace,
                        pod,
                        container,
                        previous: flag("previous"),
                    });
                    let end = end_of_log(&log, limits.tail_lines, limits.limit_bytes);
                    return Ok(reply::text(StatusCode::OK, end));
                }
                None
            }
            "portforward" => {
                let ports = self.values("ports");
                let ports = ports.iter().flat_map(|ports| ports.split(','));
                let ports: Result<Vec<u16>, _> = ports.map(str::parse).collect();
                let ports = ports.unwrap_or_default();
                hooks
                    .port_forward
                    .as_ref()
                    .map(|_| StreamTarget::Ports(ports))
            }
            _ => hooks.exec.as_ref().map(|_| StreamTarget::Container {
                container,
                command: self.values("command"),
                tty: flag("tty"),
                stdin: flag("stdin"),
                stdout: flag("stdout"),
                stderr: flag("stderr"),
            }),
        };
        let Some(target) = target else {
            return without_hook(subresource, &key.name, spec);
        };
        if let StreamTarget::Ports(ports) = &target
            && (ports.is_empty() || ports.len() > MAX_PORTS)
        {
            let message = format!("a port forward names from 1 to {MAX_PORTS} ports in \"ports\"");
            return Err(Status::bad_request(message));
        }
        let mut response = reply::refusal(&Status::bad_request(
            "Upgrade request required: this server connects to containers over a WebSocket with \
             the protocol v5.channel.k8s.io or v4.channel.k8s.io, and not over SPDY",
        ));
        response.extensions_mut().insert(Session {
            hooks: hooks.clone(),
            namespace,
            pod,
            target,
        });
        Ok(response)
    }

    /// Returns all values of a query parameter.
    fn values(&self, wanted: &str) -> Vec<String> {
        let query = self.call.parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let values = pairs.filter(|(key, _)| key == wanted);
        values.map(|(_, value)| value.into_owned()).collect()
    }
}

/// Returns the container that a request addresses.
fn container(spec: &Value, pod: &str, wanted: &str) -> Result<String, Status> {
    let names = |list: &str| -> Vec<&str> {
        let list = spec[list].as_array().into_iter().flatten();
        list.filter_map(|it| it["name"].as_str()).collect()
    };
    let containers = names("containers");
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all: Vec<_> = lists.into_iter().flat_map(names).collect();
    if !wanted.is_empty() {
        if all.contains(&wanted) {
            return Ok(wanted.to_owned());
        }
        let message = format!("container {wanted} is not valid for pod {pod}");
        return Err(Status::bad_request(message));
    }
    if let [only] = containers.as_slice() {
        return Ok((*only).to_owned());
    }
    let message = format!("a container name must be specified for pod {pod}");
    Err(Status::bad_request(if containers.is_empty() {
        message
    } else {
        format!("{message}, choose one of: [{}]", all.join(" "))
    }))
}

/// Returns the error if no hook is registered, which equals kube-apiserver's for a pod without a node.
fn without_hook(
    subresource: &str,
    pod: &str,
    spec: &Value,
) -> Result<Response<ResponseBody>, Status> {
    let (hook, is_log) = match subresource {
        "log" => ("logs", true),
        "portforward" => ("port_forward", false),
        _ => ("exec", false),
    };
    match spec["nodeName"].as_str().unwrap_or_default() {
        "" if is_log => Ok(reply::text(StatusCode::NO_CONTENT, "")),
        "" => {
            let message = format!("pod {pod} does not have a host assigned");
            Err(Status::bad_request(message))
        }
        node => Err(Status::internal(&format!(
            "no kubelet runs on node {node:?}: this server has no containers. Register a hook with \
             ApiServer::builder().{hook}(..)"
        ))),
    }
}

/// Returns the last lines of a log, limited to their first bytes.
fn end_of_log(log: &str, lines: Option<usize>, bytes: Option<usize>) -> String {
    let lines = match lines {
        None => log,
        Some(0) => "",
        Some(count) => {
            let whole = log.strip_suffix('\n').unwrap_or(log);
            let start = whole.rmatch_indices('\n').nth(count - 1);
            start.map_or(log, |(at, _)| &log[at + 1..])
        }
    };
    let mut end = bytes.unwrap_or(usize::MAX).min(lines.len());
    while !lines.is_char_boundary(end) {
        end -= 1;
    }
    lines[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::end_of_log;

    #[test]
    fn the_tail_of_a_log_is_limited_by_lines_and_bytes() {
        for (log, lines, bytes, expected) in [
            ("a\nb\nc\n", None, None, "a\nb\nc\n"),
            ("a\nb\nc\n", Some(2), None, "b\nc\n"),
            ("a\nb\nc", Some(2), None, "b\nc"),
            ("a\nb\n", Some(9), None, "a\nb\n"),
            ("a\nb\n", Some(0), None, ""),
            ("a\nbc\n", Some(1), Some(1), "b"),
            ("\u{e4}\n", None, Some(1), ""),
        ] {
            assert_eq!(end_of_log(log, lines, bytes), expected, "{log:?}");
        }
    }
}

//! Requests to the containers of a pod: logs, and WebSocket sessions with numbered channels.
//!
//! The registered functions of [`Hooks`](crate::containers::Hooks) produce the responses. Each
//! message is one byte with the number of its channel, and data. The buffers of a session are
//! bounded: backpressure pauses the client if the function does not read, and the function if the
//! client does not read.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream::{self, SelectAll};
use futures::{SinkExt as _, Stream, StreamExt as _};
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::resources::ResourceRequest;
use super::{ResponseBody, reply};
use crate::containers::{ContainerSession, ForwardedPort, Hooks, LogRequest};
use crate::status::Status;
use crate::wire::LogOptions;

/// The WebSocket subprotocols, the preferred one first. Only the first can close standard input.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The maximum size of the unread data of a stream, in bytes.
const BUFFER: usize = 16 * 1024;

/// The maximum size of a message from a client, in bytes. Clients send at most 32 KiB (client-go) or
/// a few KiB (kube) per message.
const MAX_RECEIVED: usize = 1024 * 1024;

/// The maximum number of ports of a session: each has two channels, whose numbers are one byte.
const MAX_PORTS: usize = 64;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// In the newer protocol: closes the channel whose number follows.
const CLOSE: u8 = 255;

/// The session that a client requests. It is an extension of the response for clients that do not
/// open a WebSocket.
#[derive(Clone, Debug)]
pub(super) struct Session {
    hooks: Hooks,
    namespace: String,
    pod: String,
    target: StreamTarget,
}

#[derive(Clone, Debug)]
enum StreamTarget {
    Container {
        container: String,
        command: Vec<String>,
        tty: bool,
        stdin: bool,
        stdout: bool,
        stderr: bool,
    },
    Ports(Vec<u16>),
}

/// The output of one channel, as messages.
type Output = Pin<Box<dyn Stream<Item = (u8, Bytes)> + Send>>;

/// The future of a hook, which returns the last message of the session.
type Job = Pin<Box<dyn Future<Output = Option<Message>> + Send>>;

/// The channels of a running session.
struct Channels {
    inputs: BTreeMap<u8, WriteHalf<DuplexStream>>,
    outputs: SelectAll<Output>,
    first: Vec<Message>,
    job: Job,
}

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

// === impl Session ===

impl Session {
    /// Selects the subprotocol of the session; `None` if the client offers no supported one.
    pub(super) fn protocol(offered: &str) -> Option<&'static str> {
        let mut known = PROTOCOLS.into_iter();
        known.find(|known| offered.split(',').any(|it| it.trim() == *known))
    }

    /// Connects the client to the hook until the hook returns, the client disconnects, or `stop` is
    /// cancelled.
    pub(super) async fn run(
        self,
        on_upgrade: OnUpgrade,
        stop: CancellationToken,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Some(Channels {
            mut inputs,
            mut outputs,
            first,
            mut job,
        }) = self.channels()
        else {
            return Ok(());
        };
        let upgraded = TokioIo::new(on_upgrade.await?);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_RECEIVED))
            .max_frame_size(Some(MAX_RECEIVED));
        let role = Role::Server;
        let mut socket = WebSocketStream::from_raw_socket(upgraded, role, Some(config)).await;
        for message in first {
            socket.send(message).await?;
        }
        // The unread data of a channel. No message is received until the hook has read it.
        let (mut to, mut pending) = (STDIN, Bytes::new());
        let (mut end, mut has_output) = (None, true);
        while end.is_none() || has_output {
            tokio::select! {
                () = stop.cancelled() => break,
                received = socket.next(), if pending.is_empty() => {
                    let Some(message) = received else {
                        return Ok(());
                    };
                    let Message::Binary(mut bytes) = message? else {
                        // The library responds to pings and to the close of the connection.
                        continue;
                    };
                    match bytes.first().copied() {
                        Some(CLOSE) => {
                            if let Some(channel) = bytes.get(1) {
                                inputs.remove(channel);
                            }
                        }
                        Some(channel) if inputs.contains_key(&channel) => {
                            bytes.advance(1);
                            (to, pending) = (channel, bytes);
                        }
                        // The size of a terminal, or data for a closed stream.
                        _ => {}
                    }
                }
                written = write(inputs.get_mut(&to), &pending), if !pending.is_empty() => {
                    pending.advance(written);
                    if written == 0 {
                        inputs.remove(&to);
                        pending.clear();
                    }
                }
                output = outputs.next(), if has_output => match output {
                    Some((channel, bytes)) => socket.send(message(channel, &bytes)).await?,
                    None => has_output = false,
                },
                last = &mut job, if end.is_none() => end = Some(last),
            }
        }
        if let Some(Some(last)) = end {
            socket.send(last).await?;
        }
        let frame = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        socket.close(Some(frame)).await?;
        Ok(())
    }

    /// Calls the hook, with the streams of its channels.
    fn channels(self) -> Option<Channels> {
        let Self {
            hooks,
            namespace,
            pod,
            target,
        } = self;
        let (mut inputs, mut outputs) = (BTreeMap::new(), SelectAll::new());
        let mut first = Vec::new();
        let job: Job = match target {
            StreamTarget::Container {
                container,
                command,
                tty,
                stdin,
                stdout,
                stderr,
            } => {
                let hook = hooks.exec?;
                let (mine, theirs) = tokio::io::duplex(BUFFER);
                if stdin {
                    inputs.insert(STDIN, tokio::io::split(mine).1);
                }
                let mut output = |channel, is_wanted: bool| {
                    let (mine, theirs) = tokio::io::duplex(BUFFER);
                    let messages = read(channel, tokio::io::split(mine).0);
                    let wanted = messages.filter(move |_| std::future::ready(is_wanted));
                    outputs.push(Box::pin(wanted) as Output);
                    theirs
                };
                let work = hook(ContainerSession {
                    namespace,
                    pod,
                    container,
                    command,
                    tty,
                    stdin: theirs,
                    stdout: output(STDOUT, stdout),
                    stderr: output(STDERR, stderr),
                });
                Box::pin(async move {
                    let status = exit_status(work.await).to_string();
                    Some(message(ERROR, status.as_bytes()))
                })
            }
            StreamTarget::Ports(ports) => {
                let hook = hooks.port_forward?;
                let mut work = Vec::new();
                for (index, port) in (0..).step_by(2).zip(ports) {
                    let (mine, theirs) = tokio::io::duplex(BUFFER);
                    let (reader, writer) = tokio::io::split(mine);
                    inputs.insert(index, writer);
                    outputs.push(Box::pin(read(index, reader)) as Output);
                    for channel in [index, index + 1] {
                        first.push(message(channel, &port.to_le_bytes()));
                    }
                    work.push(hook(ForwardedPort {
                        namespace: namespace.clone(),
                        pod: pod.clone(),
                        port,
                        stream: theirs,
                    }));
                }
                Box::pin(async move {
                    futures::future::join_all(work).await;
                    None
                })
            }
        };
        Some(Channels {
            inputs,
            outputs,
            first,
            job,
        })
    }
}

/// Writes a part of `bytes`. Returns 0 if the reader is closed.
async fn write(input: Option<&mut WriteHalf<DuplexStream>>, bytes: &[u8]) -> usize {
    match input {
        Some(input) => input.write(bytes).await.unwrap_or_default(),
        None => 0,
    }
}

/// Returns the data that is written to a stream as messages with the number of its channel.
fn read(channel: u8, reader: ReadHalf<DuplexStream>) -> impl Stream<Item = (u8, Bytes)> + Send {
    stream::unfold(reader, move |mut reader| async move {
        let mut bytes = BytesMut::with_capacity(BUFFER);
        let count = reader.read_buf(&mut bytes).await.unwrap_or_default();
        (count > 0).then(|| ((channel, bytes.freeze()), reader))
    })
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(data.len() + 1);
    bytes.put_u8(channel);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.freeze())
}

/// Returns the exit code of a command as a `Status`.
fn exit_status(code: u8) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
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

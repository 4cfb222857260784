//! A session with a container over a WebSocket, with numbered channels.
//!
//! Each message is one byte with the number of its channel, and data. The buffers of a session are
//! bounded: backpressure pauses the client if the function does not read, and the function if the
//! client does not read.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream::{self, SelectAll};
use futures::{SinkExt as _, Stream, StreamExt as _};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use crate::containers::{ContainerSession, ForwardedPort, Hooks};

/// The WebSocket subprotocols, the preferred one first. Only the first can close standard input.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The maximum size of the unread data of a stream, in bytes.
const BUFFER: usize = 16 * 1024;

/// The maximum size of a message from a client, in bytes. Clients send at most 32 KiB (client-go) or
/// a few KiB (kube) per message.
const MAX_RECEIVED: usize = 1024 * 1024;

/// The maximum number of ports of a session: each has two channels, whose numbers are one byte.
pub(super) const MAX_PORTS: usize = 64;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// In the newer protocol: closes the channel whose number follows.
const CLOSE: u8 = 255;

/// The session that a client requests. It is an extension of the response for clients that do not
/// open a WebSocket.
#[derive(Clone, Debug)]
pub(in super::super) struct Session {
    pub(super) hooks: Hooks,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) target: StreamTarget,
}

#[derive(Clone, Debug)]
pub(super) enum StreamTarget {
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

// === impl Session ===

impl Session {
    /// Selects the subprotocol of the session; `None` if the client offers no supported one.
    pub(in super::super) fn protocol(offered: &str) -> Option<&'static str> {
        let mut known = PROTOCOLS.into_iter();
        known.find(|known| offered.split(',').any(|it| it.trim() == *known))
    }

    /// Connects the client to the hook until the hook returns, the client disconnects, or `stop` is
    /// cancelled.
    pub(in super::super) async fn run(
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

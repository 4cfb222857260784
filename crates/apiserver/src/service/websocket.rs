//! Watches over a WebSocket, which the fabric8 client requests, and sessions with containers.
//!
//! Each event of a watch is one message: text for JSON, and binary for protobuf. A client that closes
//! the connection ends the watch, and the server closes the connection when the watch ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sha1::{Digest as _, Sha1};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ResponseBody;
use super::containers::Session;
use super::reply::Streamed;
use super::site;

/// The maximum size of a message from the client of a watch, which sends only control frames.
const MAX_RECEIVED: usize = 4 * 1024;

/// The WebSocket handshake of a request.
#[derive(Debug)]
pub(super) struct Handshake {
    on_upgrade: OnUpgrade,
    key: HeaderValue,
    /// The subprotocols that the client offers.
    protocols: String,
    has_origin: bool,
    is_own_origin: bool,
}

// === impl Handshake ===

impl Handshake {
    /// Returns the handshake of a request; `None` if it has none or its connection has no upgrade.
    pub(super) fn of(parts: &mut Parts) -> Option<Self> {
        let headers = &parts.headers;
        let has = |name: HeaderName, word: &str| {
            let values = headers.get_all(name).into_iter();
            let mut words = values
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','));
            words.any(|it| it.trim().eq_ignore_ascii_case(word))
        };
        if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
            return None;
        }
        let key = headers.get(SEC_WEBSOCKET_KEY)?.clone();
        let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
        let protocols: Vec<_> = protocols.filter_map(|it| it.to_str().ok()).collect();
        let protocols = protocols.join(",");
        let has_origin = headers.contains_key(ORIGIN);
        let is_own_origin = site::is_own_origin(parts);
        let on_upgrade = parts.extensions.remove::<OnUpgrade>()?;
        Some(Self {
            on_upgrade,
            key,
            protocols,
            has_origin,
            is_own_origin,
        })
    }

    /// Upgrades the connection if `response` belongs to a watch or a session, which a task in `tasks`
    /// then serves. As in kube-apiserver, other responses are sent without an upgrade.
    pub(super) fn respond(
        self,
        mut response: Response<ResponseBody>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Response<ResponseBody> {
        if let Some(session) = response.extensions_mut().remove::<Session>() {
            return self.connect(response, session, tasks, stop);
        }
        let Some(streamed) = response.extensions().get::<Streamed>().copied() else {
            return response;
        };
        if !self.is_own_origin {
            return empty(StatusCode::FORBIDDEN);
        }
        // The server must select an offered subprotocol.
        let protocol = self.protocols.split(',').next().map(str::trim);
        let switched = self.switched(protocol.filter(|protocol| !protocol.is_empty()));
        let events = response.into_body();
        tasks.spawn(async move {
            if let Err(error) = send(self.on_upgrade, events, streamed).await {
                tracing::debug!(error = &*error, "the WebSocket of a watch broke");
            }
        });
        switched
    }

    /// Upgrades the connection for a session if the client offers a supported subprotocol.
    fn connect(
        self,
        response: Response<ResponseBody>,
        session: Session,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Response<ResponseBody> {
        let Some(protocol) = Session::protocol(&self.protocols) else {
            return response;
        };
        // Clients other than browsers send no origin here.
        if self.has_origin && !self.is_own_origin {
            return empty(StatusCode::FORBIDDEN);
        }
        let switched = self.switched(Some(protocol));
        tasks.spawn(async move {
            if let Err(error) = session.run(self.on_upgrade, stop).await {
                tracing::debug!(error = &*error, "the WebSocket of a session broke");
            }
        });
        switched
    }

    /// Returns the response to the handshake, with the selected subprotocol.
    fn switched(&self, protocol: Option<&str>) -> Response<ResponseBody> {
        let mut switched = empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = switched.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&accept(self.key.as_bytes())) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = protocol.and_then(|it| HeaderValue::from_str(it).ok()) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        switched
    }
}

fn empty(code: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(""));
    *response.status_mut() = code;
    response
}

/// Returns the accept value for the key of a client (RFC 6455, section 4.2.2).
fn accept(key: &[u8]) -> String {
    const PROTOCOL: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let digest = Sha1::new().chain_update(key).chain_update(PROTOCOL);
    STANDARD.encode(digest.finalize())
}

/// Sends events until the watch ends or the client closes the connection.
async fn send(
    on_upgrade: OnUpgrade,
    mut events: ResponseBody,
    streamed: Streamed,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let upgraded = TokioIo::new(on_upgrade.await?);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_RECEIVED))
        .max_frame_size(Some(MAX_RECEIVED));
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let mut read = BytesMut::new();
    loop {
        tokio::select! {
            received = socket.next() => match received {
                // The library responds to pings and to the close of the connection during a read.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            frame = events.frame() => {
                let Some(Ok(frame)) = frame else {
                    break;
                };
                if let Ok(bytes) = frame.into_data() {
                    read.extend_from_slice(&bytes);
                }
                while let Some(event) = split(&mut read, streamed) {
                    let message = if streamed.is_binary {
                        Message::Binary(event)
                    } else {
                        Message::Text(event.try_into()?)
                    };
                    socket.send(message).await?;
                }
            }
        }
    }
    let end = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    socket.close(Some(end)).await?;
    Ok(())
}

/// Removes the first complete event from the buffer of a watch: a line with its line feed, or a frame
/// without its length prefix.
fn split(read: &mut BytesMut, streamed: Streamed) -> Option<Bytes> {
    /// The size of the length prefix of a frame, in bytes.
    const LENGTH: usize = 4;

    if !streamed.is_binary {
        let end = read.iter().position(|byte| *byte == b'\n')?;
        return Some(read.split_to(end + 1).freeze());
    }
    let length = read.first_chunk::<LENGTH>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    if read.len() - LENGTH < length {
        return None;
    }
    read.advance(LENGTH);
    Some(read.split_to(length).freeze())
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{Streamed, accept, split};

    #[test]
    fn the_accept_key_is_that_of_the_standard() {
        // From RFC 6455, section 1.3.
        let answer = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn events_are_split_where_they_end() {
        for (is_binary, bytes, events) in [
            (false, &b"a\nbc\nd"[..], &["a\n", "bc\n"][..]),
            (true, b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03c", &["ab", ""]),
            (true, b"\0\0", &[]),
        ] {
            let mut read = BytesMut::from(bytes);
            let found = std::iter::from_fn(|| split(&mut read, Streamed { is_binary }));
            assert!(found.eq(events), "{bytes:?}");
        }
    }
}

//! The response body of a watch, which injects faults before it delivers events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ResponseBody;

use super::{BoxError, ReplyBody, Target};
use crate::{
    Fault,
    fault::StepKind,
    world::{Origin, World},
};

/// The delay of a delayed event.
const DELAY: Duration = Duration::from_secs(30);

/// The response body of a watch: receives lines from the server, and delivers them to a process.
struct Events {
    world: Arc<World>,
    origin: Origin,
    target: Target,
    cut: CancellationToken,
    body: ResponseBody,
    /// The received bytes of an incomplete line.
    partial: BytesMut,
    /// Lines that are ready for delivery.
    ready: VecDeque<Bytes>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The body ends after the lines that are ready, as when the server closes the watch.
    Ending,
    /// The body fails after the lines that are ready, as when the connection breaks.
    Breaking,
    /// The body stays open without further lines.
    Silent,
}

/// The parts of a watch event that decide about faults.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    change: String,
    object: Value,
}

/// Returns the response body of a watch request.
pub(super) fn events(
    world: Arc<World>,
    origin: Origin,
    target: Target,
    cut: CancellationToken,
    body: ResponseBody,
) -> ReplyBody {
    let events = Events {
        world,
        origin,
        target,
        cut,
        body,
        partial: BytesMut::new(),
        ready: VecDeque::new(),
        state: State::Open,
    };
    let frames = stream::unfold(events, |mut events| async {
        let line = events.next().await?;
        Some((line.map(Frame::data), events))
    });
    StreamBody::new(frames).boxed_unsync()
}

// === impl Events ===

impl Events {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            match self.state {
                State::Open => {}
                State::Ending => return None,
                State::Breaking => {
                    self.state = State::Ending;
                    return Some(Err(super::connection_error("the connection was reset")));
                }
                State::Silent => std::future::pending().await,
            }
            let cut = self.cut.clone();
            let Some(line) = cut.run_until_cancelled(self.line()).await.flatten() else {
                self.world.halt_if_crashed(self.origin).await;
                let text = format!("   watch {} ended", self.target.resource);
                self.world.log(Some(self.origin), &text);
                return None;
            };
            cut.run_until_cancelled(self.deliver(line)).await?;
        }
    }

    /// Reads the next line from the server.
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                return Some(self.partial.split_to(end + 1).freeze());
            }
            let frame = self.body.frame().await?;
            let Ok(frame) = frame;
            if let Some(data) = frame.data_ref() {
                self.partial.extend_from_slice(data);
            }
        }
    }

    /// Delivers a line to the process, with the fault that the plan has for it.
    async fn deliver(&mut self, line: Bytes) {
        let world = Arc::clone(&self.world);
        let event: Option<Line> = serde_json::from_slice(&line).ok();
        let version = event.as_ref().and_then(|event| {
            let version = event.object["metadata"]["resourceVersion"].as_str()?;
            version.parse().ok()
        });
        sleep(world.latency()).await;
        world
            .wait_for_revision(self.origin, version.unwrap_or_default())
            .await;
        world.wait_for_partition_end(self.origin).await;
        world.halt_if_crashed(self.origin).await;
        let Some(event) = event.filter(|event| event.change != "BOOKMARK") else {
            self.ready.push_back(line);
            return;
        };
        let path = self.target.object_path(&event.object);
        let version = version.unwrap_or_default();
        let text = format!("event {} {path} version {version}", event.change);
        let fault = world.step(self.origin, StepKind::Event, &text, Some(&path));
        match fault {
            Some(Fault::CrashBefore) => {
                world.crash(self.origin);
                std::future::pending::<()>().await;
            }
            Some(Fault::Gap) => self.state = State::Ending,
            Some(Fault::CutBefore) => self.state = self.cut_state(),
            Some(Fault::CutAfter) => {
                self.ready.push_back(line);
                self.state = self.cut_state();
            }
            Some(Fault::Expired) => self.fail(410, "Expired", "too old resource version"),
            Some(Fault::WatchError) => self.fail(500, "InternalError", "the server failed"),
            Some(Fault::Duplicate) => self.ready.extend([line.clone(), line]),
            Some(Fault::Delay) => {
                sleep(DELAY).await;
                self.ready.push_back(line);
            }
            Some(Fault::Truncate) => {
                self.ready.push_back(line.slice(..line.len() / 2));
                self.state = State::Breaking;
            }
            Some(Fault::Silence) => self.state = State::Silent,
            Some(Fault::Freeze) => {
                world.freeze().await;
                self.ready.push_back(line);
            }
            _ => self.ready.push_back(line),
        }
    }

    /// The state of a watch that is cut: with equal probability closed by the server or broken.
    fn cut_state(&self) -> State {
        match self.world.random(0..=1) {
            0 => State::Ending,
            _ => State::Breaking,
        }
    }

    /// Ends the watch with an error in place of an event.
    fn fail(&mut self, code: u16, reason: &str, message: &str) {
        let error = json!({ "type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        } });
        self.ready.push_back(format!("{error}\n").into());
        self.state = State::Ending;
    }
}

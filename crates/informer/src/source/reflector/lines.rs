//! The lines of watches and streamed lists.

use bytes::Bytes;
use kube::Resource;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Reflector, StepError};
use crate::{
    DecodeError, ObjectIdentity as _, StoredForm, Verb,
    api_request::ServerStatus,
    decode::{Line, RawJson},
    message::one_line,
    source::{Change, Stopped},
};

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<String>,
}

// === impl Reflector ===

impl<K, O> Reflector<'_, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// Processes one line. Returns whether it shows that the server makes progress: an event or
    /// bookmark of a watch does, and an `ADDED` of a streamed list. Changes during a streamed list
    /// do not, because they can come without end.
    pub(super) async fn line(&mut self, line: Bytes) -> Result<bool, StepError> {
        let is_following = self.session.is_following();
        let object = Line::added_or_modified(&line).filter(|_| !self.reads_identity_first());
        if !is_following {
            // Other lines without end are ended by the silence limit.
            if Line::is_added(&line) {
                self.count_listed()?;
            }
            if let Some(object) = object
                && self.workers.should_offload()
            {
                let read = self
                    .workers
                    .put(
                        &self.decoder,
                        self.changes.subscribers(),
                        line.slice_ref(object),
                    )
                    .await;
                self.send_items(read).await?;
                return Ok(Line::is_added(&line));
            }
            self.drain_workers().await?;
        }
        if let Some(object) = object
            && let Ok(object) = self.read(RawJson::of(object))
        {
            let object = self.send_decoded(object).await?;
            if let Some(version) = object.resource_version() {
                self.session.advance_to(version);
            }
            return Ok(is_following || Line::is_added(&line));
        }
        let Line { event_type, object } =
            Line::read(&line).map_err(|error| self.requests.malformed(Verb::Watch, error))?;
        match &*event_type {
            "ADDED" | "MODIFIED" => {
                let identity = self
                    .send_existing(Verb::Watch, RawJson::whole(object))
                    .await?;
                let is_kept = self.is_kept(&identity);
                self.advance_to(identity.resource_version());
                self.show_progress(is_kept).await?;
            }
            "DELETED" => {
                let identity = self.decoder.identity(object);
                let identity =
                    identity.map_err(|error| self.requests.malformed(Verb::Watch, error))?;
                let version = identity.resource_version.clone();
                self.quarantine.forget(&identity.key);
                let is_kept = self.is_kept(&identity);
                if is_kept {
                    let last = self.read(RawJson::whole(object)).ok();
                    let deleted = Change::Deleted { identity, last };
                    self.changes.send(deleted).await?;
                }
                self.advance_to(version.as_deref());
                self.show_progress(is_kept).await?;
            }
            "BOOKMARK" => return self.bookmark(object).await,
            "ERROR" => {
                let status = ServerStatus::read(500, object, None);
                return Err(self.requests.status_error(Verb::Watch, status).into());
            }
            // An unknown event type. Its object may be a change that must not be missed, so the
            // watch ends here.
            _ => {
                let error = DecodeError::Kind {
                    expected: "a watch event".to_owned(),
                    found: one_line(&event_type).into_owned(),
                };
                return Err(self.requests.malformed(Verb::Watch, error).into());
            }
        }
        Ok(is_following || event_type == "ADDED")
    }

    /// Processes a bookmark. Returns whether it shows that the server makes progress. A bookmark
    /// with an old version does not.
    async fn bookmark(&mut self, object: &[u8]) -> Result<bool, StepError> {
        let Ok(bookmark) = serde_json::from_slice::<Bookmark>(object) else {
            return Ok(false);
        };
        let version = bookmark.metadata.resource_version;
        if version.is_empty() {
            return Ok(false);
        }
        let is_listing = !self.session.is_following();
        let ends = bookmark
            .metadata
            .annotations
            .is_some_and(|annotations| annotations.initial_events_end.as_deref() == Some("true"));
        if is_listing && ends {
            self.session.end_streamed_list(&version)?;
            self.may_show_known = false;
            for object in std::mem::take(&mut self.held_back) {
                self.send_existing(Verb::Watch, RawJson::whole(&object))
                    .await?;
            }
            self.end_list(version).await?;
            self.changes.send(Change::Connected).await?;
            return Ok(true);
        }
        if is_listing {
            return Ok(false);
        }
        self.session.on_bookmark();
        if self.session.is_stale(&version) {
            return Ok(false);
        }
        self.session.advance_to(&version);
        self.send_progress().await?;
        Ok(true)
    }

    fn advance_to(&mut self, version: Option<&str>) {
        if let Some(version) = version {
            self.session.advance_to(version);
        }
    }

    /// Sends the version of an event whose object is not kept, as if it was that of a bookmark.
    async fn show_progress(&mut self, is_kept: bool) -> Result<(), Stopped> {
        if is_kept || !self.session.is_following() {
            return Ok(());
        }
        self.send_progress().await
    }

    async fn send_progress(&mut self) -> Result<(), Stopped> {
        let Some(version) = self.session.complete() else {
            return Ok(());
        };
        let resource_version = version.to_owned();
        self.changes
            .send(Change::Progress { resource_version })
            .await
    }
}

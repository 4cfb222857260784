//! Paged lists, whose objects are processed as they arrive.

use std::time::Duration;

use bytes::Bytes;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::{Reflector, StepError};
use crate::{
    StoredForm, Verb,
    decode::{Page, PageMeta, RawJson},
    source::workers::DecodedItem,
    watch::NextRequest,
};

// === impl Reflector ===

impl<K, O> Reflector<'_, K, O>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    O: StoredForm<K>,
{
    /// Reads one page of a list, and sends its objects as they arrive.
    pub(super) async fn list(&mut self, request: &NextRequest) -> Result<(), StepError> {
        let response = self.requests.send(request, Duration::ZERO).await?;
        let mut body = response.into_body();
        let mut page = Page::new(self.requests.max_bytes);
        let mut time_budget = self.requests.time_budget();
        let mut begun = false;
        while let Some(chunk) = self
            .requests
            .chunk(&mut body, Verb::List, &mut time_budget)
            .await?
        {
            page.push(chunk);
            loop {
                let next = page.next();
                // The metadata first, so that a page with several errors fails with the same one
                // however its chunks are cut.
                if !begun && let Some(metadata) = page.metadata() {
                    self.begin_page(metadata).await?;
                    begun = true;
                }
                match next.map_err(|error| self.requests.unreadable(error))? {
                    Some(item) => self.process_item(item).await?,
                    None => break,
                }
            }
        }
        let metadata = page
            .end()
            .map_err(|error| self.requests.malformed(Verb::List, error))?;
        if !begun {
            self.begin_page(&metadata).await?;
        }
        self.drain_workers().await?;
        self.has_new_objects();
        let is_new = std::mem::take(&mut self.repetition.is_page_new);
        if let Some(version) = self.session.end_page(&metadata, is_new)? {
            self.end_list(version).await?;
        }
        Ok(())
    }

    /// Requests the version of the server before a silent watch resumes.
    pub(super) async fn version(&mut self, request: &NextRequest) -> Result<(), StepError> {
        let response = self.requests.send(request, Duration::ZERO).await?;
        let mut body = response.into_body();
        let mut page = Page::new(self.requests.max_bytes);
        let mut time_budget = self.requests.time_budget();
        let unreadable = |error| self.requests.unreadable(error);
        while let Some(chunk) = self
            .requests
            .chunk(&mut body, Verb::List, &mut time_budget)
            .await?
        {
            page.push(chunk);
            while page.next().map_err(unreadable)?.is_some() {}
        }
        let metadata = page
            .end()
            .map_err(|error| self.requests.malformed(Verb::List, error))?;
        Ok(self.session.on_version(&metadata)?)
    }

    /// Checks the metadata of a page before its items are used.
    async fn begin_page(&mut self, metadata: &PageMeta) -> Result<(), StepError> {
        let went_back = self.session.check(metadata)?;
        if self.session.begins_list() {
            self.begin_list(true, went_back).await?;
        }
        Ok(())
    }

    /// Processes one object of a list.
    async fn process_item(&mut self, json: Bytes) -> Result<(), StepError> {
        self.count_listed()?;
        if !self.reads_identity_first() && self.workers.should_offload() {
            let subscribers = self.changes.subscribers();
            let read = self.workers.put(&self.decoder, subscribers, json).await;
            return self.send_items(read).await;
        }
        let raw = RawJson::whole(&json);
        if !self.reads_identity_first()
            && let Ok(object) = self.read(raw)
        {
            self.send_decoded(object).await?;
        } else {
            self.send_existing(Verb::List, raw).await?;
        }
        Ok(())
    }

    /// Sends all objects that the workers still have.
    pub(super) async fn drain_workers(&mut self) -> Result<(), StepError> {
        loop {
            let subscribers = self.changes.subscribers();
            let read = self.workers.next(&self.decoder, subscribers).await;
            if read.is_empty() {
                return Ok(());
            }
            self.send_items(read).await?;
        }
    }

    /// Sends objects of a list. Objects that did not decode are read step by step, which finds the
    /// cause.
    pub(super) async fn send_items(
        &mut self,
        read: impl IntoIterator<Item = DecodedItem<O>>,
    ) -> Result<(), StepError> {
        for DecodedItem { json, object } in read {
            if let Some(object) = object {
                self.send_decoded(object).await?;
            } else {
                self.send_existing(Verb::List, RawJson::of(&json)).await?;
            }
        }
        Ok(())
    }
}

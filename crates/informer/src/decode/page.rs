//! Splits one page of a list into items as it arrives. *(pure)*

use std::{collections::VecDeque, mem};

use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

use super::{
    DecodeError,
    fields::{Fields, shape},
    nesting::Nesting,
    utf8,
    value_scanner::ValueScanner,
};

/// Splits a page that arrives in chunks into items, without decoding them.
///
/// An item within one chunk is a slice of it, not a copy. Items are returned before the page is
/// complete, but after the metadata of the list.
///
/// Memory is bounded by the longest item, [`MAX_EARLY_BYTES`](Self::MAX_EARLY_BYTES) and
/// [`LONGEST_FIELD`](Self::LONGEST_FIELD). Each byte is read once. Fields that are not used are not
/// kept.
#[derive(Debug)]
pub(crate) struct Page {
    position: PagePosition,

    /// The unread rest of the last chunk.
    chunk: Bytes,

    /// The beginning of an incomplete item, field name or value, from earlier chunks.
    rest: BytesMut,

    metadata: Option<PageMeta>,

    /// Whether the field `items` has come.
    has_items: bool,

    /// Items that came before the metadata.
    early: VecDeque<Bytes>,

    /// Their size in bytes.
    early_bytes: usize,

    longest: usize,
}

/// The position in the page.
#[derive(Debug)]
enum PagePosition {
    /// Before the first byte.
    Start,
    /// Before or within the name of a field, or before the end of the page.
    Fields,
    /// Before the value of a field.
    Before(Field),
    /// Within the value of a field.
    Within(Field, ValueScanner),
    /// Between two items.
    Items,
    /// Within an item.
    Item(Nesting),
    /// After the last byte.
    End,
}

/// A field of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Metadata,
    Items,
    /// A field that is not used.
    Other,
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMeta {
    /// The version of the whole list, the same on every page.
    #[serde(default)]
    pub(crate) resource_version: Option<String>,

    /// The `continue` token of the next page; empty on the last one.
    #[serde(rename = "continue", default)]
    pub(crate) continue_token: Option<String>,
}

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error(transparent)]
    Malformed(#[from] DecodeError),

    #[error("an object of more than {limit} bytes")]
    TooLong { limit: usize },

    #[error("its metadata comes after more than {limit} bytes of items")]
    Late { limit: usize },
}

// === impl Page ===

impl Page {
    /// The maximum size of items before the metadata, in bytes. API servers write the metadata
    /// first, but a server that sorts its fields does not; then the page is kept until its end.
    const MAX_EARLY_BYTES: usize = 32 * 1024 * 1024;

    /// The maximum size of the metadata of a list: a version and a token.
    const LONGEST_FIELD: usize = 1024 * 1024;

    /// The maximum size of a field name with the white space around it.
    const LONGEST_NAME: usize = 1024;

    /// Begins a page whose items have at most `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            position: PagePosition::Start,
            chunk: Bytes::new(),
            rest: BytesMut::new(),
            metadata: None,
            has_items: false,
            early: VecDeque::new(),
            early_bytes: 0,
            longest,
        }
    }

    /// Adds the next chunk. All items of the previous one must have been taken.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "items of the last chunk were left");
        self.chunk = chunk;
    }

    /// Returns the next complete item.
    ///
    /// # Errors
    ///
    /// [`PageError`] if the text is not a page, or an item is too long.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, PageError> {
        loop {
            if self.metadata.is_some()
                && let Some(item) = self.early.pop_front()
            {
                return Ok(Some(item));
            }
            let item = match &mut self.position {
                PagePosition::Start | PagePosition::Fields => {
                    if !self.name()? {
                        return Ok(None);
                    }
                    continue;
                }
                PagePosition::Before(_) | PagePosition::Within(..) => {
                    if !self.value()? {
                        return Ok(None);
                    }
                    continue;
                }
                PagePosition::Items => {
                    let between = |byte: &u8| !matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r');
                    let next = self.chunk.iter().position(between);
                    self.chunk.advance(next.unwrap_or(self.chunk.len()));
                    match self.chunk.first() {
                        None => return Ok(None),
                        Some(b'{') => self.position = PagePosition::Item(Nesting::default()),
                        Some(b']') => {
                            self.chunk.advance(1);
                            self.position = PagePosition::Fields;
                        }
                        Some(_) => return Err(shape("items", "expected an object").into()),
                    }
                    continue;
                }
                PagePosition::Item(nesting) => match nesting.end(&self.chunk) {
                    None => {
                        self.keep(self.chunk.len(), self.longest)?;
                        return Ok(None);
                    }
                    Some(end) => {
                        self.position = PagePosition::Items;
                        let last = self.chunk.split_to(end);
                        if self.rest.is_empty() {
                            last
                        } else {
                            self.rest.extend_from_slice(&last);
                            self.rest.split().freeze()
                        }
                    }
                },
                PagePosition::End => {
                    if self.metadata.is_none() && self.has_items {
                        // A list without versions may have no metadata.
                        self.metadata = Some(PageMeta::default());
                        continue;
                    }
                    self.chunk.clear();
                    return Ok(None);
                }
            };
            if item.len() > self.longest {
                let limit = self.longest;
                return Err(PageError::TooLong { limit });
            }
            if self.metadata.is_some() {
                return Ok(Some(item));
            }
            let bytes = item.len().saturating_add(size_of::<Bytes>());
            self.early_bytes = self.early_bytes.saturating_add(bytes);
            if self.early_bytes > Self::MAX_EARLY_BYTES {
                let limit = Self::MAX_EARLY_BYTES;
                return Err(PageError::Late { limit });
            }
            // A copy: a slice would keep its whole chunk, most of which may be white space.
            self.early.push_back(Bytes::copy_from_slice(&item));
        }
    }

    /// The metadata, once they were read. Before that no item is returned.
    pub(crate) const fn metadata(&self) -> Option<&PageMeta> {
        self.metadata.as_ref()
    }

    /// Ends the page after its last byte.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the page is incomplete.
    pub(crate) fn end(self) -> Result<PageMeta, DecodeError> {
        if !matches!(self.position, PagePosition::End) {
            return Err(Fields::of(&self.rest).malformed());
        }
        let metadata = self.metadata;
        let metadata = metadata.ok_or_else(|| shape("metadata", "missing field `metadata`"))?;
        // Not a list: without items and version it must not remove all objects.
        if !self.has_items
            && metadata
                .resource_version
                .as_deref()
                .is_none_or(str::is_empty)
        {
            return Err(shape("items", "missing field `items`"));
        }
        Ok(metadata)
    }

    /// Reads the name of a field, or the end of the page. Returns false if it is incomplete.
    fn name(&mut self) -> Result<bool, PageError> {
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(&self.chunk);
            self.chunk = self.rest.split().freeze();
        }
        let mut fields = Fields::of(&self.chunk);
        let is_in = !matches!(self.position, PagePosition::Start) || fields.enter();
        // An error may be an incomplete name, until the limit is reached.
        let name = if is_in { fields.next().ok() } else { None };
        let Some(name) = name else {
            let malformed = fields.malformed();
            return match self.keep(self.chunk.len(), Self::LONGEST_NAME) {
                Ok(()) => Ok(false),
                Err(_) => Err(malformed.into()),
            };
        };
        self.position = match name.as_deref() {
            None => PagePosition::End,
            // The version of the list is checked before its items are used, so that a second one
            // must not replace it.
            Some(b"metadata") if self.metadata.is_some() => {
                return Err(shape("metadata", "duplicate field").into());
            }
            Some(b"items") if self.has_items => {
                return Err(shape("items", "duplicate field").into());
            }
            Some(b"items") => {
                self.has_items = true;
                PagePosition::Before(Field::Items)
            }
            Some(b"metadata") => PagePosition::Before(Field::Metadata),
            Some(_) => PagePosition::Before(Field::Other),
        };
        let read = fields.at();
        self.chunk.advance(read);
        Ok(true)
    }

    /// Reads the value of a field, or its next part. Returns false if it is incomplete.
    fn value(&mut self) -> Result<bool, PageError> {
        if let PagePosition::Before(field) = self.position {
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            let first = self.chunk.iter().position(|byte| !space(byte));
            self.chunk.advance(first.unwrap_or(self.chunk.len()));
            let Some(first) = self.chunk.first().copied() else {
                return Ok(false);
            };
            if field == Field::Items && first == b'[' {
                self.chunk.advance(1);
                self.position = PagePosition::Items;
                return Ok(true);
            }
            self.position = PagePosition::Within(field, ValueScanner::of(first));
        }
        let PagePosition::Within(field, scanner) = &mut self.position else {
            return Ok(true);
        };
        let (field, end) = (*field, scanner.end(&self.chunk));
        let read = end.unwrap_or(self.chunk.len());
        if field == Field::Other {
            self.chunk.advance(read);
        } else {
            self.keep(read, Self::LONGEST_FIELD)?;
        }
        if end.is_none() {
            return Ok(false);
        }
        self.position = PagePosition::Fields;
        let value = mem::take(&mut self.rest);
        match field {
            Field::Items if &*value != b"null" => {
                Err(shape("items", "invalid type, expected a list").into())
            }
            Field::Metadata => {
                let metadata = serde_json::from_str::<Option<PageMeta>>(utf8(&value)?);
                let metadata = metadata.map_err(|it| DecodeError::of(&it, "metadata"))?;
                self.metadata = Some(metadata.unwrap_or_default());
                Ok(true)
            }
            Field::Items | Field::Other => Ok(true),
        }
    }

    /// Keeps the next `length` bytes of a value of at most `limit` bytes.
    fn keep(&mut self, length: usize, limit: usize) -> Result<(), PageError> {
        self.rest.extend_from_slice(&self.chunk.split_to(length));
        if self.rest.len() > limit {
            self.rest = BytesMut::new();
            return Err(PageError::TooLong { limit });
        }
        Ok(())
    }
}

// === impl PageMeta ===

impl PageMeta {
    /// The token of the next page, unless this is the last one.
    pub(crate) fn next(&self) -> Option<&str> {
        self.continue_token
            .as_deref()
            .filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests;

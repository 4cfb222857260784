//! One page of a list, its items handed out as they arrive. *(pure)*

use std::{collections::VecDeque, mem};

use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

use super::{
    DecodeError,
    fields::{Fields, shape},
    json::Reader,
    nesting::Nesting,
    skim::Skim,
    utf8,
};

/// Cuts a page that arrives in chunks into its items, none of them decoded.
///
/// An item that came within one chunk is a slice of it, not a copy; and no item waits for the
/// page's last byte. Items wait for the list's metadata, where a server writes it behind them.
///
/// Memory is bounded: by the longest item, [`EARLY`](Self::EARLY) and
/// [`LONGEST_FIELD`](Self::LONGEST_FIELD). Each byte is read once, whatever the chunks; fields
/// that are not used are not kept.
#[derive(Debug)]
pub(crate) struct Page {
    place: Place,

    /// What is not read yet of the last chunk.
    chunk: Bytes,

    /// What came before it of an item, a field's name or a value, that has not ended.
    rest: BytesMut,

    metadata: Option<PageMeta>,

    /// Items that came before the metadata.
    early: VecDeque<Bytes>,

    /// How many bytes they take.
    early_bytes: usize,

    longest: usize,
}

/// Where in the page we are.
#[derive(Debug)]
enum Place {
    /// Before its first byte.
    Start,
    /// Before the name of a field, or within it, or before the page's end.
    Fields,
    /// Before the value of a field.
    Before(Field),
    /// Within the value of a field.
    Within(Field, Skim),
    /// Between two items.
    Items,
    /// Within an item.
    Item(Nesting),
    /// Behind its last byte.
    End,
}

/// A field of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Metadata,
    Items,
    /// One that is not used.
    Other,
}

/// What a page says about the list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMeta {
    /// The version of the whole list, the same on every page.
    #[serde(default)]
    pub(crate) resource_version: Option<String>,

    /// Where the next page begins; empty on the last.
    #[serde(rename = "continue", default)]
    pub(crate) continue_token: Option<String>,
}

/// Why a page cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error(transparent)]
    Garbled(#[from] DecodeError),

    #[error("an object of more than {limit} bytes")]
    TooLong { limit: usize },

    #[error("its metadata comes after more than {limit} bytes of items")]
    Late { limit: usize },
}

// === impl Page ===

impl Page {
    /// What items that came before the metadata may take, in bytes. No API server writes them so, but one
    /// that sorts its fields does; then a page is kept until its end.
    const EARLY: usize = 32 * 1024 * 1024;

    /// The metadata of a list: a version and a token.
    const LONGEST_FIELD: usize = 1024 * 1024;

    /// The name of a field, with the white space around it.
    const LONGEST_NAME: usize = 1024;

    /// Begins a page none of whose items may be of more than `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            place: Place::Start,
            chunk: Bytes::new(),
            rest: BytesMut::new(),
            metadata: None,
            early: VecDeque::new(),
            early_bytes: 0,
            longest,
        }
    }

    /// Takes the next chunk. Every item of the one before must have been taken.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "items of the last chunk were left");
        self.chunk = chunk;
    }

    /// The next item, if all of it has come.
    ///
    /// # Errors
    ///
    /// [`PageError`] if it is not a page, or an item of it is too long.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, PageError> {
        loop {
            if self.metadata.is_some()
                && let Some(item) = self.early.pop_front()
            {
                return Ok(Some(item));
            }
            let item = match &mut self.place {
                Place::Start | Place::Fields => {
                    if !self.name()? {
                        return Ok(None);
                    }
                    continue;
                }
                Place::Before(_) | Place::Within(..) => {
                    if !self.value()? {
                        return Ok(None);
                    }
                    continue;
                }
                Place::Items => {
                    let between = |byte: &u8| !matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r');
                    let next = self.chunk.iter().position(between);
                    self.chunk.advance(next.unwrap_or(self.chunk.len()));
                    match self.chunk.first() {
                        None => return Ok(None),
                        Some(b'{') => self.place = Place::Item(Nesting::default()),
                        Some(b']') => {
                            self.chunk.advance(1);
                            self.place = Place::Fields;
                        }
                        Some(_) => return Err(shape("items", "expected an object").into()),
                    }
                    continue;
                }
                Place::Item(nesting) => match nesting.end(&self.chunk) {
                    None => {
                        self.keep(self.chunk.len(), self.longest)?;
                        return Ok(None);
                    }
                    Some(end) => {
                        self.place = Place::Items;
                        let last = self.chunk.split_to(end);
                        if self.rest.is_empty() {
                            last
                        } else {
                            self.rest.extend_from_slice(&last);
                            self.rest.split().freeze()
                        }
                    }
                },
                Place::End => {
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
            if self.early_bytes > Self::EARLY {
                let limit = Self::EARLY;
                return Err(PageError::Late { limit });
            }
            self.early.push_back(item);
        }
    }

    /// What the page says about the list, once it has said it; before that no item is handed
    /// out.
    pub(crate) const fn metadata(&self) -> Option<&PageMeta> {
        self.metadata.as_ref()
    }

    /// The page's last byte has come.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if that cannot be.
    pub(crate) fn end(self) -> Result<PageMeta, DecodeError> {
        if !matches!(self.place, Place::End) {
            return Err(Fields::of(&self.rest).malformed());
        }
        let metadata = self.metadata;
        metadata.ok_or_else(|| shape("metadata", "missing field `metadata`"))
    }

    /// Reads the name of a field, or the page's end. False if not all of it has come.
    fn name(&mut self) -> Result<bool, PageError> {
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(&self.chunk);
            self.chunk = self.rest.split().freeze();
        }
        let mut fields = Fields::of(&self.chunk);
        let is_in = !matches!(self.place, Place::Start) || fields.enter();
        // What looks wrong may be what has not come yet; at the end we know.
        let name = if is_in { fields.next().ok() } else { None };
        let Some(name) = name else {
            let garbled = fields.malformed();
            return match self.keep(self.chunk.len(), Self::LONGEST_NAME) {
                Ok(()) => Ok(false),
                Err(_) => Err(garbled.into()),
            };
        };
        self.place = match name.as_deref() {
            None => Place::End,
            Some(b"items") => Place::Before(Field::Items),
            Some(b"metadata") => Place::Before(Field::Metadata),
            Some(_) => Place::Before(Field::Other),
        };
        let read = fields.at();
        self.chunk.advance(read);
        Ok(true)
    }

    /// Reads the value of a field, or what has come of it. False if that is not all.
    fn value(&mut self) -> Result<bool, PageError> {
        if let Place::Before(field) = self.place {
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            let first = self.chunk.iter().position(|byte| !space(byte));
            self.chunk.advance(first.unwrap_or(self.chunk.len()));
            let Some(first) = self.chunk.first().copied() else {
                return Ok(false);
            };
            if field == Field::Items && first == b'[' {
                self.chunk.advance(1);
                self.place = Place::Items;
                return Ok(true);
            }
            self.place = Place::Within(field, Skim::of(first));
        }
        let Place::Within(field, skim) = &mut self.place else {
            return Ok(true);
        };
        let (field, end) = (*field, skim.end(&self.chunk));
        let read = end.unwrap_or(self.chunk.len());
        if field == Field::Other {
            self.chunk.advance(read);
        } else {
            self.keep(read, Self::LONGEST_FIELD)?;
        }
        if end.is_none() {
            return Ok(false);
        }
        self.place = Place::Fields;
        let value = mem::take(&mut self.rest);
        match field {
            Field::Items if &*value != b"null" => {
                Err(shape("items", "invalid type, expected a list").into())
            }
            Field::Metadata => {
                let text = utf8(&value)?;
                let metadata = Reader::read(text);
                self.metadata = Some(metadata.map_err(|problem| problem.at(text, "metadata"))?);
                Ok(true)
            }
            Field::Items | Field::Other => Ok(true),
        }
    }

    /// Keeps the next `length` bytes, of something that may have no more than `limit`.
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
    /// Where the next page begins, unless this is the last.
    pub(crate) fn next(&self) -> Option<&str> {
        self.continue_token
            .as_deref()
            .filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::Page;

    const HEAD: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"#;

    #[test]
    fn items_are_whole_however_they_were_cut() {
        check(
            &[HEAD, r#""items":[{"a":1},{"b":[2]}]}"#],
            r#"{"a":1} {"b":[2]} 7"#,
        );
        check(
            &[
                HEAD,
                r#""items":[{"a""#,
                ":1}",
                ",",
                r#"{"b":[2]}"#,
                "]",
                "}",
            ],
            r#"{"a":1} {"b":[2]} 7"#,
        );
        check(
            &["{ \"metadata\" : {\"resourceVersion\":\"7\"} ,\n \"items\" : [ {} ,\n {} ] }\n"],
            "{} {} 7",
        );
    }

    #[test]
    fn an_item_is_there_before_the_page_is_whole() {
        let mut page = Page::new(100);
        page.push(Bytes::from(format!(r#"{HEAD}"items":[{{"a":1}},{{"b""#)));
        let item = page.next().expect("a page").expect("an item");
        assert_eq!(item, r#"{"a":1}"#);
        assert_eq!(page.next().expect("a page"), None);
    }

    #[test]
    fn a_list_of_nothing_has_no_items() {
        check(&[HEAD, r#""items":[]}"#], "7");
        check(&[HEAD, r#""items":null}"#], "7");
        check(&[r#"{"metadata":{"resourceVersion":"7"}}"#], "7");
    }

    #[test]
    fn items_before_the_metadata_wait_for_it() {
        check(
            &[
                r#"{"items":[{"a":1},"#,
                r#"{}],"metadata":{"resourceVersion":"7"}}"#,
            ],
            r#"{"a":1} {} 7"#,
        );
    }

    #[test]
    fn a_field_that_is_not_used_is_not_kept_however_long_it_is() {
        let mut page = Page::new(100);
        page.push(Bytes::from_static(b"{\"junk\":\""));
        let mut kept = 0;
        for _ in 0..1000 {
            assert_eq!(page.next().expect("a page"), None);
            kept = kept.max(page.rest.capacity());
            page.push(Bytes::from(vec![b'x'; 4096]));
        }
        assert_eq!(page.next().expect("a page"), None);
        assert!(kept < 1024, "{kept} bytes are kept");
        page.push(Bytes::from_static(b"\\\"\",\"x\":[[{\"items\":1}]],"));
        assert_eq!(page.next().expect("a page"), None);
        page.push(Bytes::from_static(b"\"items\":[{}],\"metadata\":{}}"));
        assert_eq!(page.next().expect("a page").as_deref(), Some(&b"{}"[..]));
    }

    /// An object of more than 1 MiB is not kept where a version and a token belong, and items
    /// do not wait for metadata without bound.
    #[test]
    fn what_is_kept_of_a_page_is_bounded() {
        let mut page = Page::new(usize::MAX);
        page.push(Bytes::from_static(b"{\"metadata\":{\"x\":\""));
        let error = fill(&mut page, &[b'x'; 8192], 1_048_576);
        assert_eq!(error, "an object of more than 1048576 bytes");

        let mut page = Page::new(usize::MAX);
        page.push(Bytes::from_static(b"{\"items\":["));
        let item = format!("{{\"a\":\"{}\"}},", "x".repeat(65_536));
        let error = fill(&mut page, item.as_bytes(), 33_554_432);
        assert_eq!(
            error,
            "its metadata comes after more than 33554432 bytes of items"
        );

        let mut page = Page::new(usize::MAX);
        page.push(Bytes::from(vec![b'<'; 2000]));
        let error = page.next().expect_err("no page").to_string();
        assert_eq!(error, "not valid JSON at line 1, column 1");
    }

    /// Pushes `chunk` until that is an error, which it is when about `limit` bytes were pushed.
    fn fill(page: &mut Page, chunk: &[u8], limit: usize) -> String {
        let mut pushed = 0_usize;
        loop {
            if let Err(error) = page.next() {
                assert!(pushed.abs_diff(limit) <= 2 * chunk.len(), "{pushed} bytes");
                return error.to_string();
            }
            assert!(pushed <= 2 * limit, "{pushed} bytes are kept");
            page.push(Bytes::copy_from_slice(chunk));
            pushed += chunk.len();
        }
    }

    #[test]
    fn what_is_no_page_says_why() {
        check(&["<html>"], "not valid JSON at line 1, column 1");
        check(
            &[HEAD, r#""items":[{"a":1}"#],
            r#"{"a":1} not valid JSON at line 1, column 1"#,
        );
        check(
            &[r#"{"kind":"PodList"}"#],
            "metadata: missing field `metadata`",
        );
        check(
            &[HEAD, r#""items":{}}"#],
            "items: invalid type, expected a list",
        );
        check(&[HEAD, r#""items":[7]}"#], "items: expected an object");
        check(
            &[r#"{"metadata":{"resourceVersion":7}}"#],
            "metadata: invalid type, expected a string",
        );
        check(
            &[HEAD, r#""items":[{"a":""#, &"a".repeat(100)],
            "an object of more than 100 bytes",
        );
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_items(cuts in prop::collection::vec(1usize..9, 0..60)) {
            let text = format!(r#"{HEAD}"items":[{{"a":"}}\u00e9é"}},{{}},{{"b":[1,{{"c":null}}]}}],"x":[1]}}"#);
            let mut chunks = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            chunks.push(rest);
            prop_assert_eq!(run(&chunks), run(&[text.as_bytes()]));
        }
    }

    #[track_caller]
    fn check(chunks: &[&str], expected: &str) {
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
        assert_eq!(run(&chunks), expected, "{chunks:?}");
    }

    /// The items, and then the version of the list, or what is wrong.
    fn run(chunks: &[&[u8]]) -> String {
        let mut page = Page::new(100);
        let mut said = Vec::new();
        for chunk in chunks {
            page.push(Bytes::copy_from_slice(chunk));
            loop {
                match page.next() {
                    Ok(None) => break,
                    Ok(Some(item)) => said.push(String::from_utf8_lossy(&item).into_owned()),
                    Err(error) => {
                        said.push(error.to_string());
                        return said.join(" ");
                    }
                }
            }
        }
        said.push(match page.end() {
            Ok(metadata) => metadata.resource_version.unwrap_or_default(),
            Err(error) => error.to_string(),
        });
        said.join(" ")
    }
}

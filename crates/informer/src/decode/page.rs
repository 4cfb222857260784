//! One page of a list, its items handed out as they arrive. *(pure)*

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

use super::{
    DecodeError,
    fields::{Fields, shape},
    json::Reader,
    nesting::Nesting,
    utf8,
};

/// Cuts a page that arrives in chunks into its items, none of them decoded.
///
/// An item that came within one chunk is a slice of it, not a copy; and no item waits for the
/// page's last byte. Should a server write the list's metadata behind its items, they do.
#[derive(Debug)]
pub(crate) struct Page {
    place: Place,

    /// What is not read yet of the last chunk.
    chunk: Bytes,

    /// What came before it of an item, or of another field, that has not ended.
    rest: BytesMut,

    metadata: Option<PageMeta>,

    /// Items that came before the metadata.
    early: VecDeque<Bytes>,

    longest: usize,
}

/// Where in the page we are.
#[derive(Debug)]
enum Place {
    /// Before its first byte.
    Start,
    /// Among its fields.
    Fields,
    /// Between two items.
    Items,
    /// Within an item.
    Item(Nesting),
    /// Behind its last byte.
    End,
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
}

// === impl Page ===

impl Page {
    /// Begins a page none of whose items may be of more than `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            place: Place::Start,
            chunk: Bytes::new(),
            rest: BytesMut::new(),
            metadata: None,
            early: VecDeque::new(),
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
                    if !self.field()? {
                        return self.wait();
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
                    None => return self.wait(),
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
                return Err(self.too_long());
            }
            if self.metadata.is_some() {
                return Ok(Some(item));
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

    /// Reads one field. False if not all of it has come.
    fn field(&mut self) -> Result<bool, DecodeError> {
        if !self.rest.is_empty() {
            // What is no item is small.
            self.rest.extend_from_slice(&self.chunk);
            self.chunk = self.rest.split().freeze();
        }
        let mut fields = Fields::of(&self.chunk);
        if matches!(self.place, Place::Start) && !fields.enter() {
            return Ok(false);
        }
        // What looks wrong may be what has not come yet; at the end we know.
        let place = match fields.next() {
            Err(_) => return Ok(false),
            Ok(None) => Place::End,
            Ok(Some(name)) if &*name == b"items" && fields.enter_list() => Place::Items,
            Ok(Some(name)) => {
                let Ok(value) = fields.value() else {
                    return Ok(false);
                };
                match &*name {
                    b"items" if value != b"null" => {
                        return Err(shape("items", "invalid type, expected a list"));
                    }
                    b"metadata" => {
                        let text = utf8(value)?;
                        let metadata = Reader::read(text);
                        self.metadata =
                            Some(metadata.map_err(|problem| problem.at(text, "metadata"))?);
                    }
                    _ => {}
                }
                Place::Fields
            }
        };
        let read = fields.at();
        self.chunk.advance(read);
        self.place = place;
        Ok(true)
    }

    /// Keeps what has come of something that has not ended.
    fn wait(&mut self) -> Result<Option<Bytes>, PageError> {
        self.rest.extend_from_slice(&self.chunk);
        self.chunk.clear();
        if self.rest.len() > self.longest {
            return Err(self.too_long());
        }
        Ok(None)
    }

    const fn too_long(&self) -> PageError {
        PageError::TooLong {
            limit: self.longest,
        }
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

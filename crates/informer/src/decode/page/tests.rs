//! Pages in any chunks, and what is kept of them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use proptest::prelude::*;

use super::Page;

const HEAD: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"#;

#[test]
fn items_are_complete_with_any_chunking() {
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
fn items_are_returned_before_the_page_is_complete() {
    let mut page = Page::new(100);
    page.push(Bytes::from(format!(r#"{HEAD}"items":[{{"a":1}},{{"b""#)));
    let item = page.next().expect("a page").expect("an item");
    assert_eq!(item, r#"{"a":1}"#);
    assert_eq!(page.next().expect("a page"), None);
}

#[test]
fn an_empty_list_has_no_items() {
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
fn unused_fields_of_any_length_are_not_buffered() {
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
fn the_buffered_bytes_of_a_page_are_bounded() {
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

/// An item in a chunk of white space does not keep the chunk.
#[test]
fn items_that_wait_for_the_metadata_do_not_keep_their_chunks() {
    struct Chunk(Vec<u8>, Arc<AtomicUsize>);

    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Chunk {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    let living = Arc::new(AtomicUsize::new(0));
    let mut page = Page::new(usize::MAX);
    page.push(Bytes::from_static(b"{\"items\":["));
    for _ in 0..1000 {
        assert_eq!(page.next().expect("a page"), None);
        let mut chunk = b"{},{}, ".to_vec();
        chunk.resize(16_384, b' ');
        living.fetch_add(1, Ordering::Relaxed);
        page.push(Bytes::from_owner(Chunk(chunk, Arc::clone(&living))));
    }
    assert_eq!(page.next().expect("a page"), None);
    let living = living.load(Ordering::Relaxed);
    assert!(living <= 1, "{living} chunks are kept");
    page.push(Bytes::from_static(
        b"],\"metadata\":{\"resourceVersion\":\"1\"}}",
    ));
    let items = std::iter::from_fn(|| page.next().expect("a page")).count();
    assert_eq!(items, 2000);
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
fn an_invalid_page_is_an_error_with_the_reason() {
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
        &[HEAD, r#""metadata":{"resourceVersion":"8"},"items":[]}"#],
        "metadata: duplicate field",
    );
    check(
        &[HEAD, r#""items":[],"items":[]}"#],
        "items: duplicate field",
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
    fn any_chunking_returns_the_same_items(cuts in prop::collection::vec(1usize..9, 0..60)) {
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
    let mut items = Vec::new();
    for chunk in chunks {
        page.push(Bytes::copy_from_slice(chunk));
        loop {
            match page.next() {
                Ok(None) => break,
                Ok(Some(item)) => items.push(String::from_utf8_lossy(&item).into_owned()),
                Err(error) => {
                    items.push(error.to_string());
                    return items.join(" ");
                }
            }
        }
    }
    items.push(match page.end() {
        Ok(metadata) => metadata.resource_version.unwrap_or_default(),
        Err(error) => error.to_string(),
    });
    items.join(" ")
}

#[test]
fn the_size_limit_of_items_is_independent_of_the_chunking() {
    // The limit of `run` is 100 bytes.
    let item = |length: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(length - 8));
    let (longest, longer) = (item(100), item(101));
    let too_long = "an object of more than 100 bytes";
    let begin = format!(r#"{HEAD}"items":["#);
    for cut in 0..100 {
        let (start, end) = longest.split_at(cut);
        check(&[&begin, start, end, "]}"], &format!("{longest} 7"));
        let (start, end) = longer.split_at(cut);
        check(&[&begin, start, end, "]}"], too_long);
    }
}

#[test]
fn the_metadata_can_be_as_large_as_their_limit() {
    for (length, fits) in [(1_048_576, true), (1_048_577, false)] {
        let value = "x".repeat(length - r#"{"x":""}"#.len());
        let mut page = Page::new(100);
        page.push(Bytes::from(format!(r#"{{"metadata":{{"x":"{value}"}}}}"#)));
        assert_eq!(page.next().is_ok(), fits, "{length} bytes");
    }
}

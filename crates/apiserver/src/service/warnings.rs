//! The `Warning` headers of a response.
//!
//! A request may be wrong in thousands of places, and clients read a bounded number of headers:
//! what all warnings say together is bounded, as on the real server.
//!
//! Source: apiserver `pkg/endpoints/filters/warning.go`, and measured on kube-apiserver v1.36.3.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::{HeaderValue, WARNING};

/// How many characters all warnings have together, as on the real server.
const MAX_TOTAL: usize = 4096;

/// How many characters of each warning are kept where all of them are too long.
const MAX_EACH: usize = 256;

/// How many warnings there are. The real server sends up to 4096 of one character; over HTTP/1.1,
/// hyper and other clients refuse a response with more than 100 headers.
const MAX_COUNT: usize = 80;

/// Adds the headers of `warnings`, each of which is sent once.
pub(super) fn add(headers: &mut HeaderMap, warnings: &[String]) {
    let mut seen = HashSet::new();
    let mut texts: Vec<&str> = warnings.iter().map(String::as_str).collect();
    texts.retain(|text| !text.is_empty() && seen.insert(*text));
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let mut left = if total > MAX_TOTAL {
        MAX_TOTAL
    } else {
        usize::MAX
    };
    for text in texts.into_iter().take(MAX_COUNT) {
        let end = text.char_indices().nth(MAX_EACH).map(|(end, _)| end);
        let text = match end {
            Some(end) if total > MAX_TOTAL => &text[..end],
            _ => text,
        };
        if let Some(header) = header(text) {
            headers.append(WARNING, header);
        }
        left = left.saturating_sub(text.chars().count());
        if left == 0 {
            return;
        }
    }
}

/// The header of one warning; nothing if `text` has characters that no header may have.
fn header(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', r"\\").replace('"', "\\\"");
    // From bytes, since text beyond ASCII is sent as it stands.
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

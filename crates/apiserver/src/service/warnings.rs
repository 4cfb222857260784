//! The `Warning` headers of a response.
//!
//! The total size of the warnings is limited as in kube-apiserver, because a request can have
//! thousands of errors, and clients limit the size of headers.
//!
//! Source: apiserver `pkg/endpoints/filters/warning.go`, and measured on kube-apiserver v1.36.3.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::{HeaderValue, WARNING};

/// The maximum number of characters of all warnings together, as in kube-apiserver.
const MAX_TOTAL: usize = 4096;

/// The number of characters to which each warning is truncated if all together are too long.
const MAX_EACH: usize = 256;

/// The maximum number of warnings. kube-apiserver sends up to 4096 warnings of one character, but
/// over HTTP/1.1, hyper and other clients reject a response with more than 100 headers.
const MAX_COUNT: usize = 80;

/// Adds a header for each distinct warning.
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

/// Adds a header for each warning in front of the other warnings: those about the resource come
/// before those about the object.
pub(super) fn add_first(headers: &mut HeaderMap, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let others: Vec<_> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    add(headers, warnings);
    for other in others {
        headers.append(WARNING, other);
    }
}

/// Returns the header of one warning; `None` if `text` has characters that a header cannot contain.
fn header(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', r"\\").replace('"', "\\\"");
    // From bytes, because text that is not ASCII is sent without an escape.
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

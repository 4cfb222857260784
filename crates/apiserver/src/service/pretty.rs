//! JSON with indentation, which people read: for `curl` and browsers, and with `?pretty=true`.
//!
//! Source: `k8s.io/apiserver`, pkg/endpoints/handlers/negotiation, `isPrettyPrint`; the form is that of
//! Go's `json.MarshalIndent`.

use http::header::USER_AGENT;
use http::request::Parts;

use crate::wire::Query;

/// The clients of people.
const AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Returns whether the client of a request gets JSON with indentation.
pub(super) fn is_wanted(parts: &Parts) -> bool {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    match query.get("pretty") {
        "" => {
            let agent = parts.headers.get(USER_AGENT);
            let agent = agent.and_then(|value| value.to_str().ok());
            agent.is_some_and(|agent| AGENTS.iter().any(|it| agent.starts_with(it)))
        }
        // As Go's `strconv.ParseBool`.
        text => ["1", "t", "T", "TRUE", "true", "True"].contains(&text),
    }
}

/// Indents JSON with two spaces, without a newline at its end. The order of members stays.
pub(super) fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut bytes = json.trim_ascii().iter().copied().peekable();
    let mut is_text = false;
    while let Some(byte) = bytes.next() {
        if is_text {
            out.push(byte);
            match byte {
                b'"' => is_text = false,
                // The next byte belongs to the escape.
                b'\\' => out.extend(bytes.next()),
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                is_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                // An empty object or list stays on its line.
                if let Some(end) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte if byte.is_ascii_whitespace() => {}
            byte => out.push(byte),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn json_is_indented_as_in_go() {
        check("{}\n", "{}");
        check("[]", "[]");
        check("1", "1");
        check(
            r#"{"b":{"x":"{,:}\"["},"a":[1,{}],"c":[]}"#,
            "{\n  \"b\": {\n    \"x\": \"{,:}\\\"[\"\n  },\n  \"a\": [\n    1,\n    {}\n  ],\n  \"c\": []\n}",
        );
    }

    #[track_caller]
    fn check(json: &str, pretty: &str) {
        assert_eq!(String::from_utf8_lossy(&indented(json.as_bytes())), pretty);
    }
}

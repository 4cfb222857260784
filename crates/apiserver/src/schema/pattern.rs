//! Compiles a `pattern` in the syntax of Go's RE2 with the `regex` crate.
//!
//! Both run in linear time, and have no backreferences and no look-around. Where their syntax
//! differs, the pattern is rewritten:
//!
//! | in Go | in `regex` | rewritten to |
//! |--|--|--|
//! | `\d`, `\s`, `\w` and `\b` are ASCII | they are Unicode | ASCII classes |
//! | `{` is a literal if no count follows | an error | `\{` |
//! | in `[..]`, `[`, `&&`, `--`, `~~` are literals | they are nested classes and operators | escapes |
//! | `\<` and `\>` are literals | they are the start and end of words | `<`, `>` |
//! | `\Q..\E` quotes | unknown | escapes |
//!
//! Not accepted, although Go accepts them: `\C` and octal escapes.
//!
//! Source: Go's `regexp/syntax`.

use std::{iter::Peekable, str::Chars};

use regex::{Error, RegexBuilder};

use super::{Limits, node::Pattern};

/// The limits of the size of a compiled pattern, in bytes, from small to large. They are tried one
/// after the other, and each attempt is charged, because its time is proportional to the limit. A
/// pattern that exceeds the last one is rejected. The sufficient one is taken from the memory of the
/// server while the pattern exists.
///
/// Nested repetitions multiply. The names and paths of published CRDs need up to 100 KB.
const SIZES: [usize; 6] = [2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 4 << 20];

/// The maximum size of the lazily built automaton of one pattern, in bytes.
const CACHE_SIZE: usize = 256 << 10;

/// The maximum length of a pattern, in bytes. The time and space of its rewriting and of its error
/// messages are proportional to it.
pub(super) const MAX_LENGTH: usize = 16 << 10;

/// The maximum length of a count in braces and of the name of a class, in characters. No more
/// characters after a bracket are read, so that a pattern of brackets takes linear time.
const MAX_LOOKAHEAD: usize = 24;

// === impl Pattern ===

impl Pattern {
    /// Compiles `text`, and takes the cost from `limits`.
    ///
    /// # Errors
    ///
    /// The reason in one line if the pattern is invalid or exceeds the rest of the limits.
    pub(super) fn new(text: &str, limits: &mut Limits) -> Result<Self, String> {
        let rewritten = rewritten(text);
        let mut is_memory_full = false;
        let mut compile = |size: usize| {
            limits.patterns = limits.patterns.checked_sub(size)?;
            let Some(bytes) = limits.memory.take(size) else {
                is_memory_full = true;
                return None;
            };
            let regex = RegexBuilder::new(&rewritten)
                .size_limit(size)
                .dfa_size_limit(CACHE_SIZE)
                .build();
            (!matches!(regex, Err(Error::CompiledTooBig(_)))).then_some((regex, bytes))
        };
        let Some((regex, bytes)) = SIZES.into_iter().find_map(&mut compile) else {
            let why = if is_memory_full {
                "the patterns of all definitions together take too much memory"
            } else {
                "expression too large"
            };
            return Err(why.to_owned());
        };
        match regex {
            Ok(regex) => Ok(Self {
                text: text.to_owned(),
                regex,
                bytes,
            }),
            Err(error) => {
                // The other lines of the error mark the position in the pattern.
                let error = error.to_string();
                let line = error.lines().last().unwrap_or_default().trim();
                Err(line.strip_prefix("error: ").unwrap_or(line).to_owned())
            }
        }
    }

    /// Returns the maximum cost of matching `text`: the size of the compiled pattern for each byte of
    /// the text, and once more for the start.
    pub(super) fn cost(&self, text: &str) -> u64 {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let size = u64::try_from(self.bytes.bytes).unwrap_or(u64::MAX);
        length.saturating_add(1).saturating_mul(size)
    }

    /// Returns whether a part of `text` matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn rewritten(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '[' => class(&mut rest, &mut out),
            '\\' => escape(&mut rest, &mut out),
            '{' if !is_count(&rest) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// Writes the class after its opening bracket.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    while let Some(c) = rest.next() {
        // A bracket at the start is a literal.
        if c == ']' && !is_first {
            out.push(']');
            return;
        }
        is_first = false;
        if !class_item(c, rest, out) {
            continue;
        }
        // A dash is the operator of a range, unless it is at the end.
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
            rest.next();
            out.push('-');
            if let Some(c) = rest.next() {
                class_item(c, rest, out);
            }
        }
    }
}

/// Writes one item of a class. Returns whether it is a character, which can start a range.
fn class_item(c: char, rest: &mut Peekable<Chars<'_>>, out: &mut String) -> bool {
    match c {
        '\\' => {
            let Some(c) = rest.next() else {
                out.push('\\');
                return false;
            };
            if let Some(class) = perl_class(c) {
                out.push_str(class);
                return false;
            }
            if !matches!(c, '<' | '>') {
                out.push('\\');
            }
            out.push(c);
            braces(c, rest, out);
            !matches!(c, 'p' | 'P' | 'x')
        }
        '[' => {
            let class = posix_class(rest);
            out.push_str(class.as_deref().unwrap_or("\\["));
            class.is_none()
        }
        c => {
            if matches!(c, '-' | '&' | '~' | ']' | '^') {
                out.push('\\');
            }
            out.push(c);
            true
        }
    }
}

/// Returns the ASCII class of `\d` and similar escape sequences of Go.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\x0C\\r ]",
        'S' => "[^\\t\\n\\x0C\\r ]",
        _ => return None,
    })
}

/// Writes the escape sequence after its backslash, outside of a class.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        None => out.push('\\'),
        Some('b') => out.push_str("(?-u:\\b)"),
        // Unlike `\b`, it can match within a character of several bytes.
        Some('B') => out.push_str("\\B"),
        Some('Q') => quote(rest, out),
        Some('E') => {}
        Some(c @ ('<' | '>')) => out.push(c),
        Some(c) => {
            if let Some(class) = perl_class(c) {
                out.push_str(class);
            } else {
                out.push('\\');
                out.push(c);
                braces(c, rest, out);
            }
        }
    }
}

/// Writes the braces that belong to an escape sequence, as in `\p{Greek}` and `\x{5A}`.
fn braces(escaped: char, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    if matches!(escaped, 'p' | 'P' | 'x') && rest.peek() == Some(&'{') {
        for c in rest.by_ref() {
            out.push(c);
            if c == '}' {
                return;
            }
        }
    }
}

/// Writes the text between `\Q` and `\E`.
fn quote(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = rest.next() {
        if c == '\\' && rest.next_if_eq(&'E').is_some() {
            return;
        }
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}

/// Returns the rest of `[:alpha:]` if it follows the bracket.
fn posix_class(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let ahead = rest.clone().take(MAX_LOOKAHEAD);
    let name: String = ahead.take_while(|c| *c != ']').collect();
    if !(name.starts_with(':') && name.len() > 2 && name.ends_with(':')) {
        return None;
    }
    for _ in 0..=name.chars().count() {
        rest.next();
    }
    Some(format!("[{name}]"))
}

/// Returns whether `3}`, `3,}` or `3,5}` follows.
fn is_count(rest: &Peekable<Chars<'_>>) -> bool {
    let ahead = rest.clone().take(MAX_LOOKAHEAD);
    let body: String = ahead.take_while(|c| *c != '}').collect();
    let closed = rest.clone().nth(body.chars().count()) == Some('}');
    let (least, most) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    closed && !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::{super::PatternMemory, Limits, Pattern, SIZES};

    const BUDGET: usize = 32 << 20;

    fn limits() -> Limits {
        Limits::new(PatternMemory::default())
    }

    #[test]
    fn patterns_match_like_in_go() {
        check(r"^\d+$", "12", "١٢");
        check(r"^[\d-]+$", "1-2", "a");
        check(r"^\w+\s\S$", "ab c", "é c");
        check(r"^[^\d]$", "a", "1");
        check(r"^\p{L}+$", "äb", "1");
        check(r"^[\p{Lu}\x{5A}]\x{5a}$", "ÄZ", "az");
        check(r"^a{2,3}$", "aaa", "a");
        check(r"^{a}$", "{a}", "a");
        check(r"^[a[]+$", "a[", "b");
        check(r"^[[:alpha:]]+$", "ab", "1");
        check(r"^[]a]+$", "]a", "b");
        check(r"^[a&&b]+$", "a&b", "c");
        check(r"^[--/]$", ".", "+");
        check(r"^\<a\>$", "<a>", "a");
        check(r"^\Qa.b\E$", "a.b", "axb");
        check(r"^[+--/]$", ",", "*");
        check(r"^/([a-z]+/)*\-?$", "/a/b/-", "a");
    }

    #[test]
    fn a_pattern_that_does_not_compile_has_a_one_line_error() {
        let mut limits = limits();
        let error = Pattern::new("a(b", &mut limits).expect_err("the group is open");
        assert_eq!(error, "unclosed group");
        assert!(Pattern::new("(?=a)", &mut limits).is_err());
        assert_eq!(limits.patterns, BUDGET - 2 * SIZES[0], "a try is charged");
    }

    #[test]
    fn a_pattern_is_charged_for_its_size_and_rejected_above_the_limit() {
        let mut limits = limits();
        Pattern::new("^a$", &mut limits).expect("it is small");
        assert_eq!(limits.patterns, BUDGET - SIZES[0]);
        Pattern::new(r"^.{0,300}$", &mut limits).expect("it is of middle size");
        assert!(limits.patterns < BUDGET - 2 * SIZES[0]);
        let error = Pattern::new(r"^(\pL{1,100}){1,100}$", &mut limits).expect_err("too large");
        assert_eq!(error, "expression too large");
        limits.patterns = 1000;
        let error = Pattern::new("^a$", &mut limits).expect_err("nothing is left");
        assert_eq!(error, "expression too large");
    }

    #[test]
    fn patterns_share_the_memory_of_the_server_and_give_it_back() {
        let memory = PatternMemory::new(2 * SIZES[0]);
        // Each is of a definition of its own.
        let new = |text| Pattern::new(text, &mut Limits::new(memory.clone()));
        let first = new("^a$").expect("memory is left");
        let second = new("^b$").expect("memory is left");
        let error = new("^c$").expect_err("all is taken");
        assert!(
            error.starts_with("the patterns of all definitions"),
            "{error}"
        );
        drop(first);
        let third = new("^c$").expect("memory is left again");
        new("a(b").expect_err("the group is open");
        drop((second, third));
        new("a(b").expect_err("the group is open");
        assert!(memory.take(2 * SIZES[0]).is_some(), "all is given back");
    }

    #[test]
    fn a_pattern_of_brackets_takes_linear_time() {
        // Each bracket used to be looked behind up to the end: 10^11 steps, which take minutes. Now
        // it is a part of a second.
        const LIMIT: Duration = Duration::from_secs(60);
        let (send, ended) = mpsc::channel();
        thread::spawn(move || {
            for bracket in ["[", "{", "[[:"] {
                let text = format!("a[{}", bracket.repeat(400_000));
                assert!(Pattern::new(&text, &mut limits()).is_err());
            }
            _ = send.send(());
        });
        let ended = ended.recv_timeout(LIMIT);
        ended.expect("the time is not that of a square");
    }

    #[track_caller]
    fn check(pattern: &str, good: &str, bad: &str) {
        let compiled = Pattern::new(pattern, &mut limits())
            .unwrap_or_else(|error| panic!("{pattern}: {error}"));
        assert!(compiled.is_match(good), "{pattern} matches {good}");
        assert!(!compiled.is_match(bad), "{pattern} does not match {bad}");
    }
}

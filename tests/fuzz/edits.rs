//! Random edits of texts.

use bolero::TypeGenerator;

/// One of some texts, with edits. Without edits it is the text itself.
#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Edits {
    text: u8,
    #[generator(bolero::generator::produce::<Vec<Edit>>().with().len(0_usize..6))]
    changes: Vec<Edit>,
    /// A text of the corpus, instead of the chosen one.
    #[generator(bolero::generator::constant(None))]
    kept: Option<String>,
}

/// One edit. Places count from the beginning, modulo the length.
#[derive(Clone, Debug, TypeGenerator)]
enum Edit {
    /// Inserts a word of [`WORDS`] before a byte that structures JSON.
    Insert { at: u16, word: u8 },
    /// Replaces the text between two such bytes by a word.
    Replace { at: u16, word: u8 },
    /// Inserts a byte anywhere.
    Byte { at: u16, byte: u8 },
    /// Removes some bytes anywhere.
    Remove { at: u16, length: u8 },
    /// Repeats some bytes, up to 64 times.
    Repeat { at: u16, length: u8, times: u8 },
    /// Copies some bytes elsewhere.
    Copy { from: u16, length: u8, to: u16 },
    /// Cuts the rest off.
    Cut { at: u16 },
}

/// Words that mean something to JSON, YAML, Kubernetes or Unicode.
const WORDS: [&str; 56] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1.0",
    "1e400",
    "-0",
    "9223372036854775808",
    "18446744073709551615",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\u{e9}\u{1f980}\"",
    "\u{feff}",
    "\n",
    "\r\n",
    "\0",
    " ",
    ",",
    ":",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "/",
    "..",
    "%2F",
    "&",
    "=",
    "!",
    "(a,b)",
    " in ",
    "*",
    "~1",
    "$patch",
    "\"metadata\":{}",
    "\"metadata\":null",
    "\"items\":null",
    "\"kind\":7",
    "\"name\":\"b\"",
    "\"namespace\":\"x\"",
    "\"uid\":\"u\"",
    "\"resourceVersion\":\"0\"",
    "\"resourceVersion\":\"99999999999999999999\"",
    "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"",
    "\"finalizers\":[\"a/b\"]",
    "\"managedFields\":[]",
    "\"$retainKeys\":[\"a\"]",
    "\"x-kubernetes-list-type\":\"set\"",
    "\"pattern\":\"(a*)*b\"",
    "\"default\":{\"a\":1}",
    "\"nullable\":true",
];

/// No text becomes longer than this.
const LONGEST: usize = 64 * 1024;

// === impl Edits ===

impl Edits {
    /// `text` without edits.
    pub(crate) fn none(text: &str) -> Self {
        Self {
            text: 0,
            changes: Vec::new(),
            kept: Some(text.to_owned()),
        }
    }

    /// The text that is chosen from `texts`, edited.
    pub(crate) fn of(&self, texts: &[&str]) -> Vec<u8> {
        let chosen = texts[usize::from(self.text) % texts.len()];
        let text = self.kept.as_deref().unwrap_or(chosen);
        self.changes
            .iter()
            .fold(text.as_bytes().to_vec(), |text, edit| edit.apply(text))
    }

    /// The same as text; what is not UTF-8 is replaced.
    pub(crate) fn text_of(&self, texts: &[&str]) -> String {
        String::from_utf8_lossy(&self.of(texts)).into_owned()
    }
}

// === impl Edit ===

impl Edit {
    fn apply(&self, mut text: Vec<u8>) -> Vec<u8> {
        let length = text.len();
        let place = |at: u16| usize::from(at) % (length + 1);
        let range = |at: u16, size: u8| {
            let from = place(at);
            from..(from + usize::from(size) + 1).min(length)
        };
        match *self {
            Self::Insert { at, word } => {
                let at = structural(&text, usize::from(at));
                text.splice(at..at, self::word(word).bytes());
            }
            Self::Replace { at, word } => {
                let from = structural(&text, usize::from(at));
                let rest = text.get(from + 1..).unwrap_or_default();
                let size = rest.iter().position(|byte| is_structural(*byte));
                let to = size.map_or(length, |size| from + 1 + size);
                let from = (from + 1).min(to);
                text.splice(from..to, self::word(word).bytes());
            }
            Self::Byte { at, byte } => text.insert(place(at), byte),
            Self::Remove { at, length } => drop(text.drain(range(at, length))),
            Self::Repeat { at, length, times } => {
                let range = range(at, length);
                let piece = text[range.clone()].repeat(usize::from(times % 64));
                text.splice(range.end..range.end, piece);
            }
            Self::Copy { from, length, to } => {
                let piece = text[range(from, length)].to_vec();
                let to = place(to);
                text.splice(to..to, piece);
            }
            Self::Cut { at } => text.truncate(place(at)),
        }
        text.truncate(LONGEST);
        text
    }
}

fn word(word: u8) -> &'static str {
    WORDS[usize::from(word) % WORDS.len()]
}

fn is_structural(byte: u8) -> bool {
    b"{}[],:\n&=/?; ".contains(&byte)
}

/// The place of the structural byte number `at`, modulo their count; the end if there is none.
fn structural(text: &[u8], at: usize) -> usize {
    let places = || {
        let bytes = text.iter().enumerate();
        bytes
            .filter(|(_, byte)| is_structural(**byte))
            .map(|(place, _)| place)
    };
    let count = places().count();
    if count == 0 {
        return text.len();
    }
    places().nth(at % count).unwrap_or(text.len())
}

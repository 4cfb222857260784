//! The language of comments, texts and documents: words that this code base does not use.
//!
//! Readers meet this code for the first time, under pressure, and often not in their first
//! language. Each word of the list makes a sentence that has to be read twice: it hides who acts
//! ("is told"), asks for a guess ("whoever", "somebody"), or is a figure of speech ("room").

use super::nothing;
use crate::repository::Repository;

/// A word or a phrase, and what to write instead. Phrases may run over the end of a line.
const WORDS: [(&str, &str); 22] = [
    ("whoever", "name the type or function that acts"),
    ("whom", "name the handler or object"),
    ("somebody", "name the user, writer or reader"),
    ("somebody's", "name the user, writer or reader"),
    ("nobody", "\"no handler\", \"no reader\", \"is not ...\""),
    ("nobody's", "\"no handler's\", \"no reader's\""),
    (
        "mend",
        "\"correct\", or \"permanent\" for what no retry corrects",
    ),
    (
        "mends",
        "\"corrects\", or \"permanent\" for what no retry corrects",
    ),
    ("in vain", "\"failed\", \"timed out\""),
    ("owed", "\"pending\""),
    ("a while", "the time or the condition"),
    ("the house", "\"the code base\", \"our\""),
    (
        "room",
        "\"capacity\", \"a free place\", \"a permit\", \"module\"",
    ),
    ("rooms", "\"modules\""),
    ("is told", "\"receives\", \"is called\", \"is reported\""),
    ("are told", "\"receive\", \"are called\", \"are reported\""),
    ("who is", "name the type or function"),
    (
        "what is to be",
        "name the thing: the work, the patch, the conditions",
    ),
    ("what no waiting", "\"a permanent failure\""),
    ("of one's own", "\"your own\", \"the user's\""),
    ("as good as", "\"like\", \"equal to\""),
    ("to make good", "\"to report\", \"to repeat\""),
];

/// Where a word of the list is the right one, and why.
const ALLOWED: [(&str, &str, &str); 1] = [(
    "xtask/src/tidy/language.rs",
    "",
    "this file is the list itself",
)];

/// Files of ours that people read. Data and generated files have other authors.
const EXTENSIONS: [&str; 5] = ["rs", "go", "md", "toml", "yml"];

#[test]
fn comments_texts_and_documents_use_plain_words() {
    let repository = Repository::here();
    let mut findings = Vec::new();
    for extension in EXTENSIONS {
        let sources = repository.sources(extension);
        for source in sources.expect("the repository can be read") {
            let is_code = matches!(extension, "rs" | "go");
            for (line, word, instead) in ruled_out(&source.text, is_code) {
                let is_allowed = ALLOWED.iter().any(|(path, allowed, _)| {
                    *path == source.path && (allowed.is_empty() || *allowed == word)
                });
                if !is_allowed {
                    findings.push(format!(
                        "{}:{line}: instead of {word:?} write {instead}",
                        source.path
                    ));
                }
            }
        }
    }
    nothing(&findings);
}

#[test]
fn words_are_found_in_comments_and_texts_and_not_in_code() {
    let code = |text| {
        ruled_out(text, true)
            .into_iter()
            .map(|it| it.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(code("//! Nobody knows."), ["nobody"]);
    assert_eq!(code("let room = 1; // In vain."), ["in vain"]);
    assert_eq!(code("let room = rooms.nobody();"), [""; 0]);
    assert_eq!(code("panic!(\"nobody's {room}\");"), ["nobody's"]);
    assert_eq!(
        code("/// The calls in `owed`, http://owed.example"),
        ["owed"]
    );
    assert_eq!(code("/// It waits for a\n    /// while."), ["a while"]);
    assert_eq!(code("let url = \"http://here\"; whom();"), [""; 0]);
    assert_eq!(code("/// A mushroom, amended."), [""; 0]);
    let document = ruled_out("# The house\n\nIt is\ntold.", false);
    assert_eq!(
        document.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(),
        [(1, "the house"), (3, "is told")]
    );
}

/// The words of the list in `text`, with the line in which each begins.
fn ruled_out(text: &str, is_code: bool) -> Vec<(usize, &'static str, &'static str)> {
    let words = text
        .lines()
        .enumerate()
        .flat_map(|(index, line)| {
            let prose = if is_code {
                prose(line)
            } else {
                line.to_owned()
            };
            let words = words(&prose);
            words.into_iter().map(move |word| (index + 1, word))
        })
        .collect::<Vec<_>>();
    let mut found = Vec::new();
    for at in 0..words.len() {
        for (phrase, instead) in WORDS {
            if !phrase.starts_with(&*words[at].1) {
                continue;
            }
            let mut parts = phrase.split(' ').zip(&words[at..]);
            let is_whole = words.len() - at >= phrase.split(' ').count();
            if is_whole && parts.all(|(part, (_, word))| part == word) {
                found.push((words[at].0, phrase, instead));
            }
        }
    }
    found
}

/// The comment and the texts of a line of code; of any other line nothing.
fn prose(line: &str) -> String {
    let mut prose = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '/']) {
        let here = &rest[at..];
        if here.starts_with("//") {
            prose.push_str(here.trim_start_matches(['/', '!']));
            return prose;
        }
        let Some(text) = here.strip_prefix('"') else {
            rest = &here[1..];
            continue;
        };
        let end = end_of_text(text);
        prose.push_str(&text[..end]);
        prose.push_str(" . ");
        rest = text.get(end + 1..).unwrap_or_default();
    }
    prose
}

/// Where the text that begins here ends: at the first quote without a backslash before it.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The words of `prose` in lower case. What stands in backticks or braces is a name, and names
/// have other rules; it and all punctuation keep words apart.
fn words(prose: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut name_ends = None;
    for letter in prose.chars() {
        let word = words.last_mut().expect("there is always one");
        match (name_ends, letter) {
            (Some(end), letter) if letter == end => name_ends = None,
            (Some(_), _) => {}
            (None, '`') => name_ends = Some('`'),
            (None, '{') => name_ends = Some('}'),
            (None, letter) if letter.is_alphanumeric() || matches!(letter, '_' | '\'') => {
                word.extend(letter.to_lowercase());
            }
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => words.push(String::new()),
            // A comma or an end of a sentence: no phrase goes across.
            (None, letter) => words.extend([letter.to_string(), String::new()]),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

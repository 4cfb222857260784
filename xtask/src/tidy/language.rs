//! The rule that comments, texts, documents and declared names use plain words: a list of words to
//! avoid.
//!
//! Many readers see this code for the first time, under pressure, and not in their first language.
//! A sentence with a word of the list usually has to be read twice: it hides who acts ("is told"),
//! requires a guess ("whoever", "somebody"), or is a figure of speech ("room").

use super::nothing;
use crate::repository::Repository;

/// A word or a phrase, and what to write instead. A phrase can continue in the next line.
const WORDS: [(&str, &str); 61] = [
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
    ("so many", "\"this number of\""),
    ("is trouble", "\"fails\", \"disturbs the others\""),
    ("what came of", "\"the result of\""),
    ("came of it", "\"the result\""),
    ("what comes of", "\"the result of\""),
    ("what becomes of", "\"the result of\", \"what happens to\""),
    ("what became of", "\"the result of\", \"what happened to\""),
    ("in hand", "\"is processing\""),
    ("in the hand of", "\"is processed by\""),
    ("one hand", "\"one worker at a time\""),
    ("worker's hand", "\"a worker is processing ...\""),
    ("worker's hands", "\"a worker is processing ...\""),
    ("all the same", "\"nevertheless\", \"also\""),
    ("as can be", "\"as possible\""),
    ("needless", "\"unnecessary\", \"cancel\""),
    ("side by side", "\"concurrently\", \"compared\""),
    ("patience", "\"timeout\", \"limit\""),
    ("anybody", "name the user, client or reader"),
    ("everybody", "name the users, clients or readers"),
    ("everybody's", "name the users, clients or readers"),
    ("anyone", "name the user, client or reader"),
    ("everyone", "name the users, clients or readers"),
    ("told", "\"receives\", \"is called\", \"is printed\""),
    ("hears", "\"receives\""),
    ("heard", "\"received\""),
    ("given up", "\"retries exhausted\", \"dead letter\""),
    ("gives up", "\"stops the retries\", \"times out\""),
    ("one uses", "\"the public types\""),
    ("one sees", "name the output: metrics, spans, log lines"),
    ("goes on", "\"continues\""),
    ("go on", "\"continue\""),
    ("is gone", "\"was deleted\", \"has expired\""),
    ("are gone", "\"were deleted\", \"have expired\""),
    ("those who", "name the types, programs or readers"),
    ("made again", "\"repeated\", \"retried\""),
    ("is well", "\"is valid\", \"succeeds\""),
    ("all is well", "\"success\""),
    ("taken for granted", "\"assumed\""),
    ("much like", "\"similar to\""),
];

/// Words that are only ruled out in the names of functions, types, constants and variables.
const WORDS_OF_NAMES: [(&str, &str); 7] = [
    ("said", "\"message\", \"logged\", \"requested\""),
    ("hear", "\"receive\""),
    ("agenda", "\"queue\", \"timers\""),
    ("shelf", "\"map\", \"dead letters\""),
    ("crew", "\"workers\", \"set\""),
    ("house", "name the module"),
    ("packed", "\"raw\""),
];

/// The path of a file, a word of the list that is the right one there, and the reason. An empty word
/// stands for all words.
const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "xtask/src/tidy/language.rs",
        "",
        "this file is the list itself",
    ),
    (
        "crates/protobuf/src/wire/reader.rs",
        "packed",
        "the term of protobuf for the encoding of a list",
    ),
];

/// The keywords before a declared name.
const DECLARATIONS: [&str; 8] = [
    "fn", "struct", "enum", "trait", "type", "const", "static", "let",
];

/// The extensions of checked files. Data and generated files are not checked.
const EXTENSIONS: [&str; 5] = ["rs", "go", "md", "toml", "yml"];

#[derive(Clone, Copy, PartialEq)]
enum Language {
    Prose,
    Rust,
    OtherCode,
}

#[test]
fn comments_texts_documents_and_names_use_plain_words() {
    let repository = Repository::here();
    let mut findings = Vec::new();
    for extension in EXTENSIONS {
        let sources = repository.sources(extension);
        for source in sources.expect("the repository can be read") {
            let language = match extension {
                "rs" => Language::Rust,
                "go" => Language::OtherCode,
                _ => Language::Prose,
            };
            for (line, word, instead) in ruled_out(&source.text, language, &WORDS) {
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
        ruled_out(text, Language::OtherCode, &WORDS)
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
    let document = ruled_out("# The house\n\nIt is\ntold.", Language::Prose, &WORDS);
    assert_eq!(
        document.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(),
        [(1, "the house"), (3, "is told"), (4, "told")]
    );
}

#[test]
fn words_are_found_in_declared_names() {
    let code = |text| {
        ruled_out(text, Language::Rust, &WORDS)
            .into_iter()
            .map(|it| it.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(code("fn nobody_waits() {"), ["nobody"]);
    assert_eq!(code("fn a_handler_is_told_twice() {"), ["is told", "told"]);
    assert_eq!(code("pub(crate) struct ToldEvents<T> {"), ["told"]);
    assert_eq!(code("const MAX_PATIENCE: u64 = 3;"), ["patience"]);
    assert_eq!(code("let (mut owed, next) = (1, told());"), ["owed"]);
    assert_eq!(code("if let Some(room) = rooms.next() {"), ["room"]);
    assert_eq!(code("let said = 1; // In vain."), ["in vain", "said"]);
    assert_eq!(code("let mushroom = told(heard);"), [""; 0]);
    assert_eq!(code("let value: Told = 1;"), [""; 0]);
    assert_eq!(
        code("/// A comment that says\n/// that it said so."),
        [""; 0]
    );
}

/// The words of `avoided` in `text`, each with its line and what to write instead. In Rust, the
/// declared names are checked too.
fn ruled_out(
    text: &str,
    language: Language,
    avoided: &[(&'static str, &'static str)],
) -> Vec<(usize, &'static str, &'static str)> {
    let words = text
        .lines()
        .enumerate()
        .flat_map(|(index, line)| {
            let prose = if language == Language::Prose {
                line.to_owned()
            } else {
                prose(line)
            };
            words(&prose).into_iter().map(move |word| (index + 1, word))
        })
        .collect::<Vec<_>>();
    let mut found = phrases(&words, avoided);
    if language == Language::Rust {
        let lines = text.lines().enumerate();
        let names = lines.flat_map(|(index, line)| {
            let words = words_of_names(line).into_iter();
            words.map(move |word| (index + 1, word))
        });
        let names = names.collect::<Vec<_>>();
        found.extend(phrases(&names, avoided));
        found.extend(phrases(&names, &WORDS_OF_NAMES));
    }
    found
}

/// The phrases of `avoided` in `words`, each with its line and what to write instead.
fn phrases(
    words: &[(usize, String)],
    avoided: &[(&'static str, &'static str)],
) -> Vec<(usize, &'static str, &'static str)> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        for &(phrase, instead) in avoided {
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

/// The words of the names that a line of code declares, with a full stop after each name.
fn words_of_names(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for name in declared_names(&without_prose(line)) {
        for part in name.split('_') {
            let mut word = String::new();
            for letter in part.chars() {
                let is_upper = letter.is_uppercase();
                let follows_lower = word.ends_with(char::is_lowercase);
                if is_upper && follows_lower {
                    words.push(std::mem::take(&mut word).to_lowercase());
                }
                word.push(letter);
            }
            words.push(word.to_lowercase());
        }
        words.push(".".to_owned());
    }
    words
}

/// The names that a line of code declares after a keyword: one name, or those of a pattern after
/// `let`.
fn declared_names(code: &str) -> Vec<&str> {
    let is_part_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut names = Vec::new();
    let mut declaration = None;
    let mut rest = code;
    while let Some(at) = rest.find(is_part_of_name) {
        let (between, after) = rest.split_at(at);
        let end = after.find(|letter| !is_part_of_name(letter));
        let (word, tail) = after.split_at(end.unwrap_or(after.len()));
        if between.contains(['=', ':', ';', '{', '<']) {
            declaration = None;
        }
        if DECLARATIONS.contains(&word) {
            declaration = Some(word);
        } else if let Some(keyword) = declaration
            && !matches!(word, "mut" | "ref" | "unsafe" | "async" | "fn")
        {
            let is_constructor = word.starts_with(char::is_uppercase) && keyword == "let";
            if !is_constructor {
                names.push(word);
            }
            if keyword != "let" {
                declaration = None;
            }
        }
        rest = tail;
    }
    names
}

/// A line of code without its comment and its string literals.
fn without_prose(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '/']) {
        code.push_str(&rest[..at]);
        let here = &rest[at..];
        if here.starts_with("//") {
            return code;
        }
        if let Some(text) = here.strip_prefix('"') {
            let end = end_of_text(text);
            rest = text.get(end + 1..).unwrap_or_default();
        } else {
            code.push('/');
            rest = &here[1..];
        }
    }
    code + rest
}

/// The comment and the string literals of a line of code.
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

/// The end of a string literal: the first quote without a backslash before it.
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

/// The words of `prose` in lower case. Names in backticks or braces are skipped. Names and
/// punctuation separate phrases.
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
            // A phrase does not continue after punctuation.
            (None, letter) => words.extend([letter.to_string(), String::new()]),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

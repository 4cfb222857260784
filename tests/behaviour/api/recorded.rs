//! Digests of responses of the embedded server that a real server has confirmed.
//!
//! Tests that compare the two servers show nothing where there is no real server. So they keep a
//! digest of each compared answer in the folder `recorded`, and the embedded server must give the
//! same answers in every run. A failure names the request; the same test on the real server shows
//! both answers. After a change of the requests, `WINDLASS_RECORD=1` writes the files again, in a
//! run on the real server in which all answers are the same.

use std::{fmt::Write as _, fs, path::PathBuf};

use serde_json::Value;

use crate::cluster::Cluster;

/// The answers of the embedded server in one test.
pub(super) struct Recorded {
    name: &'static str,
    namespace: String,
    is_confirmed: bool,
    /// The line of each answer, and what was sent; no line if the real server answers otherwise.
    answers: Vec<(Option<String>, String)>,
}

/// The line of an answer that the real server does not give.
const UNKNOWN: &str = "-";

const UID_LENGTH: usize = "00000000-0000-0000-0000-000000000000".len();

/// An address of the test's own, as the name of an object whose name is an address.
pub(super) fn address(namespace: &str, number: u64) -> String {
    format!("{}1:1:1:1:{:x}", own_network(namespace), number % 0xffff)
}

/// The beginning of the addresses of a test, which has the digits of its namespace.
fn own_network(namespace: &str) -> String {
    let digits = namespace.rsplit('-').next().unwrap_or_default();
    let digits = u32::from_str_radix(digits, 16).expect("the namespace ends with such a number");
    format!("fd00:{:x}:{:x}:", digits >> 16, digits & 0xffff)
}

// === impl Recorded ===

impl Recorded {
    /// The file is `recorded/{name}.txt`.
    pub(super) fn new(name: &'static str, cluster: &Cluster) -> Self {
        Self {
            name,
            namespace: cluster.namespace().to_owned(),
            is_confirmed: !cluster.is_embedded(),
            answers: Vec::new(),
        }
    }

    /// Adds the masked answer to `sent`.
    pub(super) fn add(&mut self, sent: &str, answer: &Value) {
        self.add_all(sent, std::slice::from_ref(answer));
    }

    /// Adds masked answers and events as one line.
    pub(super) fn add_all(&mut self, sent: &str, answers: &[Value]) {
        let line = self.line(answers);
        self.answers.push((Some(line), sent.to_owned()));
    }

    /// Whether `answers` are those that were recorded after the ones that were added.
    pub(super) fn is_next(&self, answers: &[Value]) -> bool {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let recorded = text.lines().nth(self.answers.len());
        recorded.is_none_or(|recorded| recorded == UNKNOWN || recorded == self.line(answers))
    }

    fn path(&self) -> PathBuf {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour/api/recorded");
        PathBuf::from(folder).join(format!("{}.txt", self.name))
    }

    fn line(&self, answers: &[Value]) -> String {
        let mut line = String::new();
        let mut text = String::new();
        for answer in answers {
            if let Some(code) = answer["code"].as_u64() {
                _ = write!(line, "{code} ");
            }
            let own = answer.to_string().replace(&self.namespace, "NS");
            let own = own.replace(&own_network(&self.namespace), "NETWORK");
            text += &without_uids(&own);
        }
        _ = write!(line, "{:016x}", digest(&text));
        line
    }

    /// Forgets the newest answer, because the real server is known to answer otherwise.
    pub(super) fn forget_last(&mut self) {
        if let Some((line, _)) = self.answers.last_mut() {
            *line = None;
        }
    }

    /// Panics if an answer is not the recorded one, or if their numbers differ.
    #[track_caller]
    pub(super) fn check(&self) {
        self.check_first();
        let recorded = fs::read_to_string(self.path()).expect("the answers were recorded");
        let count = recorded.lines().count();
        assert_eq!(count, self.answers.len(), "answers of {}", self.name);
    }

    /// Panics if an answer is not the recorded one. The test may have been shorter or longer.
    #[track_caller]
    pub(super) fn check_first(&self) {
        let path = self.path();
        let lines = self.answers.iter().map(|(line, _)| line.as_deref());
        if self.is_confirmed && std::env::var_os("WINDLASS_RECORD").is_some() {
            let lines: Vec<_> = lines.map(|line| line.unwrap_or(UNKNOWN)).collect();
            fs::write(&path, lines.join("\n") + "\n").expect("the folder is there");
            return;
        }
        let text = fs::read_to_string(&path).expect("the answers were recorded");
        let differ: Vec<_> = text
            .lines()
            .zip(&self.answers)
            .filter_map(|(recorded, (line, sent))| {
                let line = line.as_deref().filter(|line| *line != recorded)?;
                (recorded != UNKNOWN).then(|| format!("{sent}:\n  {line}, recorded: {recorded}"))
            })
            .collect();
        assert!(
            differ.is_empty(),
            "{} answers of the embedded server differ from those that the real server confirmed; \
             run this test on both servers:\n{}",
            differ.len(),
            differ.join("\n")
        );
    }
}

/// Messages contain uids too.
fn without_uids(text: &str) -> String {
    let is_other = |c: char| !(c.is_ascii_hexdigit() || c == '-');
    let parts = text.split_inclusive(is_other);
    parts
        .filter(|part| part.trim_end_matches(is_other).len() != UID_LENGTH)
        .collect()
}

/// FNV-1a: the same in every version of Rust.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

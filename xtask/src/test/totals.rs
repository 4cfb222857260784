//! Parses the output of test binaries into totals.

use std::fmt;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    passed: usize,
    failed: usize,
    ignored: usize,
    embedded: usize,
    real: usize,

    /// The ignored ones of the tests on the real server.
    ignored_real: usize,
}

// === impl Totals ===

impl Totals {
    /// Parses the output of one or more test binaries.
    pub(super) fn read(output: &str) -> Self {
        let mut totals = Self::default();
        for line in output.lines() {
            if let Some(result) = line.trim_start().strip_prefix("test result: ") {
                totals.passed += count(result, "passed");
                totals.failed += count(result, "failed");
                totals.ignored += count(result, "ignored");
            }
        }
        totals
    }

    /// Parses the output of the behaviour suite. A test with a module `embedded` or `kube_apiserver`
    /// in its path is a test on that server. Counts those that passed, and the ignored ones of the real
    /// server.
    pub(super) fn by_server(output: &str) -> Self {
        let mut totals = Self::read(output);
        for (test, result) in output.lines().filter_map(result) {
            let (passed, ignored) = (result == "ok", result.starts_with("ignored"));
            totals.embedded += usize::from(passed && is_in(test, "embedded"));
            totals.real += usize::from(passed && is_in(test, "kube_apiserver"));
            totals.ignored_real += usize::from(ignored && is_in(test, "kube_apiserver"));
        }
        totals
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.embedded += other.embedded;
        self.real += other.real;
        self.ignored_real += other.ignored_real;
    }

    /// Counts a failure outside of a test.
    pub(super) fn fail(&mut self) {
        self.failed += 1;
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// The number of tests for the real server that did not run.
    pub(super) fn ignored_real(&self) -> usize {
        self.ignored_real
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The last line of the output: the totals by server.
    pub(super) fn line(&self, version: Option<&str>) -> String {
        let Self { embedded, real, .. } = self;
        let real = match version {
            Some(version) => format!("{version} {real}"),
            None => "not run".to_owned(),
        };
        format!("tests: {self} (embedded {embedded}, kube-apiserver {real})")
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.ignored {
            0 => Ok(()),
            ignored => write!(f, ", {ignored} ignored"),
        }
    }
}

/// The number before `word`, as in `ok. 5 passed; 0 failed`.
fn count(result: &str, word: &str) -> usize {
    let mut parts = result.split(['.', ';']);
    parts
        .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        .unwrap_or_default()
}

/// The name and the result of the test in this line.
fn result(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

fn is_in(test: &str, module: &str) -> bool {
    test.split("::").any(|part| part == module)
}

#[cfg(test)]
mod tests {
    use super::Totals;

    const OUTPUT: &str = "\
     Running tests/behaviour/main.rs
running 5 tests
test history::embedded::a_watch_resumes      ... ok
test history::kube_apiserver::a_watch_expires ... ignored, no real server
test history::kube_apiserver::a_watch_resumes ... ok
test line::tests::it_cuts ... ok
test objects::embedded::embedded_is_only_a_word ... FAILED

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn totals_of_all_binaries_are_added_up_by_server() {
        assert_eq!(
            Totals::by_server(OUTPUT).line(Some("v1.36.3")),
            "tests: 15 passed, 1 failed, 1 ignored (embedded 1, kube-apiserver v1.36.3 1)"
        );
    }

    #[test]
    fn without_a_real_server_its_tests_are_ignored() {
        let totals = Totals::by_server(OUTPUT);
        assert_eq!(
            totals.line(None),
            "tests: 15 passed, 1 failed, 1 ignored (embedded 1, kube-apiserver not run)"
        );
        assert_eq!(totals.ignored_real(), 1);
    }

    #[test]
    fn a_line_without_ignored_tests_does_not_mention_them() {
        let output = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Totals::read(output).to_string(), "2 passed, 0 failed");
    }
}

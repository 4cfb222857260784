//! Parses the output of test binaries into totals.

use std::fmt;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    passed: usize,
    failed: usize,
    embedded: usize,
    real: usize,
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
            }
        }
        totals
    }

    /// Parses the output of the behaviour suite. A test with a module `embedded` or `kube_apiserver`
    /// in its path ran on that server. Counts the passed tests.
    pub(super) fn by_server(output: &str) -> Self {
        let mut totals = Self::read(output);
        for test in output.lines().filter_map(passed) {
            totals.embedded += usize::from(is_in(test, "embedded"));
            totals.real += usize::from(is_in(test, "kube_apiserver"));
        }
        totals
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.embedded += other.embedded;
        self.real += other.real;
    }

    /// Counts a failure outside of a test.
    pub(super) fn fail(&mut self) {
        self.failed += 1;
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// The number of tests for the real server, even if it was not available.
    pub(super) fn real(&self) -> usize {
        self.real
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The last line of the output: the totals by server.
    ///
    /// Without a real server, its tests pass without doing anything. They are not counted.
    pub(super) fn line(&self, version: Option<&str>) -> String {
        let Self {
            passed,
            failed,
            embedded,
            real,
        } = self;
        match version {
            Some(version) => format!(
                "tests: {passed} passed, {failed} failed (embedded {embedded}, kube-apiserver {version} {real})"
            ),
            None => format!(
                "tests: {} passed, {failed} failed (embedded {embedded}, kube-apiserver not run)",
                passed - real
            ),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The number before `word`, as in `ok. 5 passed; 0 failed`.
fn count(result: &str, word: &str) -> usize {
    let mut parts = result.split(['.', ';']);
    parts
        .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        .unwrap_or_default()
}

/// The name of the passed test in this line.
fn passed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

fn is_in(test: &str, module: &str) -> bool {
    test.split("::").any(|part| part == module)
}

#[cfg(test)]
mod tests {
    use super::Totals;

    const OUTPUT: &str = "\
     Running tests/behaviour/main.rs
running 4 tests
test history::embedded::a_watch_resumes ... ok
test history::kube_apiserver::a_watch_resumes ... ok
test line::tests::it_cuts ... ok
test objects::embedded::embedded_is_only_a_word ... FAILED

test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn totals_of_all_binaries_are_added_up_by_server() {
        assert_eq!(
            Totals::by_server(OUTPUT).line(Some("v1.36.3")),
            "tests: 15 passed, 1 failed (embedded 1, kube-apiserver v1.36.3 1)"
        );
    }

    #[test]
    fn skipped_tests_are_not_counted() {
        assert_eq!(
            Totals::by_server(OUTPUT).line(None),
            "tests: 14 passed, 1 failed (embedded 1, kube-apiserver not run)"
        );
    }
}

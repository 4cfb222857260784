//! Runs single tests, each in a separate process with limits.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fmt,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, UNIX_EPOCH},
};

use super::build::Binary;
use crate::{Result, duration::Stopwatch, fuzz};

/// One test, with what its run without a mutant has shown.
#[derive(Debug)]
pub(super) struct Test<'a> {
    pub(super) binary: &'a Binary,
    pub(super) name: String,
    pub(super) took: Duration,

    /// The mutants that it reaches.
    pub(super) reached: Vec<usize>,
}

/// How the process of a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Failed,
    TimedOut,
}

/// The tests in these binaries run other programs, such as cargo, which take too long.
const RUN_PROGRAMS: [&str; 5] = ["examples", "promtool", "freeze", "soak", "xtask"];

/// Slower tests than this are left out: there are faster ones for the same code.
const SLOW: Duration = Duration::from_secs(20);

/// The real server is disabled: tests on it are slower.
const REAL_SERVER: &str = "WINDLASS_KUBE_APISERVER";

/// The address space of a test, in KiB: a mutated loop must not take the memory of the machine.
const MEMORY: &str = "6000000";

/// Runs a program, `$4`, for the test `$5` with limits of memory, processor time and time.
const LIMITS: &str = "ulimit -v $1; ulimit -t $2; ulimit -c 0; \
                      timeout --kill-after=1 $3 \"$4\" --exact \"$5\" --test-threads=1; exit $?";

/// Whether tests can be limited here.
///
/// # Errors
///
/// `sh` or GNU `timeout` is missing. Without them every test would seem to fail.
pub(super) fn check_programs() -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", LIMITS, "sh", MEMORY, "10", "10", "true", "none"]);
    let output = command.stdin(Stdio::null()).output();
    if output.as_ref().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let why = match output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("cannot limit tests with sh and timeout (GNU coreutils): {why}").into())
}

// === impl Test ===

impl<'a> Test<'a> {
    /// Runs all tests of `binaries` without a mutant, and measures them, except those that the file at
    /// `known` has measured for the same binaries. `mutants` identifies the list of mutants. Returns
    /// also the names of the tests that are left out, with the reason.
    pub(super) fn measure(
        binaries: &'a [Binary],
        known: &Path,
        mutants: &str,
    ) -> Result<(Vec<Self>, Vec<String>)> {
        let mut names = Vec::new();
        let mut left_out = Vec::new();
        for binary in binaries {
            if RUN_PROGRAMS.contains(&binary.target.as_str()) {
                left_out.push(format!("{}: runs other programs", binary.target));
                continue;
            }
            let mut list = Command::new(&binary.path);
            list.args(["--list", "--format", "terse"]);
            let list = list.current_dir(&binary.folder).output()?;
            let built = fs::metadata(&binary.path)?.modified()?;
            let built = built.duration_since(UNIX_EPOCH)?.as_nanos();
            for line in String::from_utf8(list.stdout)?.lines() {
                let Some(name) = line.strip_suffix(": test") else {
                    continue;
                };
                let key = format!("{mutants} {built} {} {name}", binary.path.display());
                names.push((binary, name.to_owned(), key));
            }
        }
        let lines = fs::read_to_string(known).unwrap_or_default();
        let before: HashMap<&str, &str> = lines
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect();
        let file = Mutex::new(File::create(known)?);
        let measured = parallel("tests measured", names.len(), |i| {
            let (binary, name, key) = &names[i];
            let mut test = Test {
                binary,
                name: name.clone(),
                took: Duration::ZERO,
                reached: Vec::new(),
            };
            let line = match before.get(&**key) {
                Some(line) => (*line).to_owned(),
                None => test.measured(&known.with_extension(i.to_string()))?,
            };
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(file, "{key}\t{line}")?;
            let mut fields = line.split(' ');
            let end = fields.next().unwrap_or_default().to_owned();
            test.took = Duration::from_millis(fields.next().unwrap_or_default().parse()?);
            test.reached = fields
                .map(str::parse)
                .collect::<std::result::Result<_, _>>()?;
            Ok((test, end))
        })?;
        let mut tests = Vec::new();
        for (test, end) in measured {
            if end == "Passed" {
                tests.push(test);
            } else {
                left_out.push(format!("{test}: {end} without a mutant"));
            }
        }
        Ok((tests, left_out))
    }

    /// How this test ends without a mutant, after how many milliseconds, and the mutants that it
    /// reaches, which it writes to `file` in the meantime.
    fn measured(&self, file: &Path) -> Result<String> {
        File::create(file)?;
        let stopwatch = Stopwatch::start();
        let end = self.run("WINDLASS_MUTANTS_REACHED", file, SLOW)?;
        let took = stopwatch.elapsed().0.as_millis();
        let text = fs::read_to_string(file)?;
        fs::remove_file(file)?;
        let reached: BTreeSet<&str> = text.lines().collect();
        let reached: Vec<&str> = reached.into_iter().collect();
        Ok(format!("{end:?} {took} {}", reached.join(" "))
            .trim_end()
            .to_owned())
    }

    /// Runs this test while mutant `id` is active. A test that fails is run again: only a mutant with
    /// which it fails twice makes it fail.
    pub(super) fn mutated(&self, id: usize) -> Result<End> {
        // A test that has become five times slower counts as hanging.
        let limit = self.took * 5 + Duration::from_secs(5);
        let run = || self.run("WINDLASS_MUTANT", id.to_string(), limit);
        match run()? {
            End::Failed => run(),
            end => Ok(end),
        }
    }

    /// Runs this test for at most `limit` of processor time.
    fn run(&self, variable: &str, value: impl AsRef<OsStr>, limit: Duration) -> Result<End> {
        let processor = limit.as_secs();
        // For tests that wait, on a machine that does other things too.
        let real = processor + 15;
        let mut command = Command::new("sh");
        let status = command
            .args(["-c", LIMITS, "sh", MEMORY])
            .args([processor.to_string(), real.to_string()])
            .arg(&self.binary.path)
            .arg(&self.name)
            .current_dir(&self.binary.folder)
            .env("CARGO_MANIFEST_DIR", &self.binary.folder)
            .env(variable, value)
            .env(fuzz::SEED, "1")
            .env("RUST_BACKTRACE", "0")
            .env_remove(REAL_SERVER)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        // The limit of `timeout`; SIGKILL; SIGXCPU.
        let timed_out = [Some(124), Some(137), Some(152)].contains(&status.code());
        Ok(match status.success() {
            true => End::Passed,
            false if timed_out => End::TimedOut,
            false => End::Failed,
        })
    }
}

impl fmt::Display for Test<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.binary.package, self.binary.target, self.name
        )
    }
}

/// Calls `work` with each number below `count`, on four threads for each processor, because many tests
/// wait. Returns the results in the order of the numbers. Prints how many are done each minute, as
/// `what`.
///
/// # Errors
///
/// An error of `work`, after which it is called with no further number.
pub(super) fn parallel<T: Send>(
    what: &str,
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let minutes = AtomicU64::new(0);
    let stopwatch = Stopwatch::start();
    let threads = 4 * thread::available_parallelism().map_or(2, usize::from);
    let worker = || {
        let mut results = Vec::new();
        loop {
            let elapsed = stopwatch.elapsed();
            let i = next.fetch_add(1, Ordering::Relaxed);
            let minute = elapsed.0.as_secs() / 60;
            if minutes.fetch_max(minute, Ordering::Relaxed) < minute {
                eprintln!("   ... {i} of {count} {what}  {elapsed}");
            }
            if i >= count {
                return Ok(results);
            }
            match work(i) {
                Ok(result) => results.push((i, result)),
                Err(error) => {
                    next.fetch_max(count, Ordering::Relaxed);
                    // Errors are not `Send`.
                    return Err(error.to_string());
                }
            }
        }
    };
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            let results: std::result::Result<Vec<_>, String> =
                worker.join().map_err(|_| "a thread panicked")?;
            all.extend(results?);
        }
        Ok::<_, Box<dyn std::error::Error>>(all)
    })?;
    all.sort_unstable_by_key(|(i, _)| *i);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::{check_programs, parallel};

    #[test]
    fn an_error_of_one_thread_stops_all() {
        let calls = AtomicUsize::new(0);
        let result = parallel("calls", 20_000, |i| {
            calls.fetch_add(1, Ordering::Relaxed);
            if i == 3 {
                return Err("the third".into());
            }
            // All 20,000 calls would take seconds.
            thread::sleep(Duration::from_millis(1));
            Ok(i)
        });
        assert_eq!(result.expect_err("an error").to_string(), "the third");
        assert!(calls.into_inner() < 20_000);
    }

    #[test]
    fn results_are_in_the_order_of_their_numbers() {
        let result = parallel("calls", 100, |i| Ok(2 * i)).expect("no error");
        assert_eq!(result, (0..100).map(|i| 2 * i).collect::<Vec<_>>());
    }

    #[test]
    fn programs_that_limit_tests_are_here() {
        check_programs().expect("sh and timeout");
    }
}

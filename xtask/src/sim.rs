//! `cargo xtask sim`: simulates operators under faults, and checks that planted bugs are found.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    Result,
    duration::Stopwatch,
    progress,
    repository::{Repository, cargo},
};

/// Simulates operators under faults: each fault at each step, and random combinations.
///
/// Use `--operator` and `--plan` to replay a finding.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The number of runs with random faults for each operator.
    #[arg(long, default_value_t = 100)]
    seeds: u64,

    /// Simulates only this operator: the name of a test in crates/simulate/tests/campaign.
    #[arg(long)]
    operator: Option<String>,

    /// Replays one plan, such as `7: crash-after@12`, and prints its trace.
    #[arg(long, requires = "operator")]
    plan: Option<String>,

    /// Checks that planted bugs are found: each patch in crates/simulate/tests/planted, applied to a
    /// copy of this checkout, and the bugs in the test operators.
    #[arg(long)]
    planted: bool,
}

/// A bug of the framework, as a patch.
struct Planted {
    name: String,
    file: PathBuf,
    /// The campaign that finds it.
    test: String,
    /// The oracles that can find it.
    oracles: Vec<String>,
}

const PATCHES: &str = "crates/simulate/tests/planted";

// === impl Sim ===

impl Sim {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        if self.planted {
            return self.find_planted(&repository);
        }
        let filter = match &self.operator {
            Some(operator) => format!("campaigns::{operator}"),
            None => "campaigns::".to_owned(),
        };
        let mut command = campaign(repository.root(), &filter, self.seeds);
        if let Some(plan) = &self.plan {
            command.env("WINDLASS_SIMULATION", plan);
        }
        let ran = progress::run("simulations", &mut command, note)?;
        let shown = |line: &&str| self.plan.is_some() || is_result(line);
        if ran.status.success() {
            ran.output
                .lines()
                .filter(shown)
                .for_each(|line| println!("{line}"));
            println!("ok in {}", ran.elapsed);
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}\nFAILED in {}", ran.output, ran.elapsed);
        Ok(ExitCode::FAILURE)
    }

    /// Returns whether all planted bugs are found.
    fn find_planted(&self, repository: &Repository) -> Result {
        let stopwatch = Stopwatch::start();
        let mut missed = Vec::new();
        let mut command = campaign(repository.root(), "planted::", self.seeds);
        let ran = progress::run("bugs of operators", &mut command, note)?;
        for line in ran
            .output
            .lines()
            .filter(|it| it.starts_with("test planted::"))
        {
            println!("{line}");
        }
        if !ran.status.success() {
            println!("{}", ran.output);
            missed.push("a bug of an operator".to_owned());
        }
        let copy = repository.target()?.join("planted");
        let tree = copy.join("tree");
        copy_tree(repository, &tree)?;
        for planted in Planted::all(repository)? {
            apply(&tree, &planted.file, false)?;
            let filter = format!("campaigns::{}", planted.test);
            let mut command = campaign(&tree, &filter, self.seeds);
            command.env("CARGO_TARGET_DIR", copy.join("target"));
            let ran = progress::run(&planted.name, &mut command, note)?;
            apply(&tree, &planted.file, true)?;
            let found = (ran.output.lines()).find_map(|line| {
                line.split_once("\" broke ")
                    .map(|(_, oracle)| oracle.trim())
            });
            match found {
                Some(oracle) if planted.oracles.iter().any(|it| it == oracle) => {
                    println!("found  {} ({oracle}, {})", planted.name, ran.elapsed);
                }
                _ => {
                    println!("MISSED {}: {found:?}\n{}", planted.name, ran.output);
                    missed.push(planted.name);
                }
            }
        }
        println!("checked all planted bugs in {}", stopwatch.elapsed());
        if missed.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("missed: {}", missed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

// === impl Planted ===

impl Planted {
    fn all(repository: &Repository) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(repository.join(PATCHES))? {
            let file = entry?.path();
            let text = fs::read_to_string(&file)?;
            let field = |name: &str| {
                let found = text.lines().find_map(|line| line.strip_prefix(name));
                found.ok_or_else(|| format!("{}: there is no line `{name}`", file.display()))
            };
            all.push(Self {
                name: file
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                test: field("test: ")?.trim().to_owned(),
                oracles: field("oracles: ")?
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect(),
                file,
            });
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }
}

/// The command for the test binary of the campaigns, with all faults at all steps.
fn campaign(root: &Path, filter: &str, seeds: u64) -> Command {
    let mut command = cargo();
    command
        .args([
            "test",
            "--package",
            "windlass-simulate",
            "--test",
            "campaign",
        ])
        .args(["--", "--nocapture", "--test-threads", "1", filter])
        .env("WINDLASS_SIMULATION_SEEDS", seeds.to_string())
        .env("RUST_BACKTRACE", "0")
        .current_dir(root);
    command
}

/// The part of an output line that is shown as progress.
fn note(line: &str) -> Option<String> {
    let shows_progress = line.contains(" runs; now ") || line.starts_with("test ");
    shows_progress.then(|| line.chars().take(100).collect())
}

fn is_result(line: &str) -> bool {
    line.contains(" runs with one fault ") || line.starts_with("test result")
}

/// Copies all files that git tracks to `tree`. Unchanged files keep their times.
fn copy_tree(repository: &Repository, tree: &Path) -> Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(repository.root())
        .output()?;
    let names = String::from_utf8(output.stdout)?;
    for name in names.split('\0').filter(|it| !it.is_empty()) {
        let (from, to) = (repository.join(name), tree.join(name));
        // Deleted, but the deletion is not committed yet.
        let Ok(bytes) = fs::read(from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(tree))?;
        fs::write(to, bytes)?;
    }
    Ok(())
}

/// Applies a patch to the copy, or reverts it.
fn apply(tree: &Path, patch: &Path, back: bool) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["apply", "--recount"]);
    if back {
        command.arg("--reverse");
    }
    // Without this, git treats the copy as a folder of the enclosing repository.
    let above = tree.parent().unwrap_or(tree);
    let status = command
        .arg(patch)
        .env("GIT_CEILING_DIRECTORIES", above)
        .current_dir(tree)
        .status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "{} does not apply to this checkout; create it again",
        patch.display()
    )
    .into())
}

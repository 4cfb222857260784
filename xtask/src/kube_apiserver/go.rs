//! The Go program in `tests/kube-apiserver`, and when it must be built again.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use super::RealServer;
use crate::{Result, progress, repository::Repository};

const FOLDER: &str = "tests/kube-apiserver";

/// The program, as its sources say.
#[derive(Debug)]
pub(super) struct Program {
    folder: PathBuf,
    binary: PathBuf,

    /// Of Kubernetes, such as `v1.36.3`.
    version: String,

    /// The oldest Go that builds it, such as `1.26.0`.
    go: String,
}

// === impl Program ===

impl Program {
    pub(super) fn read(repository: &Repository) -> Result<Self> {
        let go_mod = repository.read(&format!("{FOLDER}/go.mod"))?;
        let value = |name: &str| {
            let value = go_mod
                .lines()
                .find_map(|line| line.trim().strip_prefix(name));
            value
                .map(|it| it.trim().to_owned())
                .ok_or(format!("{FOLDER}/go.mod has no {name:?}"))
        };
        Ok(Self {
            folder: repository.join(FOLDER),
            binary: repository
                .target()?
                .join("kube-apiserver")
                .join("kube-apiserver"),
            version: value("k8s.io/kubernetes ")?,
            go: value("go ")?,
        })
    }

    /// What keeps us from building it, unless it is built.
    pub(super) fn missing(&self) -> Option<String> {
        if self.is_fresh() {
            return None;
        }
        let Ok(output) = Command::new("go").args(["env", "GOVERSION"]).output() else {
            return Some(format!(
                "there is no Go here to build kube-apiserver (it takes {})",
                self.go
            ));
        };
        let words = String::from_utf8_lossy(&output.stdout);
        let here = words.trim().trim_start_matches("go");
        (numbers(here) < numbers(&self.go)).then(|| {
            format!(
                "Go {here} is too old to build kube-apiserver (it takes {})",
                self.go
            )
        })
    }

    /// Builds it, unless that has been done since its sources changed.
    pub(super) fn build(self) -> Result<RealServer> {
        let server = RealServer {
            program: self.binary.clone(),
            version: self.version.clone(),
        };
        if self.is_fresh() {
            return Ok(server);
        }
        let what = format!(
            "building kube-apiserver {} (a first build takes minutes)",
            self.version
        );
        let part = self.binary.with_extension("part");
        let mut packages = 0;
        let ran = progress::run(&what, &mut self.command(&part), |line| {
            if line.starts_with("go: downloading") {
                return Some(line.trim_start_matches("go: ").to_owned());
            }
            packages += 1;
            Some(format!("{packages} packages"))
        })?;
        if !ran.status.success() {
            return Err(format!("cannot build {FOLDER}:\n{}", ran.output).into());
        }
        // Whoever runs the old one keeps it.
        fs::rename(part, &self.binary)?;
        eprintln!("built kube-apiserver {} in {}", self.version, ran.elapsed);
        Ok(server)
    }

    fn command(&self, output: &Path) -> Command {
        let version = "k8s.io/component-base/version";
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (
            numbers.next().unwrap_or("1"),
            numbers.next().unwrap_or_default(),
        );
        let flags = format!(
            "-s -w -X {version}.gitVersion={} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}",
            self.version
        );
        let mut command = Command::new("go");
        command
            .args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(output)
            .arg(".")
            .current_dir(&self.folder);
        command
    }

    fn is_fresh(&self) -> bool {
        let Ok(built) = modified(&self.binary) else {
            return false;
        };
        newest_source(&self.folder).is_ok_and(|newest| newest <= built)
    }
}

fn newest_source(folder: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|it| it == "go" || it == "mod" || it == "sum")
        {
            newest = newest.max(modified(&path)?);
        }
    }
    Ok(newest)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// `1.26.0` and `1.26rc1` as something to compare.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|c: char| !c.is_ascii_digit()).take(3);
    parts.map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_of_go_compare_as_numbers() {
        assert!(numbers("1.9.7") < numbers("1.26.0"));
        assert!(numbers("1.26.8") >= numbers("1.26.0"));
        assert!(numbers("1.27") >= numbers("1.26.0"));
        assert!(numbers("") < numbers("1.26.0"));
    }
}

//! `cargo xtask release`: checks that a release can be made, and publishes its crates in the order
//! of their dependencies.

use std::{
    collections::BTreeMap,
    process::{Command, ExitCode},
};

use clap::Args;
use serde_json::Value;

use crate::{
    Result,
    features::is_published,
    repository::{Repository, cargo},
};

/// Packages each published crate and builds it from its package, in the order of the dependencies.
///
/// With --tag, the tag must be `v` and the version of the workspace, and CHANGELOG.md must have a
/// section of this version. RELEASING.md has all steps of a release.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command")]
pub(crate) struct Release {
    /// The tag of the release, such as v0.1.0.
    #[arg(long)]
    tag: Option<String>,

    /// Publishes the crates instead. A crate that the registry has in this version is left out, so
    /// that a release that was interrupted can be continued.
    #[arg(long, requires = "tag")]
    publish: bool,

    /// Prints the section of CHANGELOG.md for the version of the workspace, and does nothing else.
    #[arg(long, conflicts_with = "publish")]
    notes: bool,

    /// Does not build the packages: the dependencies need not be downloaded.
    #[arg(long, conflicts_with_all = ["publish", "notes"])]
    no_verify: bool,

    /// Also packages files with changes that are not committed.
    #[arg(long, conflicts_with = "publish")]
    allow_dirty: bool,
}

// === impl Release ===

impl Release {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let metadata = repository.metadata()?;
        let crates = in_order(&metadata)?;
        let version = version(&metadata)?;
        let changes = repository.read("CHANGELOG.md")?;
        if self.notes {
            print!("{}", section(&changes, version)?);
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(tag) = &self.tag {
            if tag.strip_prefix('v') != Some(version) {
                let message = format!("the tag {tag} is not v{version}, the version in Cargo.toml");
                return Err(message.into());
            }
            section(&changes, version)?;
        }
        println!("{version}: {}", crates.join(", "));
        if self.publish {
            return publish(&repository, &crates);
        }
        let status = self
            .package(&crates)
            .current_dir(repository.root())
            .status()?;
        Ok(ExitCode::from(u8::from(!status.success())))
    }

    /// The command that packages all crates. A crate is built with the packages of those on which it
    /// depends, which need not be in the registry.
    fn package(&self, crates: &[String]) -> Command {
        let mut command = cargo();
        command.arg("package");
        for name in crates {
            command.args(["--package", name]);
        }
        if self.no_verify {
            command.args(["--no-verify", "--offline"]);
        }
        if self.allow_dirty {
            command.arg("--allow-dirty");
        }
        command
    }
}

/// Publishes the crates one after the other: cargo waits until the registry has each one.
fn publish(repository: &Repository, crates: &[String]) -> Result {
    for name in crates {
        let output = cargo()
            .args(["publish", "--locked", "--package", name])
            .current_dir(repository.root())
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        eprint!("{errors}");
        if output.status.success() {
            println!("{name} is published");
        } else if errors.contains("already exists on") {
            println!("{name} is in the registry already");
        } else {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The version of all crates.
fn version(metadata: &Value) -> Result<&str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut versions = packages
        .filter(|it| is_published(it))
        .filter_map(|it| it["version"].as_str());
    let version = versions.next().ok_or("no crate is published")?;
    match versions.find(|it| *it != version) {
        Some(other) => {
            Err(format!("one crate has the version {version}, another one {other}").into())
        }
        None => Ok(version),
    }
}

/// The published crates, each after those on which it depends, also for its tests.
fn in_order(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| is_published(package));
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut open: BTreeMap<String, Vec<String>> = packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            // A dependency without a version is not in the package: the crate itself, for its tests.
            let dependencies = dependencies.filter(|it| it["req"] != "*");
            (name(package), dependencies.map(name).collect())
        })
        .collect();
    let mut ordered = Vec::new();
    while !open.is_empty() {
        let next = open.iter().find(|(_, dependencies)| {
            dependencies
                .iter()
                .all(|dependency| !open.contains_key(dependency))
        });
        let Some((next, _)) = next else {
            let names: Vec<_> = open.into_keys().collect();
            return Err(format!("these crates depend on each other: {}", names.join(", ")).into());
        };
        let next = next.clone();
        open.remove(&next);
        ordered.push(next);
    }
    Ok(ordered)
}

/// The section of the change log for a version.
fn section<'a>(changes: &'a str, version: &str) -> Result<&'a str> {
    let header = format!("\n## {version}");
    let begin = changes
        .match_indices(&header)
        .find(|(at, _)| changes[at + header.len()..].starts_with([' ', '\n']));
    let Some((begin, _)) = begin else {
        return Err(format!("CHANGELOG.md has no section {version}").into());
    };
    let (_, section) = changes[begin + 1..].split_once('\n').unwrap_or_default();
    Ok(section
        .split_once("\n## ")
        .map_or(section, |(section, _)| section)
        .trim_start())
}

#[cfg(test)]
mod tests {
    use super::{in_order, section, version};
    use crate::repository::Repository;

    #[test]
    fn each_crate_is_published_after_those_on_which_it_depends() {
        let metadata = Repository::here().metadata().expect("packages");
        let crates = in_order(&metadata).expect("no cycle");
        let place = |name: &str| crates.iter().position(|it| it == name).expect(name);
        for (first, then) in [
            ("windlass-informer", "windlass-controller"),
            ("windlass-controller", "windlass-operator"),
            ("windlass-protobuf", "windlass-apiserver"),
            ("windlass-apiserver", "windlass-simulate"),
            ("windlass-simulate", "windlass"),
        ] {
            assert!(place(first) < place(then), "{crates:?}");
        }
        assert!(!crates.iter().any(|it| it == "xtask"), "{crates:?}");
        version(&metadata).expect("one version");
    }

    #[test]
    fn the_page_about_releases_names_all_crates_in_this_order() {
        let repository = Repository::here();
        let crates = in_order(&repository.metadata().expect("packages")).expect("no cycle");
        let list: Vec<_> = crates.iter().map(|it| format!("`{it}`")).collect();
        let list = list.join(", ");
        let page = repository.read("RELEASING.md").expect("the page");
        assert!(
            page.lines().any(|line| line == list),
            "RELEASING.md lacks the line {list}"
        );
    }

    #[test]
    fn the_notes_of_a_release_are_its_section_of_the_change_log() {
        let changes = "# Changelog\n\n## 0.1.1 - 2027-01-01\n\n- b\n\n## 0.1.0\n- a\n";
        assert_eq!(section(changes, "0.1.1").expect("there"), "- b\n");
        assert_eq!(section(changes, "0.1.0").expect("there"), "- a\n");
        let error = section(changes, "0.1").expect_err("no such version");
        assert_eq!(error.to_string(), "CHANGELOG.md has no section 0.1");
    }
}

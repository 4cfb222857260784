//! `cargo xtask protobuf-tables`: generates the field tables of `crates/protobuf`.

use std::{fs, path::Path, process::ExitCode};

use clap::Args;

use crate::{Result, repository::Repository};

// Input.
pub(crate) mod go_types;
mod modules;
mod proto;

// Output.
mod messages;
mod tables;

pub(crate) use self::modules::packages;
use self::{go_types::GoPackage, proto::ProtoMessage, tables::Tables};

/// Generates the field tables of crates/protobuf from Kubernetes' Go modules.
///
/// Downloads the modules in the versions that tests/kube-apiserver/go.mod pins, which requires Go.
/// The numbers and types of the fields come from their `generated.proto` files. The JSON names, and
/// whether an empty field is omitted, come from the tags of the Go structs.
#[derive(Args, Debug)]
pub(crate) struct ProtobufTables {
    /// Checks that the committed tables are up to date, and writes nothing.
    #[arg(long)]
    check: bool,
}

/// One API package: a `generated.proto` file and the Go types beside it.
#[derive(Debug)]
pub(crate) struct Package {
    /// The protobuf package, such as `k8s.io.api.core.v1`.
    proto_name: String,

    /// The Go package, such as `k8s.io/api/core/v1`.
    pub(crate) path: String,

    /// The module with its version, such as `k8s.io/api v0.36.3`.
    module: String,

    /// The API group. `None` if the package has no kinds.
    group: Option<String>,

    messages: Vec<ProtoMessage>,
    pub(crate) go: GoPackage,
}

/// The folder of the tables.
const FOLDER: &str = "crates/protobuf/src";

// === impl ProtobufTables ===

impl ProtobufTables {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let packages = packages(&repository)?;
        let tables = Tables::new(&packages)?;
        let mut stale = Vec::new();
        for (path, text) in tables.files()? {
            let file = repository.join(FOLDER).join(&path);
            if fs::read_to_string(&file).is_ok_and(|old| old == text) {
                continue;
            }
            if self.check {
                stale.push(path);
            } else {
                write(&file, &text)?;
            }
        }
        let (messages, fields, kinds) = tables.counts();
        println!("{messages} messages, {fields} fields, {kinds} kinds");
        if stale.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!(
            "not up to date, run `cargo xtask protobuf-tables`: {}",
            stale.join(", ")
        );
        Ok(ExitCode::FAILURE)
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(file, text)?)
}

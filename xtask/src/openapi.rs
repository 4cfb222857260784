//! `cargo xtask openapi`: generates the table of built-in types for `crates/apiserver`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, ExitCode, Stdio},
};

use clap::Args;
use serde_json::{Map, Value};

use crate::{
    Result,
    kube_apiserver::{self, Found, Minor},
    protobuf_tables,
    repository::Repository,
};

mod descriptions;
mod table;

use self::table::Table;

/// Generates the table of built-in types of crates/apiserver from the real server's `OpenAPI`.
///
/// Starts the real kube-apiserver and reads its `OpenAPI` v3 documents with kubectl: the kinds,
/// types and fields, their descriptions, defaults, allowed values and list types. The Go modules that
/// tests/kube-apiserver/go.mod pins give the Go names of types in errors, and whether an empty
/// field is omitted.
#[derive(Args, Debug)]
pub(crate) struct Openapi {
    /// Checks that the committed table is up to date, and writes nothing.
    #[arg(long)]
    check: bool,
}

/// The path of the table.
const FILE: &str = "crates/apiserver/src/typed/table.txt";

/// The path of the compressed descriptions.
const DESCRIPTIONS: &str = "crates/apiserver/src/discovery/openapi/descriptions.txt.gz";

/// A running real server. Dropping it stops the server.
struct Running {
    child: Child,
    kubeconfig: String,
    version: String,
}

// === impl Openapi ===

impl Openapi {
    pub(crate) fn run(&self) -> Result {
        let repository = Repository::here();
        let server = match kube_apiserver::find(&repository, Minor::default())? {
            Found::Server(server) => server,
            Found::Nothing(reason) => return Err(reason.into()),
        };
        let running = Running::start(&server.program)?;
        let packages = protobuf_tables::packages(&repository)?;
        let documents = running.documents()?;
        let table = Table::new(&documents, &packages)?;
        let text = table.text(&running.version)?;
        let described = descriptions::text(&documents, &running.version)?;
        println!(
            "{}, {} bytes; {} bytes of descriptions",
            table.counts(),
            text.len(),
            described.len()
        );
        let descriptions = repository.join(DESCRIPTIONS);
        // The text is compared: another version of the compressor writes other bytes.
        if descriptions::read(&descriptions).is_none_or(|old| old != described) {
            if self.check {
                println!("{DESCRIPTIONS} is not up to date, run `cargo xtask openapi`");
                return Ok(ExitCode::FAILURE);
            }
            descriptions::write(&descriptions, &described)?;
        }
        let file = repository.join(FILE);
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            return Ok(ExitCode::SUCCESS);
        }
        if self.check {
            println!("{FILE} is not up to date, run `cargo xtask openapi`");
            return Ok(ExitCode::FAILURE);
        }
        fs::write(file, text)?;
        Ok(ExitCode::SUCCESS)
    }
}

// === impl Running ===

impl Running {
    fn start(program: &std::path::Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = String::new();
        let stdout = child.stdout.take().ok_or("stdout is not piped")?;
        BufReader::new(stdout).read_line(&mut ready)?;
        let ready: Value = serde_json::from_str(&ready)?;
        let field = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            child,
            kubeconfig: field("kubeconfig"),
            version: field("version"),
        })
    }

    /// The documents of all group versions, by path, such as `apis/apps/v1`.
    fn documents(&self) -> Result<Map<String, Value>> {
        let index = self.get("/openapi/v3")?;
        let paths = index["paths"].as_object().ok_or("no paths")?;
        let mut documents = Map::new();
        for path in paths.keys() {
            let is_version = path == "api/v1" || path.matches('/').count() == 2;
            if path.starts_with("api") && is_version {
                let document = self.get(&format!("/openapi/v3/{path}"))?;
                documents.insert(path.clone(), document);
            }
        }
        Ok(documents)
    }

    fn get(&self, path: &str) -> Result<Value> {
        let arguments = ["get", "--raw", path, "--kubeconfig", &self.kubeconfig];
        let output = Command::new("kubectl")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run kubectl, which reads {path}: {error}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("kubectl cannot read {path}: {stderr}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The server ends when its stdin is closed, and removes its files.
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

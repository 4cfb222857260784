//! `cargo xtask kube-apiserver`: starts a real kube-apiserver.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{Result, go::Program, repository::Repository};

mod envtest;

pub(crate) use self::envtest::Envtest;

/// Builds the real kube-apiserver once, starts it, and prints its kubeconfig.
///
/// The program in tests/kube-apiserver builds it from its Go modules, which requires Go. If
/// `KUBEBUILDER_ASSETS` is a folder with etcd and kube-apiserver, as for envtest, these binaries
/// are used instead.
#[derive(Args, Debug)]
pub(crate) struct KubeApiserver {
    /// Builds the server and prints its path, but does not start it.
    #[arg(long)]
    build_only: bool,

    /// Serves watches from etcd instead of the cache, so that `compact` expires them.
    #[arg(long)]
    without_watch_cache: bool,

    /// The minor version of Kubernetes.
    #[arg(long, value_enum, default_value_t)]
    minor: Minor,
}

/// A minor version of Kubernetes whose real server can be built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Minor {
    /// The oldest one that streams lists by default.
    #[value(name = "1.34")]
    V1_34,

    /// The one that the embedded server behaves like.
    #[default]
    #[value(name = "1.36")]
    V1_36,
}

/// A program that starts a real server and prints its address, like tests/kube-apiserver.
#[derive(Clone, Debug)]
pub(crate) struct RealServer {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}

/// Whether a real server is available for tests.
#[derive(Debug)]
pub(crate) enum Found {
    Server(RealServer),

    /// No real server is available, for this reason.
    Nothing(String),
}

/// The folder of its sources.
pub(crate) const FOLDER: &str = "tests/kube-apiserver";

/// The environment variable with the folder of envtest's binaries, as in controller-runtime.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The environment variable with the path of a built server. The behaviour suite reads it too.
pub(crate) const BUILT: &str = "WINDLASS_KUBE_APISERVER";

/// The environment variable with the minor version of the embedded server in the behaviour suite.
pub(crate) const MINOR: &str = "WINDLASS_KUBERNETES_MINOR";

// === impl KubeApiserver ===

impl KubeApiserver {
    pub(crate) fn run(&self) -> Result {
        let server = match find(&Repository::here(), self.minor)? {
            Found::Server(server) => server,
            Found::Nothing(reason) => return Err(reason.into()),
        };
        if self.build_only {
            println!("{}", server.program.display());
            return Ok(ExitCode::SUCCESS);
        }

        let mut command = Command::new(&server.program);
        if self.without_watch_cache {
            command.arg("--watch-cache=false");
        }
        // The server ends when its stdin is closed, so also when this process is killed. A Ctrl-C in
        // a terminal reaches both processes.
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // Taken out of the child, because `Child::wait` closes its stdin.
        let open = child.stdin.take();
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut ready)?;
        if let Ok(ready) = serde_json::from_str::<Value>(&ready) {
            let say = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
            println!("kube-apiserver {} at {}", say("version"), say("server"));
            println!("export KUBECONFIG={}", say("kubeconfig"));
            println!("Press Ctrl-C to stop the server and remove its data.");
        }
        let status = child.wait()?;
        drop(open);
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

// === impl Minor ===

impl Minor {
    /// Its number, as in the environment variable of the behaviour suite.
    pub(crate) const fn number(self) -> &'static str {
        match self {
            Self::V1_34 => "1.34",
            Self::V1_36 => "1.36",
        }
    }

    /// The file in [`FOLDER`] that names its modules.
    const fn mod_file(self) -> &'static str {
        match self {
            Self::V1_34 => "go.1.34.mod",
            Self::V1_36 => "go.mod",
        }
    }

    /// The path of its binary in the target directory. The name of the file is the manager of the
    /// fields that the server writes.
    const fn binary(self) -> &'static str {
        match self {
            Self::V1_34 => "kube-apiserver/1.34/kube-apiserver",
            Self::V1_36 => "kube-apiserver/kube-apiserver",
        }
    }
}

/// Finds a real server, and builds that of version `minor` if necessary.
pub(crate) fn find(repository: &Repository, minor: Minor) -> Result<Found> {
    if let Some(program) = env::var_os(BUILT).filter(|program| !program.is_empty()) {
        let version = Command::new(&program).arg("--version").output()?;
        return Ok(Found::Server(RealServer {
            program: program.into(),
            version: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
        }));
    }
    if let Some(assets) = env::var_os(ASSETS).filter(|assets| !assets.is_empty()) {
        return envtest::find(repository, Path::new(&assets)).map(Found::Server);
    }
    let program = Program::with_modules(repository, FOLDER, minor.mod_file(), minor.binary())?;
    match program.missing("kube-apiserver") {
        Some(reason) => Ok(Found::Nothing(format!("{reason}, and {ASSETS} is not set"))),
        None => build(program).map(Found::Server),
    }
}

fn build(program: Program) -> Result<RealServer> {
    let version = program.value("k8s.io/kubernetes ")?;
    let package = "k8s.io/component-base/version";
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (
        numbers.next().unwrap_or("1"),
        numbers.next().unwrap_or_default(),
    );
    let flags = format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    );
    let program = program.build(&format!("kube-apiserver {version}"), &flags)?;
    Ok(RealServer { program, version })
}

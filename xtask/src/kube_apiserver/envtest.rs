//! A real server from existing binaries: the `KUBEBUILDER_ASSETS` of envtest.
//!
//! It has the same interface as `tests/kube-apiserver` (see the README there), so that tests work
//! with both.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::{ASSETS, RealServer};
use crate::{Result, repository::Repository};

mod process;

use self::process::Process;

/// Starts etcd and kube-apiserver from a folder, for tests.
#[derive(Args, Debug)]
pub(crate) struct Envtest {
    /// The folder with the binaries.
    #[arg(long)]
    assets: PathBuf,

    /// Whether watches are served from kube-apiserver's cache.
    #[arg(long, action = ArgAction::Set, default_value_t = true)]
    watch_cache: bool,

    /// Turns the admission plugin for service accounts on.
    #[arg(long)]
    service_accounts: bool,

    /// More flags of kube-apiserver.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Running etcd and kube-apiserver, with a temporary folder.
struct Servers<'a> {
    options: &'a Envtest,
    folder: PathBuf,
    etcd_port: u16,
    port: u16,
    admin: String,
    powerless: String,
    apiserver: Option<Process>,
    etcd: Option<Process>,
}

/// `compact_rev_key`, in which API servers share the compacted revision, and the value `0`, in the
/// base64 of etcd's JSON API.
const COMPACT_REV_PUT: &str = r#"{"key":"Y29tcGFjdF9yZXZfa2V5","value":"MA=="}"#;

/// Creates the program that starts the binaries in `assets`.
pub(super) fn find(repository: &Repository, assets: &Path) -> Result<RealServer> {
    let assets = fs::canonicalize(assets)
        .map_err(|error| format!("{ASSETS} is {}: {error}", assets.display()))?;
    for binary in ["etcd", "kube-apiserver"] {
        if !assets.join(binary).is_file() {
            return Err(format!("{ASSETS} is {}, which has no {binary}", assets.display()).into());
        }
    }
    let version = Command::new(assets.join("kube-apiserver"))
        .arg("--version")
        .output()?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.trim().trim_start_matches("Kubernetes ").to_owned();

    let folder = repository.target()?.join("kube-apiserver");
    fs::create_dir_all(&folder)?;
    let program = folder.join("envtest");
    let xtask = std::env::current_exe()?;
    let (xtask, assets) = (xtask.display(), assets.display());
    fs::write(
        &program,
        format!("#!/bin/sh\nexec '{xtask}' envtest --assets '{assets}' \"$@\"\n"),
    )?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(RealServer { program, version })
}

// === impl Envtest ===

impl Envtest {
    /// Serves until stdin closes.
    pub(crate) fn run(&self) -> Result {
        let mut servers = Servers::new(self)?;
        servers.start()?;
        say(&servers.ready()?)?;
        for command in io::stdin().lines() {
            let command = command?;
            say(&match servers.obey(&command) {
                Ok(mut done) => {
                    done["command"] = command.into();
                    done
                }
                Err(error) => json!({ "command": command, "error": error.to_string() }),
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn kubectl(&self) -> PathBuf {
        Some(self.assets.join("kubectl"))
            .filter(|it| it.is_file())
            .unwrap_or("kubectl".into())
    }
}

// === impl Servers ===

impl<'a> Servers<'a> {
    fn new(options: &'a Envtest) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("windlass-envtest-{}", secret()?));
        fs::DirBuilder::new().create(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        Ok(Self {
            options,
            folder,
            etcd_port: free_port()?,
            port: free_port()?,
            admin: secret()?,
            powerless: secret()?,
            apiserver: None,
            etcd: None,
        })
    }

    fn start(&mut self) -> Result<()> {
        let tokens = format!(
            "{},admin,admin,\"system:masters\"\n{},powerless,powerless\n",
            self.admin, self.powerless
        );
        fs::write(self.folder.join("tokens.csv"), tokens)?;
        let (client, peer) = (
            self.etcd_url(),
            format!("http://127.0.0.1:{}", free_port()?),
        );
        let flags = [
            format!("--data-dir={}", self.folder.join("etcd").display()),
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ];
        let program = self.options.assets.join("etcd");
        // Stop etcd last, then remove the folder.
        let log = self.folder.join("etcd.log");
        self.etcd = Some(Process::start(&program, &flags, &log, Some(&self.folder))?);
        self.start_apiserver()
    }

    fn start_apiserver(&mut self) -> Result<()> {
        let in_folder = |name: &str| self.folder.join(name).display().to_string();
        // kube-apiserver creates its own certificate. Its key is also used for service accounts,
        // which these tests do not need.
        let key = in_folder("apiserver.key");
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd_url()),
            "--etcd-compaction-interval=0".to_owned(),
            format!("--watch-cache={}", self.options.watch_cache),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--cert-dir={}", self.folder.display()),
            format!("--token-auth-file={}", in_folder("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--enable-priority-and-fairness=false".to_owned(),
        ];
        if !self.options.service_accounts {
            flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        flags.extend(self.options.flags.iter().cloned());
        let program = self.options.assets.join("kube-apiserver");
        let log = self.folder.join("kube-apiserver.log");
        self.apiserver = Some(Process::start(&program, &flags, &log, None)?);
        self.wait()
    }

    /// Waits until the server responds and the default namespaces exist.
    fn wait(&mut self) -> Result<()> {
        let certificate = self.folder.join("apiserver.crt");
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            // Waits up to a minute.
            let mut tries = 0..300;
            loop {
                if certificate.is_file() {
                    fs::write(self.kubeconfig(), self.kubeconfig_text()?)?;
                    let arguments = ["get", "--raw", path, "--kubeconfig"];
                    let mut kubectl = Command::new(self.options.kubectl());
                    kubectl
                        .args(arguments)
                        .arg(self.kubeconfig())
                        .stdin(Stdio::null());
                    let output = kubectl
                        .output()
                        .map_err(|error| format!("kubectl: {error}"))?;
                    if output.status.success() {
                        break;
                    }
                }
                let ended = self.apiserver.as_mut().is_none_or(Process::has_ended);
                if ended || tries.next().is_none() {
                    let log = fs::read_to_string(self.folder.join("kube-apiserver.log"))?;
                    return Err(format!("kube-apiserver does not start:\n{log}").into());
                }
                // kube-apiserver sends no notification, so poll it.
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
        }
        Ok(())
    }

    fn ready(&self) -> Result<Value> {
        let assets = &self.options.assets;
        let version = Command::new(assets.join("kube-apiserver"))
            .arg("--version")
            .output()?;
        let version = String::from_utf8_lossy(&version.stdout);
        Ok(json!({
            "server": format!("https://127.0.0.1:{}", self.port),
            "ca": fs::read_to_string(self.folder.join("apiserver.crt"))?,
            "token": self.admin,
            "powerless_token": self.powerless,
            "kubeconfig": self.kubeconfig(),
            "version": version.trim().trim_start_matches("Kubernetes "),
            "watch_cache": self.options.watch_cache,
            "log": self.folder.join("kube-apiserver.log"),
        }))
    }

    fn obey(&mut self, command: &str) -> Result<Value> {
        match command {
            "compact" => self.compact(),
            "restart" => {
                self.restart()?;
                Ok(json!({}))
            }
            "expire" => {
                let done = self.compact()?;
                if self.options.watch_cache {
                    self.restart()?;
                }
                Ok(done)
            }
            _ => Err("unknown command; use compact, restart or expire".into()),
        }
    }

    /// Compacts etcd's history, after two writes, so that the newest version is compacted too.
    fn compact(&self) -> Result<Value> {
        self.etcd("put", COMPACT_REV_PUT)?;
        let put = self.etcd("put", COMPACT_REV_PUT)?;
        let revision = put["header"]["revision"].as_str().unwrap_or_default();
        let revision = revision
            .parse::<u64>()
            .map_err(|_| format!("unexpected response of etcd: {put}"))?;
        let request = json!({ "revision": revision.to_string(), "physical": true });
        self.etcd("compaction", &request.to_string())?;
        Ok(json!({ "revision": revision }))
    }

    fn restart(&mut self) -> Result<()> {
        drop(self.apiserver.take());
        self.start_apiserver()
    }

    /// Calls etcd's JSON gateway.
    fn etcd(&self, method: &str, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port))?;
        write!(
            stream,
            "POST /v3/kv/{method} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response
            .split_once("\r\n\r\n")
            .ok_or("etcd closed the connection")?;
        match head.lines().next() {
            Some(status) if status.contains(" 200 ") => Ok(serde_json::from_str(body)?),
            status => Err(format!("etcd: {method}: {}", status.unwrap_or_default()).into()),
        }
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A kubeconfig as JSON, which is valid YAML.
    fn kubeconfig_text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "windlass",
            "clusters": [{ "name": "windlass", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority": self.folder.join("apiserver.crt"),
            }}],
            "users": [{ "name": "admin", "user": { "token": self.admin } }],
            "contexts": [{ "name": "windlass", "context": {
                "cluster": "windlass", "user": "admin",
            }}],
        }))?)
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        drop(self.apiserver.take());
        drop(self.etcd.take());
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn say(line: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// A port that is currently free.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A random token.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

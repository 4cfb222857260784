//! Tests of the command `windlass-apiserver`, started as a test in another language starts it.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

mod support;

type TestResult = Result<(), Box<dyn Error>>;

/// A folder of the test, which is deleted afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts the command, and waits for its first line.
fn start(arguments: &[&str]) -> std::io::Result<(Child, String)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass-apiserver"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    Ok((child, line))
}

/// Starts the command with `manifests`, and returns a client with the `kubeconfig` that it writes.
async fn start_with(
    manifests: &Path,
    kubeconfig: &Path,
) -> Result<(Child, Client), Box<dyn Error>> {
    let (child, line) = start(&[
        "--kubeconfig",
        &kubeconfig.to_string_lossy(),
        "--load",
        &manifests.to_string_lossy(),
        "--stop-with-stdin",
    ])?;
    assert!(line.starts_with("ready http://127.0.0.1:"), "{line}");
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok((child, Client::try_from(config)?))
}

#[tokio::test]
async fn the_command_loads_manifests_writes_a_kubeconfig_and_ends_with_its_input() -> TestResult {
    let folder = Folder::new("windlass-command")?;
    let manifests = folder.0.join("manifests");
    fs::create_dir_all(&manifests)?;
    // The widget is read first, and applied after its definition.
    let list = "apiVersion: v1\nkind: List\nitems:\n\
                - apiVersion: ex.io/v1\n  kind: Widget\n  metadata: {name: a, namespace: 'n'}\n  spec: {size: 1}\n\
                - apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: b}\n---\n# nothing\n---\n\
                {apiVersion: v1, kind: Namespace, metadata: {name: 'n'}}\n";
    fs::write(manifests.join("a.yaml"), list)?;
    let definition = support::widget_definition().to_string();
    fs::write(manifests.join("b.json"), definition)?;
    fs::write(manifests.join("README"), "no manifest")?;
    let kubeconfig = folder.0.join("kubeconfig");
    let (mut child, client) = start_with(&manifests, &kubeconfig).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert_eq!(maps.list(&ListParams::default()).await?.items.len(), 1);
    let resource: ApiResource = support::widget_resource();
    let widgets: Api<DynamicObject> = Api::namespaced_with(client, "n", &resource);
    assert_eq!(widgets.get("a").await?.data["spec"]["size"], 1);

    drop(child.stdin.take());
    assert!(child.wait()?.success());
    Ok(())
}

#[tokio::test]
async fn manifests_are_read_as_kubectl_reads_them() -> TestResult {
    let folder = Folder::new("windlass-yaml")?;
    let definition = support::widget_definition().to_string();
    let kubeconfig = folder.0.join("kubeconfig");
    let file = folder.0.join("a.yaml");
    let widget = "apiVersion: ex.io/v1\nkind: Widget\nmetadata:\n  name: w\n  namespace: default\n";
    let documents = [
        format!("{definition}\n---\n# an empty document\n--- # the next one\n"),
        format!("{widget}spec:\n  size: 014\n"),
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n".to_owned(),
        "  annotations: {b: '014', a: !!str yes}\n".to_owned(),
        "data: {1: a, yes: b, 1.50: c, d: 2001-12-14}\n".to_owned(),
    ];
    fs::write(&file, documents.concat())?;
    let (mut child, client) = start_with(&file, &kubeconfig).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::to_value(maps.get("a").await?)?;
    let data = serde_json::json!({ "1": "a", "true": "b", "1.5": "c", "d": "2001-12-14" });
    assert_eq!(map["data"], data);
    let resource: ApiResource = support::widget_resource();
    let widgets: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    assert_eq!(widgets.get("w").await?.data["spec"]["size"], 12);
    match std::env::var_os("WINDLASS_KUBECTL") {
        None => println!("not run: WINDLASS_KUBECTL does not name the program of tests/kubectl"),
        Some(program) => {
            let output = Command::new(program)
                .env("KUBECONFIG", &kubeconfig)
                .env("HOME", &folder.0)
                .args([
                    "apply",
                    "--dry-run=server",
                    "--output",
                    "json",
                    "--filename",
                ])
                .arg(&file)
                .output()?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stderr}");
            let list: serde_json::Value = serde_json::from_slice(&output.stdout)?;
            assert_eq!(list["items"][1]["spec"]["size"], 12);
            assert_eq!(list["items"][2]["data"], data);
        }
    }

    drop(child.stdin.take());
    assert!(child.wait()?.success());
    Ok(())
}

#[test]
fn a_rejected_manifest_is_named_in_the_error() -> TestResult {
    let folder = Folder::new("windlass-refused")?;
    let file = folder.0.join("a.yaml");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n";
    fs::write(&file, map)?;
    let (child, line) = start(&["--load", &file.to_string_lossy(), "--stop-with-stdin"])?;
    assert_eq!(line, "");
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    let wanted = format!("cannot apply ConfigMap A of {}: ", file.display());
    assert!(error.contains(&wanted), "{error}");
    assert!(error.contains("metadata.name: Invalid value"), "{error}");
    Ok(())
}

#[tokio::test]
async fn options_of_the_command_change_the_server() -> TestResult {
    let folder = Folder::new("windlass-options")?;
    let kubeconfig = folder.0.join("kubeconfig");
    let path = kubeconfig.to_string_lossy().into_owned();
    let (mut child, line) = start(&[
        "--kubeconfig",
        &path,
        "--listen",
        "127.0.0.1:0",
        "--rbac",
        "--namespace-contents",
        "--without-garbage-collection",
        "--stop-with-stdin",
    ])?;
    assert!(line.starts_with("ready http://127.0.0.1:"), "{line}");
    let read = Kubeconfig::read_from(&kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let mut jane = config.clone();
    jane.auth_info.impersonate = Some("jane".to_owned());
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");

    // With `--namespace-contents`.
    maps.get("kube-root-ca.crt").await?;
    // With `--without-garbage-collection`, an object stays although its owner does not exist.
    let owner = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none",
    });
    let orphan = serde_json::json!({ "metadata": { "name": "a", "ownerReferences": [owner] } });
    maps.create(&PostParams::default(), &serde_json::from_value(orphan)?)
        .await?;
    maps.get("a").await?;
    // With `--rbac`.
    let hers: Api<ConfigMap> = Api::namespaced(Client::try_from(jane)?, "default");
    let refused = hers.get("a").await.err().ok_or("jane has no role")?;
    assert!(
        refused.to_string().contains("User \"jane\" cannot get"),
        "{refused}"
    );
    drop(child.stdin.take());
    assert!(child.wait()?.success());

    let (child, line) = start(&["--listen", "0.0.0.0:0", "--stop-with-stdin"])?;
    assert_eq!(line, "", "only loopback addresses are allowed");
    assert!(!child.wait_with_output()?.status.success());
    Ok(())
}

#[tokio::test]
async fn the_command_speaks_tls_with_an_authority_in_its_kubeconfig() -> TestResult {
    let folder = Folder::new("windlass-tls")?;
    let kubeconfig = folder.0.join("kubeconfig");
    let path = kubeconfig.to_string_lossy().into_owned();
    let (mut child, line) = start(&["--kubeconfig", &path, "--tls", "--stop-with-stdin"])?;
    assert!(line.starts_with("ready https://127.0.0.1:"), "{line}");

    let read = Kubeconfig::read_from(&kubeconfig)?;
    let mut stranger = read.clone();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    assert!(!config.accept_invalid_certs);
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");
    assert_eq!(maps.list(&ListParams::default()).await?.items.len(), 0);

    // Without the authority, the certificate is not trusted.
    for cluster in &mut stranger.clusters {
        let cluster = cluster.cluster.as_mut().ok_or("a cluster")?;
        cluster.certificate_authority_data = None;
    }
    let config = Config::from_custom_kubeconfig(stranger, &KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");
    assert!(maps.list(&ListParams::default()).await.is_err());

    match std::env::var_os("WINDLASS_KUBECTL") {
        None => println!("not run: WINDLASS_KUBECTL does not name the program of tests/kubectl"),
        Some(program) => {
            let output = Command::new(program)
                .env("KUBECONFIG", &kubeconfig)
                .env("HOME", &folder.0)
                .args(["get", "namespaces", "--output", "name"])
                .output()?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stderr}");
            let found = String::from_utf8_lossy(&output.stdout);
            assert!(found.contains("namespace/kube-system"), "{found}");
        }
    }

    drop(child.stdin.take());
    assert!(child.wait()?.success());
    Ok(())
}

/// Runs a test in another language, which starts the command by its name. A client is not installed
/// everywhere; its variable says where.
fn check_client(variable: &str, command: impl FnOnce(&Path) -> Command) -> TestResult {
    let Some(client) = std::env::var_os(variable) else {
        println!("not run: {variable} does not name an installed client");
        return Ok(());
    };
    let program = Path::new(env!("CARGO_BIN_EXE_windlass-apiserver"));
    let mut folders: Vec<_> = program.parent().map(Path::to_owned).into_iter().collect();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&inherited));
    let output = command(Path::new(&client))
        .env("PATH", std::env::join_paths(folders)?)
        .stdin(Stdio::null())
        .output()?;
    let printed =
        [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    assert!(output.status.success(), "{}", printed.concat());
    Ok(())
}

#[test]
fn a_test_in_go_starts_the_command() -> TestResult {
    check_client("WINDLASS_GO_CLIENTS", |program| {
        let mut command = Command::new(program);
        command.arg("start");
        command
    })
}

#[test]
fn a_test_in_python_starts_the_command() -> TestResult {
    check_client("WINDLASS_PYTHON", |python| {
        let mut command = Command::new(python);
        command.arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/python-clients/test_start.py"
        ));
        command
    })
}

#[test]
fn a_test_in_javascript_starts_the_command() -> TestResult {
    check_client("WINDLASS_NODE_CLIENTS", |client| {
        let mut command = Command::new("node");
        // Beside the packages that it imports.
        command
            .arg("--test")
            .arg(client.with_file_name("start.test.js"));
        command
    })
}

//! Tests of container logs, commands and forwarded ports, with functions instead of a kubelet.

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use futures::TryStreamExt as _;
use http::{Method, Request};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, LogParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, ContainerSession, Listening};

mod support;

use support::{answer, request};

type TestResult = Result<(), Box<dyn Error>>;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// No test hangs for longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A shell with four commands.
async fn shell(mut session: ContainerSession) -> u8 {
    let about = format!("{}/{}", session.pod, session.container);
    let mut command = session.command.iter().map(String::as_str);
    let done = match command.next() {
        Some("whoami") => session.stdout.write_all(about.as_bytes()).await,
        Some("cat") => tokio::io::copy(&mut session.stdin, &mut session.stdout)
            .await
            .map(drop),
        Some("fail") => {
            _ = session.stderr.write_all(b"it failed").await;
            return 3;
        }
        // `attach` has no command.
        None => session.stdout.write_all(b"attached").await,
        Some(_) => return 127,
    };
    u8::from(done.is_err())
}

/// A server with a pod that runs on no node, and a client with a socket.
async fn server() -> Result<(ApiServer, Listening, Api<Pod>), Box<dyn Error>> {
    let server = ApiServer::builder()
        .logs(|request| {
            let which = if request.previous { "before" } else { "now" };
            format!("one {}\ntwo {which}\n", request.container)
        })
        .exec(shell)
        .port_forward(|mut port| async move {
            let greeting = format!("port {}: ", port.port);
            _ = port.stream.write_all(greeting.as_bytes()).await;
            let (mut reader, mut writer) = tokio::io::split(port.stream);
            _ = tokio::io::copy(&mut reader, &mut writer).await;
        })
        .start();
    create_pods(&server).await;
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let pods = Api::default_namespaced(Client::try_from(config)?);
    Ok((server, listening, pods))
}

/// The pod `web` with one container, and the pod `pair` with two.
async fn create_pods(server: &ApiServer) {
    let container = |name: &str| json!({ "name": name, "image": "i:1" });
    for (name, containers) in [
        ("web", json!([container("main")])),
        ("pair", json!([container("main"), container("side")])),
    ] {
        let pod = json!({ "metadata": { "name": name }, "spec": { "containers": containers } });
        let (code, created) = request(server, Method::POST, PODS, Some(&pod)).await;
        assert_eq!(code, 201, "{created}");
    }
}

#[tokio::test]
async fn a_log_is_what_the_hook_returns() -> TestResult {
    let (_server, _listening, pods) = server().await?;
    let log = pods.logs("web", &LogParams::default()).await?;
    assert_eq!(log, "one main\ntwo now\n");
    let options = LogParams {
        container: Some("side".to_owned()),
        tail_lines: Some(1),
        previous: true,
        ..LogParams::default()
    };
    assert_eq!(pods.logs("pair", &options).await?, "two before\n");
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let lines: Vec<String> = pods
        .log_stream("web", &follow)
        .await?
        .lines()
        .try_collect()
        .await?;
    assert_eq!(lines, ["one main", "two now"]);
    let unnamed = pods.logs("pair", &LogParams::default()).await;
    let (code, _, message) = support::refusal(unnamed);
    assert_eq!(code, 400);
    let expected = "a container name must be specified for pod pair, choose one of: [main side]";
    assert_eq!(message, expected);
    Ok(())
}

#[tokio::test]
async fn a_command_writes_its_output_and_its_exit_code() -> TestResult {
    let (_server, _listening, pods) = server().await?;
    let side = AttachParams::default().container("side");
    let mut whoami = pods.exec("pair", ["whoami"], &side).await?;
    let mut output = String::new();
    let stdout = whoami.stdout().ok_or("stdout")?;
    timeout(LIMIT, { stdout }.read_to_string(&mut output)).await??;
    assert_eq!(output, "pair/side");
    let status = whoami
        .take_status()
        .ok_or("a status")?
        .await
        .ok_or("a status")?;
    assert_eq!(status.status.as_deref(), Some("Success"));

    let mut fail = pods.exec("web", ["fail"], &AttachParams::default()).await?;
    let mut output = String::new();
    let stderr = fail.stderr().ok_or("stderr")?;
    timeout(LIMIT, { stderr }.read_to_string(&mut output)).await??;
    assert_eq!(output, "it failed");
    let status = fail
        .take_status()
        .ok_or("a status")?
        .await
        .ok_or("a status")?;
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    let causes = status
        .details
        .and_then(|details| details.causes)
        .ok_or("causes")?;
    assert_eq!(causes[0].message.as_deref(), Some("3"));
    Ok(())
}

#[tokio::test]
async fn a_command_reads_all_of_its_input_and_sees_its_end() -> TestResult {
    let (_server, _listening, pods) = server().await?;
    let options = AttachParams::default().stdin(true).stderr(false);
    let mut cat = pods.exec("web", ["cat"], &options).await?;
    // More than all buffers between the two hold.
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut stdin = cat.stdin().ok_or("stdin")?;
    let mut stdout = cat.stdout().ok_or("stdout")?;
    let write = async {
        stdin.write_all(&sent).await?;
        stdin.shutdown().await
    };
    let mut received = Vec::new();
    let both = async { tokio::try_join!(write, stdout.read_to_end(&mut received)) };
    timeout(LIMIT, both).await??;
    assert!(
        received == sent,
        "{} of {} bytes",
        received.len(),
        sent.len()
    );
    Ok(())
}

#[tokio::test]
async fn an_attachment_has_no_command() -> TestResult {
    let (_server, _listening, pods) = server().await?;
    let mut attached = pods.attach("web", &AttachParams::default()).await?;
    let mut output = String::new();
    let stdout = attached.stdout().ok_or("stdout")?;
    timeout(LIMIT, { stdout }.read_to_string(&mut output)).await??;
    assert_eq!(output, "attached");
    Ok(())
}

#[tokio::test]
async fn a_forwarded_port_is_a_stream() -> TestResult {
    let (_server, _listening, pods) = server().await?;
    let mut forward = pods.portforward("web", &[80, 443]).await?;
    for port in [443, 80] {
        let mut stream = forward.take_stream(port).ok_or("a stream")?;
        stream.write_all(b"hello").await?;
        let expected = format!("port {port}: hello");
        let mut received = vec![0; expected.len()];
        timeout(LIMIT, stream.read_exact(&mut received)).await??;
        assert_eq!(String::from_utf8(received)?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_command_ends_with_its_client_and_with_the_port() -> TestResult {
    let (ended, mut ends) = tokio::sync::mpsc::channel::<()>(2);
    let server = ApiServer::builder()
        .exec(move |session| {
            let ended = ended.clone();
            async move {
                // Both are dropped with the future.
                let _held = (ended, session);
                std::future::pending().await
            }
        })
        .start();
    create_pods(&server).await;
    for stops in [false, true] {
        let listening = server.listen(([127, 0, 0, 1], 0)).await?;
        let url = listening.url().parse()?;
        let mut config = Config::new(url);
        "default".clone_into(&mut config.default_namespace);
        let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
        let session = pods
            .exec("web", ["sleep"], &AttachParams::default())
            .await?;
        if stops {
            timeout(LIMIT, listening.stop()).await?;
        } else {
            session.abort();
            drop(session);
            timeout(LIMIT, listening.stop()).await?;
        }
    }
    drop(server);
    // The hook and its futures held all senders.
    assert_eq!(timeout(LIMIT, ends.recv()).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_no_websocket_is_refused() -> TestResult {
    let (server, _listening, _) = server().await?;
    let path = format!("{PODS}/web/exec?command=whoami&stdout=true");
    for headers in [
        &[][..],
        &[("upgrade", "SPDY/3.1"), ("connection", "upgrade")],
    ] {
        let mut request = Request::post(&path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, body) = answer(&server, request.body(Full::default())?).await;
        assert_eq!(parts.status, 400);
        let status: serde_json::Value = serde_json::from_slice(&body)?;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Upgrade request required"), "{message}");
    }
    let path = format!("{PODS}/web/portforward");
    let (code, _) = request(&server, Method::GET, &path, None).await;
    assert_eq!(code, 400, "a forward without ports");
    Ok(())
}

#[tokio::test]
async fn without_a_hook_the_error_names_the_hook_to_register() {
    let server = ApiServer::new();
    create_pods(&server).await;
    let binding = json!({ "metadata": { "name": "web" }, "target": { "name": "node-1" } });
    let path = format!("{PODS}/web/binding");
    let (code, bound) = request(&server, Method::POST, &path, Some(&binding)).await;
    assert_eq!(code, 201, "{bound}");
    for (part, hook) in [
        ("log", "logs"),
        ("exec?command=x", "exec"),
        ("attach", "exec"),
        ("portforward?ports=80", "port_forward"),
    ] {
        let path = format!("{PODS}/web/{part}");
        let (code, status) = request(&server, Method::GET, &path, None).await;
        assert_eq!(code, 500);
        let message = status["message"].as_str().unwrap_or_default();
        let expected = format!("Register a hook with ApiServer::builder().{hook}(..)");
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[tokio::test]
async fn kubectl_reads_logs_and_runs_commands() -> TestResult {
    let Some(program) = std::env::var_os("WINDLASS_KUBECTL") else {
        println!("not run: WINDLASS_KUBECTL does not name the program of tests/kubectl");
        return Ok(());
    };
    let (_server, listening, _) = server().await?;
    let folder = std::env::temp_dir().join(format!("windlass-containers-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;
    for (arguments, code, stdout) in [
        ("logs web", 0, "one main\ntwo now\n"),
        ("exec web -- whoami", 0, "web/main"),
        ("exec pair -c side -- whoami", 0, "pair/side"),
        ("exec web -- fail", 3, ""),
        ("exec -i web -- cat", 0, ""),
        ("attach web", 0, "attached"),
    ] {
        let output = Command::new(&program)
            .env("KUBECONFIG", &kubeconfig)
            .env("HOME", &folder)
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(LIMIT, output).await??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            stdout,
            "{arguments}: {stderr}"
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

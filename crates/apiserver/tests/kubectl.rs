//! Tests of kubectl on the loopback port, if kubectl is installed.

use std::error::Error;
use std::process::{Output, Stdio};
use std::time::Duration;

use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use windlass_apiserver::{ApiServer, Listening};

mod support;

use support::{client, register, widget, widget_definition, widgets};

/// A kubectl that talks to `listening` and to no other server.
fn kubectl(listening: &Listening, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command
        .args([
            "--server",
            &listening.url(),
            "--kubeconfig",
            "/dev/null",
            "--request-timeout=20s",
        ])
        .args(["--cache-dir", env!("CARGO_TARGET_TMPDIR")])
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn run(listening: &Listening, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let Output {
        status,
        stdout,
        stderr,
    } = kubectl(listening, arguments).output().await?;
    let (out, err) = (String::from_utf8(stdout)?, String::from_utf8(stderr)?);
    assert!(status.success(), "kubectl {arguments:?}: {out}{err}");
    Ok(out)
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one command after the other")]
async fn kubectl_gets_watches_describes_applies_and_deletes() -> Result<(), Box<dyn Error>> {
    if Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .await
        .is_err()
    {
        println!("not run: there is no kubectl here");
        return Ok(());
    }
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, widget_definition()).await?;
    let widgets = widgets(&client);
    widgets
        .create(
            &PostParams::default(),
            &widget("first", &json!({ "size": 1 })),
        )
        .await?;
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;

    let table = run(&listening, &["get", "widgets"]).await?;
    assert!(
        table.starts_with("NAME") && table.contains("first"),
        "{table}"
    );
    assert!(
        run(&listening, &["get", "wd", "first", "-o", "yaml"])
            .await?
            .contains("color: grey")
    );
    assert!(
        run(&listening, &["get", "namespaces"])
            .await?
            .contains("Active")
    );

    let mut watching = kubectl(&listening, &["get", "widgets", "-w"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(watching.stdout.take().ok_or("no output")?).lines();
    let mut next = async || tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    assert!(next().await??.is_some_and(|line| line.starts_with("NAME")));
    assert!(next().await??.is_some_and(|line| line.starts_with("first")));
    widgets
        .create(
            &PostParams::default(),
            &widget("second", &json!({ "size": 2 })),
        )
        .await?;
    assert!(
        next()
            .await??
            .is_some_and(|line| line.starts_with("second"))
    );
    watching.kill().await?;

    let described = run(&listening, &["describe", "widget", "first"]).await?;
    assert!(described.contains("Kind:         Widget"), "{described}");
    run(&listening, &["label", "widget", "first", "tier=front"]).await?;
    assert!(
        run(&listening, &["get", "widgets", "-l", "tier=front"])
            .await?
            .contains("first")
    );
    run(&listening, &["delete", "widget", "first"]).await?;
    assert!(
        !run(&listening, &["get", "widgets"])
            .await?
            .contains("first")
    );

    // Two containers. The second apply renames one of them.
    let manifest = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("deployment.json");
    let file = manifest.to_str().ok_or("a path")?;
    for image in ["one", "two"] {
        std::fs::write(&manifest, deployment(image).to_string())?;
        run(&listening, &["apply", "-f", file]).await?;
    }
    let images = "jsonpath={.spec.template.spec.containers[*].image}";
    assert_eq!(
        run(&listening, &["get", "deployment", "web", "-o", images]).await?,
        "two side"
    );
    listening.stop().await;
    Ok(())
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [
                    { "name": "web", "image": image },
                    { "name": "side", "image": "side" },
                ]},
            },
        },
    })
}

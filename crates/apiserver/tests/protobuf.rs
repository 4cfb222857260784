//! Tests of protobuf bodies that run only on the embedded server. The tests of both servers are in
//! `tests/behaviour/api/protobuf.rs`.

use std::error::Error;
use std::process::Stdio;

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_apiserver::ApiServer;
use windlass_protobuf::MEDIA_TYPE;

mod support;

use support::{answer, client, register, widget_definition};

/// docs/apiserver.md: row 21.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_typed_objects() -> Result<(), Box<dyn Error>> {
    let kubectl = || {
        let mut command = Command::new("kubectl");
        command
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    };
    if kubectl()
        .args(["version", "--client"])
        .output()
        .await
        .is_err()
    {
        println!("not run: there is no kubectl here");
        return Ok(());
    }
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let url = listening.url();
    for (arguments, expected) in [
        ("create namespace x", "namespace/x created\n"),
        (
            "create configmap c --from-literal=a=b -n x",
            "configmap/c created\n",
        ),
        (
            "create secret generic s --from-literal=p=q -n x",
            "secret/s created\n",
        ),
        (
            "create deployment d --image=example.com/d -n x",
            "deployment.apps/d created\n",
        ),
        (
            "create service clusterip v --tcp=80:8080 -n x",
            "service/v created\n",
        ),
        (
            "create job j --image=example.com/j -n x",
            "job.batch/j created\n",
        ),
        (
            "create role r --verb=get --resource=pods -n x",
            "role.rbac.authorization.k8s.io/r created\n",
        ),
        ("get secret s -n x -o jsonpath={.data.p}", "cQ=="),
        (
            "get deployment d -n x -o jsonpath={.spec.template.spec.containers[0].image}",
            "example.com/d",
        ),
    ] {
        let output = kubectl()
            .args(["--server", &url, "--kubeconfig", "/dev/null"])
            .args(["--cache-dir", env!("CARGO_TARGET_TMPDIR")])
            .arg("--request-timeout=20s")
            .args(arguments.split(' '))
            .output()
            .await?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{arguments}: {error}"
        );
    }
    Ok(())
}

/// kube-apiserver 1.36 closes the connection instead, without an answer.
#[tokio::test(start_paused = true)]
async fn a_custom_resource_as_protobuf_gets_415() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    register(&client(&server), widget_definition()).await?;
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    let bytes = windlass_protobuf::encode(&options)?;
    let widgets = "/apis/ex.io/v1/namespaces/default/widgets";
    for (method, path, code) in [
        ("POST", widgets.to_owned(), 415),
        ("PUT", format!("{widgets}/w"), 415),
        // The options of a deletion are of a built-in kind.
        ("DELETE", format!("{widgets}/w"), 404),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", MEDIA_TYPE)
            .body(Full::from(bytes.clone()))?;
        let (parts, body) = answer(&server, request).await;
        let body: Value = serde_json::from_slice(&body)?;
        assert_eq!(parts.status.as_u16(), code, "{method}: {body}");
        assert_eq!(body["kind"], "Status", "{method}");
    }
    Ok(())
}

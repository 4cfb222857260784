//! Tests of the loopback port.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{Method, Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use windlass_apiserver::{ApiServer, ListenError};

mod support;

use support::{open_unread, request};

type TestResult = Result<(), Box<dyn Error>>;

#[tokio::test]
async fn a_client_with_the_kubeconfig_reaches_the_server() -> TestResult {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    assert_eq!(client.apiserver_version().await?.git_version, "v1.36.3");
    assert_eq!(client.default_namespace(), "default");

    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(
        namespaces.list(&ListParams::default()).await?.items.len(),
        4
    );

    // A watch that runs doesn't keep the port from closing.
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let version = server.resource_version().to_string();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &version).await?);
    let map = serde_json::from_value(json!({ "metadata": { "name": "a" } }))?;
    maps.create(&PostParams::default(), &map).await?;
    assert!(events.try_next().await?.is_some());
    listening.stop().await;
    assert!(events.try_next().await?.is_none());
    assert!(maps.get("a").await.is_err(), "the port is closed");
    assert_eq!(
        server.resource_version().to_string(),
        (version.parse::<u64>()? + 1).to_string()
    );
    Ok(())
}

#[tokio::test]
async fn the_port_supports_http_1_and_http_2() -> TestResult {
    let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await?;
    for (http2, version) in [(false, Version::HTTP_11), (true, Version::HTTP_2)] {
        let client: HttpClient<_, Full<Bytes>> = HttpClient::builder(TokioExecutor::new())
            .http2_only(http2)
            .build_http();
        let request = Request::get(format!("{}/apis", listening.url())).body(Full::default())?;
        let response = client.request(request).await?;
        assert_eq!(
            (response.status().as_u16(), response.version()),
            (200, version)
        );
        let body = response.into_body().collect().await?.to_bytes();
        let groups: Value = serde_json::from_slice(&body)?;
        assert_eq!(groups["kind"], "APIGroupList");
    }
    listening.stop().await;
    Ok(())
}

/// A browser sends such requests for a page without asking.
#[tokio::test]
async fn a_page_of_another_site_creates_and_reads_nothing() -> TestResult {
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await?;
    let client: HttpClient<_, Full<Bytes>> = HttpClient::builder(TokioExecutor::new()).build_http();
    let url = format!("{}/api/v1/namespaces/default/configmaps", listening.url());
    let own = listening.url();
    let local = own.trim_start_matches("http://").to_owned();
    let before = server.resource_version();
    let body = r#"{"metadata":{"name":"a"}}"#;
    for (method, header, value, code) in [
        (Method::POST, "origin", "http://pages.example", 403),
        (Method::GET, "origin", "http://pages.example", 403),
        (Method::POST, "origin", "null", 403),
        (Method::GET, "host", "pages.example", 403),
        (Method::POST, "host", "pages.example", 403),
        (Method::GET, "origin", &*own, 200),
        (Method::GET, "host", &*local, 200),
    ] {
        let what = format!("{method} {header}: {value}");
        let request = Request::builder().method(method).uri(&url);
        let request = request.header(header, value).body(Full::from(body))?;
        let response = client.request(request).await?;
        assert_eq!(response.status().as_u16(), code, "{what}");
    }
    assert_eq!(server.resource_version(), before, "nothing was written");
    listening.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_port_accepts_only_loopback_addresses() -> TestResult {
    let server = ApiServer::new();
    let everywhere = server.listen(([0, 0, 0, 0], 0)).await;
    let error = everywhere
        .map(drop)
        .expect_err("every machine could connect");
    assert_eq!(error.reason(), "not_loopback");
    assert!(
        error
            .to_string()
            .starts_with("0.0.0.0:0 is not a loopback address"),
        "{error}"
    );

    let first = server.listen(([127, 0, 0, 1], 0)).await?;
    let taken = server.listen(first.addr()).await.map(drop);
    assert!(matches!(taken, Err(ListenError::Bind { .. })));
    Ok(())
}

/// Neither of the two clients would ever let its connection end.
#[tokio::test]
async fn a_port_closes_though_clients_do_not_read_or_do_not_finish_a_request() {
    // Longer than a busy machine takes for what follows.
    const LIMIT: Duration = Duration::from_secs(60);
    let server = ApiServer::new();
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let maps = "/api/v1/namespaces/default/configmaps";
    let unread = open_unread(port.addr(), &format!("{maps}?watch=1")).await;
    let mut unfinished = TcpStream::connect(port.addr()).await.expect("it listens");
    let head = format!("POST {maps} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{");
    unfinished
        .write_all(head.as_bytes())
        .await
        .expect("it reads");
    // More than the kernel takes for a connection.
    for number in 0..10 {
        let map = json!({
            "metadata": { "name": format!("m{number}") }, "data": { "text": "x".repeat(900_000) },
        });
        let (code, _) = request(&server, Method::POST, maps, Some(&map)).await;
        assert_eq!(code, 201);
        // Lets the connections read as much as they can.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    timeout(LIMIT, port.stop()).await.expect("it closes");
    drop((unread, unfinished));
}

#[tokio::test]
async fn checks_of_health_are_reported() {
    let server = ApiServer::new();
    for (path, text) in [
        ("/livez", "ok"),
        ("/livez/ping", "ok"),
        ("/livez?exclude=ping", "ok"),
        (
            "/livez?verbose",
            "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n",
        ),
        (
            "/readyz?exclude=etcd&verbose",
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]etcd-readiness ok\n[+]informer-sync \
             ok\n[+]shutdown ok\nreadyz check passed\n",
        ),
        (
            "/healthz?verbose&exclude=b&exclude=a",
            "[+]ping ok\n[+]log ok\n[+]etcd ok\nwarn: some health checks cannot be excluded: no \
             matches for \"a\",\"b\"\nhealthz check passed\n",
        ),
        ("/livez/shutdown", "404 page not found\n"),
        ("/readyz/shutdown", "ok"),
        ("/readyz/shutdown/now", "404 page not found\n"),
    ] {
        let code = if text.starts_with("404") { 404 } else { 200 };
        let get = Request::get(path).body(Full::default()).expect("a request");
        let (parts, body) = support::answer(&server, get).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(
            (parts.status.as_u16(), body.as_str()),
            (code, text),
            "{path}"
        );
    }
}

//! A running operator with a webhook server, and a client that calls its webhooks.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
};

use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, WebhookClientConfig,
    },
};
use kube::{Client, Config, client::Body};
use prometheus::Registry;
use rand::Rng as _;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass::operator::{Operator, OperatorBuilder, OperatorError};

use super::{
    CONVERT,
    program::{definition, website_operator},
};
use crate::cluster::Cluster;

/// An operator that runs.
pub(super) struct Rig {
    pub(super) operator: Operator,
    pub(super) address: SocketAddr,
    pub(super) tls: TlsFolder,
    stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), OperatorError>>,
}

/// The folder with the certificate and its key.
pub(super) struct TlsFolder(pub(super) PathBuf);

/// A certificate that is its own authority.
#[derive(Clone)]
pub(super) struct Certificate {
    pub(super) pem: String,
    der: Vec<u8>,
}

// === impl Rig ===

impl Rig {
    /// Starts the program of the user, after its definition is installed.
    pub(super) async fn start(cluster: &Cluster, builder: OperatorBuilder) -> (Self, Certificate) {
        Self::start_with(cluster, builder, |_, _, _| {}).await
    }

    /// Starts it after `add` has added controllers, which get the address of the webhooks.
    pub(super) async fn start_with(
        cluster: &Cluster,
        builder: OperatorBuilder,
        add: impl FnOnce(&Operator, SocketAddr, &Certificate),
    ) -> (Self, Certificate) {
        let tls = TlsFolder::new();
        let certificate = tls.renew();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        // On a shared server, the definition of another test stays: it may convert objects.
        cluster.install(&converted_at(address, &certificate)).await;
        let operator = website_operator(builder, cluster.client().await, listener, &tls.0);
        let operator = operator.expect("good settings");
        add(&operator, address, &certificate);
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (operator, stop) = (operator.clone(), stop.clone());
            async move { operator.run_until(stop).await }
        });
        let rig = Self {
            operator,
            address,
            tls,
            stop,
            run: AbortOnDropHandle::new(run),
        };
        (rig, certificate)
    }

    /// The response to a request.
    pub(super) async fn send(
        &self,
        certificate: &Certificate,
        request: Request<Body>,
    ) -> Result<(StatusCode, String), kube::Error> {
        send(self.address, certificate, request).await
    }

    /// The response to a review.
    pub(super) async fn post(
        &self,
        certificate: &Certificate,
        path: &str,
        review: &Value,
    ) -> Value {
        let request = post(path, review.to_string());
        let (status, body) = self.send(certificate, request).await.expect("a response");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The values of a metric, with its labels.
    pub(super) fn metric(&self, name: &str) -> Vec<String> {
        let registry = Registry::new();
        for collector in self.operator.prometheus_collectors() {
            registry.register(collector).expect("different names");
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("metrics");
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect()
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.run.await.expect("no panic").expect("no error");
    }
}

// === impl TlsFolder ===

impl TlsFolder {
    pub(super) fn new() -> Self {
        let name = format!("windlass-webhooks-{:016x}", rand::rng().random::<u64>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Writes a new certificate and its key.
    pub(super) fn renew(&self) -> Certificate {
        let names = vec!["127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let pem = made.cert.pem();
        fs::write(self.0.join("tls.key"), made.signing_key.serialize_pem()).expect("a file");
        fs::write(self.0.join("tls.crt"), &pem).expect("a file");
        Certificate {
            pem,
            der: made.cert.der().to_vec(),
        }
    }
}

impl Drop for TlsFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The definition of the websites, which the webhooks at this address convert.
pub(super) fn converted_at(
    address: SocketAddr,
    certificate: &Certificate,
) -> CustomResourceDefinition {
    let webhook = WebhookClientConfig {
        url: Some(format!("https://{address}{CONVERT}")),
        ca_bundle: Some(ByteString(certificate.pem.clone().into_bytes())),
        service: None,
    };
    definition(webhook).expect("versions of one kind")
}

/// Sends a request on a connection of its own, to a server that has to have this certificate.
pub(super) async fn send(
    address: SocketAddr,
    certificate: &Certificate,
    request: Request<Body>,
) -> Result<(StatusCode, String), kube::Error> {
    let mut config = Config::new(format!("https://{address}").parse().expect("a URL"));
    config.root_cert = Some(vec![certificate.der.clone()]);
    config.default_retry = false;
    let response = Client::try_from(config)?.send(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body");
    let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
    Ok((status, text))
}

/// A POST of JSON.
pub(super) fn post(path: &str, body: String) -> Request<Body> {
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes().into())
        .expect("a request")
}

/// An `AdmissionReview` of a website.
pub(super) fn admission(operation: &str, object: &Value, old: &Value) -> Value {
    let group = "hooks.windlass.dev";
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": group, "version": "v1", "kind": "Website" },
            "resource": { "group": group, "version": "v1", "resource": "websites" },
            "name": "blog",
            "namespace": "default",
            "operation": operation,
            "userInfo": { "username": "alice" },
            "object": object,
            "oldObject": old,
            "dryRun": false,
        },
    })
}

/// A website of version v1 with this spec.
pub(super) fn website(spec: &Value) -> Value {
    json!({
        "apiVersion": "hooks.windlass.dev/v1",
        "kind": "Website",
        "metadata": { "name": "blog", "namespace": "default" },
        "spec": spec,
    })
}

/// A `ConversionReview`.
pub(super) fn conversion(version: &str, objects: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800003",
            "desiredAPIVersion": format!("hooks.windlass.dev/{version}"),
            "objects": objects,
        },
    })
}

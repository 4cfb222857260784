//! The embedded API server of a history: its clients record each committed write.

use std::{error::Error, sync::Arc};

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Either, Full};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    client::Body,
};
use tokio::sync::watch;
use tower::{ServiceExt as _, service_fn};
use windlass_apiserver::ApiServer;
use windlass_model::Writer;

use crate::stage::{NAMESPACE, Stage};

/// The embedded API server of one history.
#[derive(Clone)]
pub(crate) struct Embedded {
    server: ApiServer,
}

/// A gate that holds back the requests of an informer.
#[derive(Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

// === impl Embedded ===

impl Embedded {
    pub(crate) fn new() -> Self {
        let server = ApiServer::builder().seed(1).start();
        Self { server }
    }

    /// A client whose writes are recorded as those of `by`, in the poll in which they are committed.
    pub(crate) fn client(&self, stage: &Stage, by: Writer) -> Client {
        let (service, stage) = (self.server.service(), stage.clone());
        let send = service_fn(move |request: Request<Body>| {
            let (service, stage) = (service.clone(), stage.clone());
            async move {
                let writes = request.method() != Method::GET;
                let name = request.uri().path().rsplit('/').next().map(str::to_owned);
                let deletes = request.method() == Method::DELETE;
                let response = service.oneshot(request).await?;
                let (parts, body) = response.into_parts();
                if !writes || !parts.status.is_success() {
                    return Ok(Response::from_parts(parts, Either::Left(body)));
                }
                let bytes = body.collect().await?.to_bytes();
                match serde_json::from_slice::<Lease>(&bytes) {
                    Ok(lease) => stage.committed(by, lease),
                    Err(_) if deletes => stage.removed(by, &name.unwrap_or_default()),
                    Err(error) => panic!("not a lease: {error}"),
                }
                let body = Either::Right(Full::new(bytes));
                Ok::<_, Box<dyn Error + Send + Sync>>(Response::from_parts(parts, body))
            }
        });
        Client::new(send, NAMESPACE)
    }

    /// A client whose requests wait until the gate is open.
    pub(crate) fn behind(&self, gate: &Gate) -> Client {
        let (service, gate) = (self.server.service(), gate.clone());
        Client::new(
            service_fn(move |request: Request<Body>| {
                let (service, gate) = (service.clone(), gate.clone());
                async move {
                    gate.pass().await;
                    service.oneshot(request).await
                }
            }),
            NAMESPACE,
        )
    }

    fn leases(&self, stage: &Stage) -> Api<Lease> {
        Api::namespaced(self.client(stage, Writer::Other), NAMESPACE)
    }

    pub(crate) async fn create(&self, stage: &Stage, mut lease: Lease) {
        lease.metadata.uid = None;
        let (leases, params) = (self.leases(stage), PostParams::default());
        leases.create(&params, &lease).await.expect("created");
    }

    /// Replaces an object. Writes nothing if a wrapper has changed it in the meantime.
    pub(crate) async fn replace(&self, stage: &Stage, lease: Lease) {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let (leases, params) = (self.leases(stage), PostParams::default());
        _ = leases.replace(&name, &params, &lease).await;
    }

    pub(crate) async fn delete(&self, stage: &Stage, name: char) {
        let name = name.to_string();
        let (leases, params) = (self.leases(stage), DeleteParams::default());
        _ = leases.delete(&name, &params).await;
    }

    /// Ends all watches, so that informers resume.
    pub(crate) fn interrupt(&self) {
        self.server.close_watches();
    }

    /// Ends all watches and compacts the history, so that informers relist.
    pub(crate) fn compact(&self) {
        self.server.compact(self.server.resource_version());
        self.server.close_watches();
    }
}

// === impl Gate ===

impl Gate {
    /// Creates a closed gate.
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) fn set(&self, open: bool) {
        self.0.send_replace(open);
    }

    async fn pass(&self) {
        // It cannot be dropped meanwhile.
        _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

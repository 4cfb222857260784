//! The health, errors and log lines of an informer name its namespace.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};

use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, client::Body};
use tokio_util::sync::CancellationToken;
use tracing::subscriber;
use windlass::prelude::*;

/// The log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client of a server that has failed.
fn failing() -> Client {
    let fail = |_: Request<Body>| async {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        Ok::<_, Infallible>(response)
    };
    Client::new(tower::service_fn(fail), "default")
}

#[tokio::test(start_paused = true)]
async fn the_health_the_error_and_the_log_name_the_namespace() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = subscriber::set_default(subscriber);

    let controller = InformerController::builder().build().expect("valid");
    let kind = controller.kind::<ConfigMap>("configs").expect("a new kind");
    for namespace in ["shop", "blog"] {
        let configs = Informer::new(Api::<ConfigMap>::namespaced(failing(), namespace));
        controller.add_informer(&kind, &configs).expect("new");
    }
    let all = Informer::new(Api::<ConfigMap>::all(failing()));
    assert_eq!(all.health().to_string(), "configmaps: not started");
    let health = controller.health();
    let health: Vec<_> = health.iter().map(|it| it.watch.to_string()).collect();
    assert_eq!(
        health,
        [
            "configmaps in shop: not started",
            "configmaps in blog: not started"
        ]
    );

    let error = controller.run(CancellationToken::new()).await;
    let error = error.expect_err("no list is complete").to_string();
    for namespace in ["shop", "blog"] {
        let informer = format!("configs (configmaps in {namespace}: down");
        assert!(error.contains(&informer), "{error}");
        let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
        let span = format!("informer{{resource=\"configmaps\" namespace=\"{namespace}\"}}");
        assert!(text.contains(&span), "{text}");
    }
}

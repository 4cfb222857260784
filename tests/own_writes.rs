//! A handler that writes its own object at each call, and so causes its next call.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use windlass::{Informer, InformerController, Outcome, Request};
use windlass_apiserver::ApiServer;

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_writes_its_object_6000_times_is_reported_once() {
    const WRITES: u32 = 6_000;

    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let configs: Api<ConfigMap> = Api::default_namespaced(ApiServer::new().client());
    let mut web = ConfigMap::default();
    web.metadata.name = Some("web".to_owned());
    let created = configs.create(&PostParams::default(), &web).await;
    created.expect("it is new");
    let controller = InformerController::builder().build().expect("settings");
    let kind = controller.kind("configs").expect("a new kind");
    controller
        .add_informer(&kind, &Informer::new(configs.clone()))
        .expect("new");
    let (done, mut ended) = mpsc::channel(1);
    let written = Arc::new(AtomicU32::new(0));
    let reconciler = move |request: Request<ConfigMap>| {
        let (configs, written, done) = (configs.clone(), Arc::clone(&written), done.clone());
        async move {
            let number = written.fetch_add(1, Ordering::SeqCst) + 1;
            if number > WRITES {
                _ = done.send(()).await;
                return Ok(Outcome::done());
            }
            let patch = Patch::Merge(json!({ "data": { "written": number.to_string() } }));
            let name = request.key().name();
            let patched = configs.patch(name, &PatchParams::default(), &patch).await;
            patched.map(|_| Outcome::done())
        }
    };
    controller
        .add_reconciler(&kind, reconciler)
        .expect("a name");

    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    let limit = Duration::from_secs(60);
    timeout(limit, ended.recv()).await.expect("it ends");
    stop.cancel();
    run.await.expect("no panic").expect("it stops");

    let log = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("a text");
    let warnings: Vec<_> = (log.lines())
        .filter(|line| line.contains("an object changes very often"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    for part in ["WARN", "configs", "default/web", "write only what differs"] {
        assert!(warnings[0].contains(part), "no {part} in {}", warnings[0]);
    }
}

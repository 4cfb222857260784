//! Warnings about calls and clean-ups that last very long.

use std::{
    io,
    sync::{Arc, LazyLock},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use parking_lot::Mutex;
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber, set_default},
};
use tracing_subscriber::fmt::MakeWriter;
use windlass::{
    Failure, Watch,
    composite::{
        AsyncCompositeHandler, ChildConfig, CompositeController, FinalizeResponse, SyncRequest,
        SyncResponse,
    },
    kit::{self, Kit},
};

use crate::support::{Scripted, Site, desired, site};

/// The log lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn listen() -> (Self, DefaultGuard) {
        // With only one subscriber, `tracing` caches the interest of the thread that reaches a line
        // first. In another test, this thread can have no subscriber.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&ANOTHER);
        let lines = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(lines.clone())
            .finish();
        (lines, set_default(subscriber))
    }

    /// The lines with `text`.
    fn with(&self, text: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().clone()).expect("utf-8");
        let lines = all.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Takes an hour for each call.
struct Slow;

impl AsyncCompositeHandler<Site> for Slow {
    async fn sync(&self, request: SyncRequest<Site>) -> Result<SyncResponse, Failure> {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        desired(&request)
    }
}

#[test]
fn a_call_that_runs_for_an_hour_is_logged_once_after_ten_minutes() {
    kit::run(async |kit: Kit| {
        let (lines, _guard) = Lines::listen();
        kit.install(&Site::crd()).await;
        kit.start(|client, stop| async move {
            let controller = CompositeController::builder(client, "sites", Watch::all())
                .child::<ConfigMap>(ChildConfig::apply())
                .build_async(Slow)
                .expect("good settings");
            controller.run(stop).await
        });
        kit.create(&site("blog", "dark")).await;
        let long = || lines.with("a call runs for very long");
        kit.advance(Duration::from_secs(590)).await;
        assert_eq!(long(), [""; 0]);
        kit.advance(Duration::from_secs(80)).await;
        let first = long();
        assert_eq!(first.len(), 1, "{first:#?}");
        for part in ["WARN", "object=default/blog"] {
            assert!(first[0].contains(part), "no {part} in {}", first[0]);
        }
        kit.advance(Duration::from_secs(2800)).await;
        assert_eq!(long().len(), 1);
    });
}

/// D29.
#[test]
fn a_clean_up_that_does_not_finish_is_logged_each_hour() {
    kit::run(async |kit: Kit| {
        let (lines, _guard) = Lines::listen();
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        let minute = || Ok(FinalizeResponse::retry_after(Duration::from_secs(60)));
        *handler.finalize.lock() = (0..200).map(|_| minute()).collect();
        handler.start(&kit);
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        kit.delete::<Site>("blog").await;
        let hours = || lines.with("requested requeues for an hour");
        kit.advance(Duration::from_secs(3600 - 60)).await;
        assert_eq!(hours(), [""; 0]);
        kit.advance(Duration::from_secs(120)).await;
        let first = hours();
        assert_eq!(first.len(), 1, "{first:#?}");
        for part in ["WARN", "key=default/blog", "finalizer=sites"] {
            assert!(first[0].contains(part), "no {part} in {}", first[0]);
        }
        kit.advance(Duration::from_secs(3600)).await;
        assert_eq!(hours().len(), 2);
    });
}

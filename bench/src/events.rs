//! Delivers watch events to an informer without a socket, to count instructions.
//!
//! Times depend on other work of the machine and on caches; the number of instructions does not.
//! Count them with `valgrind --tool=callgrind` for two numbers of delivered events. The difference is
//! the cost of the events, because both runs create the same number of events.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use clap::Args;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, client::Body};
use tokio_util::sync::CancellationToken;
use windlass_informer::{Informer, ListWatch, Stored};

use crate::{
    Result,
    contender::Object,
    objects::{FIRST_VERSION, Kind, Template},
};

/// The settings of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Events {
    /// The kind of the objects.
    #[arg(long)]
    kind: Kind,

    /// Keeps objects as JSON.
    #[arg(long)]
    packed: bool,

    /// Requests only metadata.
    #[arg(long)]
    metadata: bool,

    /// The number of objects. The events are updates of them.
    #[arg(long, default_value_t = 500)]
    objects: usize,

    /// The number of relists without changes.
    #[arg(long, default_value_t = 0)]
    relists: usize,

    /// The number of created events.
    #[arg(long, default_value_t = 3000)]
    made: usize,

    /// The number of delivered events.
    #[arg(long)]
    delivered: usize,
}

// === impl Events ===

impl Events {
    /// Delivers the events to a subscriber that ignores them.
    pub(crate) fn run(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self.kind {
                Kind::Configmap => self.follow::<ConfigMap>().await,
                Kind::Pod => self.follow::<Pod>().await,
            }
        })
    }

    async fn follow<K: Object>(&self) -> Result<()> {
        let pages = ListWatch::new(Api::<K>::all(self.client())).streamed_lists(false);
        if self.metadata && self.packed {
            self.take(&Informer::new(pages.metadata().raw())).await
        } else if self.metadata {
            self.take(&Informer::new(pages.metadata())).await
        } else if self.packed {
            self.take(&Informer::new(pages.raw())).await
        } else {
            self.take(&Informer::new(pages)).await
        }
    }

    async fn take<O: Stored>(&self, informer: &Informer<O>) -> Result<()> {
        let mut events = informer.subscribe();
        tokio::spawn({
            let informer = informer.clone();
            async move { informer.run(CancellationToken::new()).await }
        });
        // The events of the list, and `Synced`.
        for _ in 0..self.objects + 1 + self.delivered {
            events.next().await.ok_or("the informer ended")?;
        }
        Ok(())
    }

    /// A client of a fake server with one list and one watch.
    fn client(&self) -> Client {
        let kind = self.kind.type_name();
        let (item, whole) = if self.metadata {
            (Template::metadata(self.kind), Template::metadata(self.kind))
        } else {
            (Template::item(self.kind), Template::whole(self.kind))
        };
        let mut list = format!(
            r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{FIRST_VERSION}"}},"items":["#
        )
        .into_bytes();
        for index in 0..self.objects {
            if index > 0 {
                list.push(b',');
            }
            item.render(index, FIRST_VERSION, 0, &mut list);
        }
        list.extend_from_slice(b"]}");

        let event = |number: usize| {
            let mut line = br#"{"type":"MODIFIED","object":"#.to_vec();
            let version = FIRST_VERSION + 1 + number as u64;
            whole.render(number % self.objects, version, 0, &mut line);
            line.extend_from_slice(b"}\n");
            Bytes::from(line)
        };
        let mut events: Vec<Bytes> = (0..self.made).map(event).collect();
        events.truncate(self.delivered);

        let list = Bytes::from(list);
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        let gone = Bytes::from([&gone[..], b"\n"].concat());
        let mut answers = VecDeque::from([vec![list.clone()]]);
        for _ in 0..self.relists {
            answers.extend([vec![gone.clone()], vec![list.clone()]]);
        }
        answers.push_back(events);
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let next = answers.lock().ok().and_then(|mut it| it.pop_front());
            let chunks = stream::iter(next.unwrap_or_default())
                .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
            // A list ends; a watch continues.
            let body = if query.contains("watch=") {
                chunks.chain(stream::pending()).boxed()
            } else {
                chunks.boxed()
            };
            async { Ok::<_, Infallible>(Response::new(StreamBody::new(body))) }
        });
        Client::new(service, "default")
    }
}

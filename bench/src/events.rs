//! Watch events through an informer with no socket between, for whoever counts instructions.
//!
//! Time depends on what else the machine does, and on its caches; how many instructions an event
//! takes does not. Count them with `valgrind --tool=callgrind` for two numbers of events: the
//! difference is that of the events alone, because all of them are made whatever is delivered.

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

/// What is delivered.
#[derive(Clone, Debug, Args)]
pub(crate) struct Events {
    /// Of which kind.
    #[arg(long)]
    kind: Kind,

    /// Whether they are kept as JSON.
    #[arg(long)]
    packed: bool,

    /// How many are made.
    #[arg(long, default_value_t = 3000)]
    made: usize,

    /// How many of them are delivered.
    #[arg(long)]
    delivered: usize,
}

/// Objects in the store that they are updates of.
const OBJECTS: usize = 500;

// === impl Events ===

impl Events {
    /// Delivers them to a subscriber that looks at none.
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
        if self.packed {
            self.take(&Informer::new(pages.packed())).await
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
        // The list, and that it is whole.
        for _ in 0..OBJECTS + 1 + self.delivered {
            events.next().await.ok_or("the informer ended")?;
        }
        Ok(())
    }

    /// A client of a server that knows a list and a watch.
    fn client(&self) -> Client {
        let (kind, item) = (self.kind.type_name(), Template::item(self.kind));
        let mut list = format!(
            r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{FIRST_VERSION}"}},"items":["#
        )
        .into_bytes();
        for index in 0..OBJECTS {
            if index > 0 {
                list.push(b',');
            }
            item.render(index, FIRST_VERSION, 0, &mut list);
        }
        list.extend_from_slice(b"]}");

        let whole = Template::whole(self.kind);
        let event = |number: usize| {
            let mut line = br#"{"type":"MODIFIED","object":"#.to_vec();
            let version = FIRST_VERSION + 1 + number as u64;
            whole.render(number % OBJECTS, version, 0, &mut line);
            line.extend_from_slice(b"}\n");
            Bytes::from(line)
        };
        let mut events: Vec<Bytes> = (0..self.made).map(event).collect();
        events.truncate(self.delivered);

        let answers = VecDeque::from([vec![Bytes::from(list)], events]);
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let next = answers.lock().ok().and_then(|mut it| it.pop_front());
            let chunks = stream::iter(next.unwrap_or_default())
                .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
            // A list ends; a watch goes on.
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

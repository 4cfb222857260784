//! The load server: sends the responses of an API server at a very low cost.
//!
//! Each object is rendered from a template by one copy and a few digits. A page is one body. An event
//! of a watch is one chunk, as kube-apiserver sends it.

mod events;
mod reply;

use std::{net::SocketAddr, sync::Arc, thread};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    Result,
    objects::{FIRST_VERSION, Kind, Template},
};

/// A running load server. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct LoadServer {
    addr: SocketAddr,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// The state that all connections share.
#[derive(Debug)]
struct Load {
    kind: Kind,
    count: usize,
    whole: Form,
    metadata: Form,
    orders: watch::Sender<Orders>,
}

/// The form of objects that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    Metadata,
}

/// The templates of one form of objects.
#[derive(Debug)]
struct Form {
    /// The kind and the `apiVersion` of an object in an event.
    kind: &'static str,
    api_version: &'static str,

    /// The templates of an object in a list and in an event.
    item: Template,
    event: Template,
}

/// The orders for the watches.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    /// Watches that were opened with a lower number get the error that their history has expired.
    expired: u64,
    /// The number of orders to send updates so far.
    round: u64,
    /// The updates to send.
    updates: Updates,
}

/// Updates of the objects, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Updates {
    events: usize,
    /// Updates per second. Zero means as fast as possible.
    rate: u64,
    /// Additional updates of the last object per second.
    hot: u64,
}

// === impl LoadServer ===

impl LoadServer {
    /// Serves `count` objects of `kind` on a loopback port, in a separate thread.
    pub(crate) fn start(kind: Kind, count: usize) -> Result<Self> {
        let (ready, addr) = std::sync::mpsc::sync_channel(1);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let load = Arc::new(Load {
            kind,
            count,
            whole: Form {
                kind: kind.type_name(),
                api_version: "v1",
                item: Template::item(kind),
                event: Template::whole(kind),
            },
            metadata: Form {
                kind: "PartialObjectMetadata",
                api_version: "meta.k8s.io/v1",
                item: Template::metadata(kind),
                event: Template::metadata(kind),
            },
            orders: watch::Sender::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name("load-server".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
                    _ = ready.send(listener.local_addr()?);
                    tokio::select! {
                        ended = accept(listener, load) => ended,
                        _ = stopped => Ok(()),
                    }
                })
            })?;
        Ok(Self {
            addr: addr.recv()?,
            _stop: stop,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

async fn accept(listener: TcpListener, load: Arc<Load>) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let load = Arc::clone(&load);
        let service = service_fn(move |request| {
            let load = Arc::clone(&load);
            async move { Ok::<_, std::convert::Infallible>(load.reply(&request)) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

// === impl Shape ===

impl Shape {
    /// Parses an `Accept` header.
    fn of(accept: &[u8]) -> Self {
        let partial = b"as=PartialObjectMetadata";
        if accept.windows(partial.len()).any(|it| it == partial) {
            Self::Metadata
        } else {
            Self::Whole
        }
    }
}

// === impl Load ===

impl Load {
    fn form(&self, shape: Shape) -> &Form {
        match shape {
            Shape::Whole => &self.whole,
            Shape::Metadata => &self.metadata,
        }
    }

    /// The version of a list.
    fn version(&self, orders: &Orders) -> u64 {
        FIRST_VERSION + self.count as u64 + orders.expired
    }
}

/// The version of update number `event` of a watch, when there are `count` objects.
pub(crate) fn update_version(count: usize, event: usize) -> u64 {
    FIRST_VERSION + 2 * count as u64 + event as u64
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, pin_mut};
    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        Api, Client, Config,
        api::{ListParams, WatchEvent, WatchParams},
        core::PartialObjectMeta,
    };

    use super::{LoadServer, Shape};
    use crate::objects::Kind;

    #[test]
    fn the_response_has_the_accepted_form() {
        check("application/json", Shape::Whole);
        check("", Shape::Whole);
        check(
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Shape::Metadata,
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Shape::Metadata,
        );
    }

    #[track_caller]
    fn check(accept: &str, shape: Shape) {
        assert_eq!(Shape::of(accept.as_bytes()), shape, "{accept}");
    }

    #[tokio::test]
    async fn a_request_for_metadata_receives_only_metadata() -> crate::Result<()> {
        let server = LoadServer::start(Kind::Pod, 3)?;
        let client = Client::try_from(Config::new(server.url().parse()?))?;
        let pods = Api::<PartialObjectMeta<Pod>>::all(client);

        let page = pods.list(&ListParams::default().limit(2)).await?;
        assert_eq!(page.items.len(), 2);
        assert_eq!(page.metadata.continue_.as_deref(), Some("2"));
        for pod in &page.items {
            let types = pod.types.as_ref();
            let kind = types.map(|types| (&*types.kind, &*types.api_version));
            assert_eq!(kind, Some(("PartialObjectMetadata", "meta.k8s.io/v1")));
        }

        let watch = pods
            .watch(&WatchParams::default().initial_events(), "")
            .await?;
        pin_mut!(watch);
        let mut names = Vec::new();
        while let Some(event) = watch.next().await {
            match event? {
                WatchEvent::Added(pod) => names.extend(pod.metadata.name),
                WatchEvent::Bookmark(_) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(names.len(), 3, "{names:?}");
        Ok(())
    }
}

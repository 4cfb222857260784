//! Clients that send no write while a fence is closed.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Request;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use tower::{Layer as _, ServiceExt as _};

use super::{Fence, FenceLayer, layer::is_read};

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns the connections of a client, each of which ends when it is polled while the fence is
/// closed: what they have not written by then stays unwritten.
#[derive(Clone)]
struct FencedExecutor {
    fence: Fence,
}

/// A connection as a task.
struct FencedConnection {
    fence: Fence,
    /// None once the fence was found closed.
    connection: Option<Connection>,
}

// === impl Fence ===

impl Fence {
    /// A client that sends reads through `client`, and writes while this fence is open.
    ///
    /// To be given to reconcilers and to [`Finalizers`](crate::Finalizers). A refused write fails
    /// with [`kube::Error::Service`] around a [`FenceClosed`](crate::FenceClosed). Must be called
    /// within a tokio runtime, as [`Client::new`] must.
    ///
    /// The check is made before the request enters `client`. A request that `client` has queued is
    /// dropped when the deadline passes, but a frozen process may wake in the moment in which its
    /// connection writes. [`connect`](Self::connect) closes that gap; this is for clients without a
    /// socket, and for those that cannot be made from a [`Config`].
    #[must_use]
    pub fn client(&self, client: Client) -> Client {
        self.over(client.clone(), client)
    }

    /// Connects a client that hands no write to the socket while this fence is closed.
    ///
    /// As [`client`](Self::client), and writes have connections of their own, which check the fence
    /// whenever they are about to use the socket. After the deadline these connections are closed
    /// with whatever they have not written.
    ///
    /// # Errors
    ///
    /// [`kube::Error`] if `config` cannot be used, such as TLS without a TLS feature of kube.
    pub fn connect(&self, config: Config) -> Result<Client, kube::Error> {
        let executor = FencedExecutor {
            fence: self.clone(),
        };
        let reads = ClientBuilder::try_from(config.clone())?.build();
        let writes = ClientBuilder::try_from((config, executor))?.build();
        Ok(self.over(reads, writes))
    }

    fn over(&self, reads: Client, writes: Client) -> Client {
        let namespace = reads.default_namespace().to_owned();
        let valid_until = *reads.valid_until();
        let writes = tower::service_fn(move |request: Request<Body>| {
            let writes = writes.clone();
            async move { writes.send(request).await }
        });
        let writes = FenceLayer::new(self.clone()).layer(writes);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (reads, writes) = (reads.clone(), writes.clone());
            async move {
                if is_read(request.method()) {
                    return reads.send(request).await.map_err(Into::into);
                }
                writes.oneshot(request).await
            }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }
}

// === impl FencedExecutor ===

impl hyper::rt::Executor<Connection> for FencedExecutor {
    fn execute(&self, connection: Connection) {
        tokio::spawn(FencedConnection {
            fence: self.fence.clone(),
            connection: Some(connection),
        });
    }
}

// === impl FencedConnection ===

impl Future for FencedConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.fence.is_open() {
            self.connection = None;
        }
        match &mut self.connection {
            Some(connection) => connection.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::future::poll_fn;
    use hyper::rt::Executor as _;
    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    /// What a connection has not written by then stays unwritten.
    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_polled_after_the_deadline_but_dropped() {
        let (fence, polls) = (Fence::new(), Arc::new(AtomicUsize::new(0)));
        fence.open_until(fence.now() + std::time::Duration::from_secs(10));
        let (wake, counted) = (Arc::new(Notify::new()), Arc::clone(&polls));
        let requested_by_mapper = Arc::clone(&wake);
        let alive = Arc::downgrade(&wake);
        let connection = async move {
            let mut notified = Box::pin(requested_by_mapper.notified());
            poll_fn(|cx| {
                counted.fetch_add(1, Ordering::SeqCst);
                notified.as_mut().poll(cx)
            })
            .await;
        };
        let executor = FencedExecutor {
            fence: fence.clone(),
        };
        executor.execute(Box::pin(connection));
        yield_now().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);

        // A request is waiting for it when the deadline passes.
        fence.close();
        wake.notify_one();
        yield_now().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        drop(wake);
        assert!(alive.upgrade().is_none(), "it was dropped");
    }
}

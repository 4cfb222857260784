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

/// Spawns the connections of a client as [`FencedConnection`]s.
#[derive(Clone)]
struct FencedExecutor {
    fence: Fence,
}

/// The task of a connection. It ends when it is polled while the fence is closed: unwritten data is
/// dropped.
struct FencedConnection {
    fence: Fence,
    /// `None` after the fence was found closed.
    connection: Option<Connection>,
}

// === impl Fence ===

impl Fence {
    /// Returns a client that sends reads through `client`, and writes only while this fence is
    /// open.
    ///
    /// Use it in reconcilers and for [`Finalizers`](crate::Finalizers). A refused write fails with
    /// [`kube::Error::Service`] around a [`FenceClosed`](crate::FenceClosed). Call it within a
    /// tokio runtime, like [`Client::new`].
    ///
    /// The check comes before the request enters `client`. A request that `client` has queued is
    /// dropped at the deadline, but a frozen process may wake while its connection writes.
    /// [`connect`](Self::connect) closes that gap. Use this method for clients without a socket,
    /// and for those that cannot be built from a [`Config`].
    #[must_use]
    pub fn client(&self, client: Client) -> Client {
        self.over(client.clone(), client)
    }

    /// Builds a client that passes no write to the socket while this fence is closed.
    ///
    /// Like [`client`](Self::client), but writes have separate connections, which check the fence
    /// before each use of the socket. After the deadline these connections are closed, and their
    /// unwritten data is dropped.
    ///
    /// Each request is sent once, whatever `default_retry` of `config` says: kube's own retries wait
    /// for as long as a server asks for, within the handler's call. The controller has its own.
    ///
    /// # Errors
    ///
    /// [`kube::Error`] if `config` cannot be used, for example TLS without a TLS feature of kube.
    pub fn connect(&self, mut config: Config) -> Result<Client, kube::Error> {
        let executor = FencedExecutor {
            fence: self.clone(),
        };
        config.default_retry = false;
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
                if is_read(&request) {
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
    async fn a_connection_is_dropped_at_the_deadline() {
        let (fence, polls) = (Fence::new(), Arc::new(AtomicUsize::new(0)));
        fence.open_until(fence.now() + std::time::Duration::from_secs(10));
        let (wake, counted) = (Arc::new(Notify::new()), Arc::clone(&polls));
        let notify = Arc::clone(&wake);
        let alive = Arc::downgrade(&wake);
        let connection = async move {
            let mut notified = Box::pin(notify.notified());
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

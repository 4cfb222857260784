//! The signals that stop an operator. A single test, because a signal affects the whole process.

#![cfg(unix)]

use std::{process::Command, sync::Arc, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;
use windlass_controller::Runnable;
use windlass_operator::{Operator, OperatorError};

/// A controller that notifies at its start and at the stop, and then ends or hangs.
struct Stubborn {
    began: Arc<Notify>,
    stopped: Arc<Notify>,
    ends: bool,
}

impl Runnable for Stubborn {
    type Error = std::convert::Infallible;

    fn name(&self) -> &'static str {
        "stubborn"
    }

    async fn run(&self, stop: CancellationToken) -> Result<(), Self::Error> {
        self.began.notify_one();
        stop.cancelled().await;
        self.stopped.notify_one();
        if !self.ends {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// Rows: BO-25
#[tokio::test]
async fn a_signal_stops_gracefully_and_a_second_signal_aborts() {
    for (signal, ends) in [("-TERM", true), ("-INT", true), ("-TERM", false)] {
        let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let operator = Operator::new();
        let stubborn = Stubborn {
            began: Arc::clone(&began),
            stopped: Arc::clone(&stopped),
            ends,
        };
        operator
            .add_controller(stubborn)
            .expect("the operator is not running");
        let run = tokio::spawn(async move { operator.run().await });
        // The operator listens for signals before it runs its controllers.
        began.notified().await;
        send(signal);
        stopped.notified().await;
        if ends {
            run.await.expect("no panic").expect("no error");
        } else {
            send("-INT");
            let forced = run.await.expect("no panic");
            assert!(matches!(forced, Err(OperatorError::Forced)), "{forced:?}");
        }
    }
    a_signal_that_is_sent_twice_at_once_does_not_abort().await;
}

/// `timeout` of coreutils sends its signal to the process and to its group.
async fn a_signal_that_is_sent_twice_at_once_does_not_abort() {
    tokio::time::pause();
    let mut received = signal(SignalKind::terminate()).expect("the runtime handles signals");
    let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let operator = Operator::new();
    let stubborn = Stubborn {
        began: Arc::clone(&began),
        stopped: Arc::clone(&stopped),
        ends: false,
    };
    operator
        .add_controller(stubborn)
        .expect("the operator is not running");
    let run = tokio::spawn(async move { operator.run().await });
    frozen(began.notified()).await;
    send("-TERM");
    frozen(stopped.notified()).await;
    frozen(received.recv()).await;
    send("-TERM");
    frozen(received.recv()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!run.is_finished(), "{:?}", run.await);

    tokio::time::advance(Duration::from_secs(1)).await;
    send("-TERM");
    let forced = frozen(run).await.expect("no panic");
    assert!(matches!(forced, Err(OperatorError::Forced)), "{forced:?}");
}

/// Waits while paused time stands still, because the runtime is never idle.
async fn frozen<F: Future>(future: F) -> F::Output {
    let busy = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        output = future => output,
        () = busy => unreachable!("it has no end"),
    }
}

/// Sends this process a signal.
fn send(signal: &str) {
    let pid = std::process::id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.expect("there is a kill").success());
}

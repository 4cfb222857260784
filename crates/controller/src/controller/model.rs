//! A model test: small programs on the engine, under many interleavings.
//!
//! The engine is compiled here a second time, from the same files, with `shuttle`'s lock in place
//! of `parking_lot`'s and a clock that the program advances. shuttle reports a task that waits
//! forever as a deadlock and prints the schedule: so a lost notification is found.

#[expect(dead_code, reason = "not every call of it is in a program here")]
#[path = "engine.rs"]
mod engine;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use shuttle::future::{JoinHandle, block_on, spawn};
use tokio::sync::{Barrier, Notify, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_informer::ObjectKey;

use self::{clock::Clock, engine::Engine};
use crate::{
    Action, HandlerId,
    route::KindId,
    schedule::{Coalesced, LaneKey, Moment, Offer, Pending, Priority, Reason, ScheduleItem, Work},
};

/// `shuttle`'s lock with the interface of `parking_lot`'s.
mod sync {
    /// A mutex. At each lock shuttle may switch to another task.
    #[derive(Debug, Default)]
    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a panic ends the whole model")
        }
    }
}

/// A clock that only advances on request.
mod clock {
    use super::{Duration, Moment, Notify, sync::Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Clock {
        now: Mutex<Moment>,
        moved: Notify,
    }

    impl Clock {
        pub(super) fn now(&self) -> Moment {
            *self.now.lock()
        }

        pub(super) async fn until(&self, due: Moment) {
            loop {
                let moved = self.moved.notified();
                if self.now() >= due {
                    return;
                }
                moved.await;
            }
        }

        pub(super) fn advance(&self, by: Duration) {
            {
                let mut now = self.now.lock();
                *now = *now + by;
            }
            self.moved.notify_waiters();
        }
    }
}

/// The number of schedules for each program: enough that each fault that was inserted manually was
/// found, within a second.
const SCHEDULES: usize = 500;

type Numbers = Engine<Number, Number>;

/// The events and the calls of any object.
#[derive(Clone, Copy, Debug)]
struct Number(u32);

impl ScheduleItem for Number {
    fn uid(&self) -> Option<&str> {
        None
    }
}

/// The workers of a program.
struct Workers {
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

#[test]
fn each_event_is_dispatched_once_and_in_order_by_any_number_of_workers() {
    check(|| async {
        let engine = Arc::new(Numbers::default());
        let (workers, mut received) = work(&engine, 2, |_, _| None);
        let offers = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)];
        let half = spawn({
            let engine = Arc::clone(&engine);
            async move { offers[..2].iter().for_each(|it| offer(&engine, *it)) }
        });
        half.await.expect("it ends");
        for it in &offers[2..] {
            offer(&engine, *it);
        }
        let received = collect(&mut received, offers.len()).await;
        assert_eq!(received["a"], [1, 2, 3]);
        assert_eq!(received["b"], [1, 2]);
        workers.end().await;
    });
}

#[test]
fn a_pending_call_is_made_when_it_is_due() {
    check(|| async {
        let engine = Arc::new(Numbers::default());
        engine.admit(HandlerId(0));
        let stop = CancellationToken::new();
        let timer = spawn({
            let (engine, stop) = (Arc::clone(&engine), stop.clone());
            async move { stop.run_until_cancelled(engine.keep_time()).await }
        });
        // Each first call fails, a for a longer time than b. Each retry succeeds.
        let (workers, mut received) = work(&engine, 2, |name, number| {
            let seconds = if name == "a" { 9 } else { 5 };
            (number == 1).then(|| Duration::from_secs(seconds))
        });
        let clock = spawn({
            let engine = Arc::clone(&engine);
            async move {
                for _ in 0..5 {
                    engine.clock().advance(Duration::from_secs(2));
                    shuttle::future::yield_now().await;
                }
            }
        });
        offer(&engine, ("a", 1));
        offer(&engine, ("b", 1));
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for _ in 0..4 {
            for (name, numbers) in collect(&mut received, 1).await {
                all.entry(name).or_default().extend(numbers);
            }
            // The handler of each received number has failed, and its retry is due now.
            engine.clock().advance(Duration::from_secs(100));
        }
        clock.await.expect("it ends");
        assert_eq!((&*all["a"], &*all["b"]), (&[1, 101][..], &[1, 101][..]));
        assert_eq!((engine.depth(), engine.pending()), (0, 0));
        workers.end().await;
        stop.cancel();
        timer.await.expect("it ends");
    });
}

#[test]
fn interrupted_work_is_taken_by_another_worker() {
    check(|| async {
        let engine = Arc::new(Numbers::default());
        offer(&engine, ("a", 1));
        offer(&engine, ("a", 2));
        let breaks = spawn({
            let engine = Arc::clone(&engine);
            async move { drop(engine.try_take()) }
        });
        let (workers, mut received) = work(&engine, 1, |_, _| None);
        breaks.await.expect("it ends");
        let received = collect(&mut received, 2).await;
        assert_eq!(received["a"], [1, 2]);
        workers.end().await;
    });
}

/// `Notify` stores one notification: of two offers in a row only one may wake a worker, unless the
/// worker that takes a lane notifies the next. Otherwise the second lane would wait for the end of
/// the first.
#[test]
fn two_objects_are_processed_concurrently() {
    check(|| async {
        let engine = Arc::new(Numbers::default());
        let both = Arc::new(Barrier::new(2));
        let workers = [(); 2].map(|()| {
            let (engine, both) = (Arc::clone(&engine), Arc::clone(&both));
            spawn(async move {
                let guard = engine.take().await;
                both.wait().await;
                guard.finish();
            })
        });
        offer(&engine, ("a", 1));
        offer(&engine, ("b", 1));
        for worker in workers {
            worker.await.expect("it ends");
        }
    });
}

/// Starts workers that send what they received: the number of an event, and 100 more for a retry.
fn work(
    engine: &Arc<Numbers>,
    workers: usize,
    fails: fn(&str, u32) -> Option<Duration>,
) -> (Workers, mpsc::Receiver<(String, u32)>) {
    let (sender, received) = mpsc::channel(16);
    let stop = CancellationToken::new();
    let work = |()| {
        let (engine, sender, stop) = (Arc::clone(engine), sender.clone(), stop.clone());
        spawn(async move {
            let mut next = None;
            while let Some(mut guard) = match next.take() {
                Some(guard) => Some(guard),
                None => stop.run_until_cancelled(engine.take()).await,
            } {
                let name = guard.key().object.name().to_owned();
                let number = match guard.work() {
                    Work::Event { offer, .. } => offer.event.0,
                    Work::Retry(pending) => 100 + pending.call.0,
                };
                if let Some(delay) = fails(&name, number) {
                    guard.add_pending(Pending {
                        handler: HandlerId(0),
                        action: Action::Created,
                        reason: Reason::Failed,
                        due: engine.now() + delay,
                        overtaken: false,
                        call: Number(number),
                    });
                }
                let sent = sender.send((name, number)).await;
                sent.expect("the program receives");
                // Like a worker, this takes the next lane under the same lock.
                next = guard.next(engine.now()).then_some(guard);
            }
        })
    };
    let tasks = std::iter::repeat_n((), workers).map(work).collect();
    (Workers { tasks, stop }, received)
}

impl Workers {
    /// Stops the workers like a controller does.
    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("it ends");
        }
    }
}

/// The received numbers, by object.
async fn collect(
    received: &mut mpsc::Receiver<(String, u32)>,
    count: usize,
) -> BTreeMap<String, Vec<u32>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for _ in 0..count {
        let (name, number) = received.recv().await.expect("the workers run");
        all.entry(name).or_default().push(number);
    }
    all
}

fn offer(engine: &Arc<Numbers>, (name, number): (&str, u32)) {
    let key = LaneKey {
        kind: KindId(0),
        object: ObjectKey::new(name),
    };
    let offer = Offer::new(Priority::Live, Number(number));
    engine.offer([(key, offer)], |_, newer| Coalesced::Separate(newer));
}

/// Runs `program` under many schedules. shuttle prints the seed of a failure.
fn check<F: Future<Output = ()> + 'static>(program: fn() -> F) {
    shuttle::check_random(move || block_on(program()), SCHEDULES);
    shuttle::check_pct(move || block_on(program()), SCHEDULES, 3);
}

impl<E: ScheduleItem, P: ScheduleItem> Engine<E, P> {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

//! Plays a script of a level-triggered controller, and checks its log against the rules.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use windlass_controller::{
    Controller, ErrorReport, ExponentialBackoff, Informers, RunError, Watch,
};
use windlass_informer::{Informer, ObjectKey};
use windlass_model::{Entry, Handler, HandlerId, InformerId, Level, Record, Role, Settings, check};

use super::{
    reconciler::{Plans, RecordedLevel},
    script::{LevelScript, LevelStep},
    server,
};
use crate::{
    engine::settings,
    informer_source::InformerSource,
    play::Failed,
    script::{Options, RetryOption, Selector, Step},
    stage::{NAMESPACE, Stage, name_of},
};

/// The number of entries after which a history is considered endless.
const ENDLESS: usize = 4_000;

/// The kind of the reconciled objects, and that of the objects that affect them. Both show all
/// leases.
const KINDS: [&str; 2] = ["leases", "others"];

/// The default of a controller.
const OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Which objects affect which.
pub(super) fn mapped() -> Vec<(Arc<str>, Arc<str>)> {
    let mapped = [("b", "a"), ("c", "a"), ("c", "b")];
    mapped.map(|(from, to)| (from.into(), to.into())).to_vec()
}

struct Play {
    stage: Stage,
    retry: RetryOption,
    plans: Plans,
    informers: BTreeMap<u32, InformerSource>,
    process: Option<Process>,
}

/// A running controller.
struct Process {
    others: Informers<Lease>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// Plays `script`, and checks its log.
pub(super) fn play(script: &LevelScript) -> Result<(), Failed> {
    let (log, ended) = record(script);
    let options = Options {
        retry: script.retry,
        ..Options::default()
    };
    let settings = Settings {
        level: Some(Level {
            mapped: mapped(),
            own_write_timeout: OWN_WRITE_TIMEOUT,
        }),
        ..settings(&options)
    };
    check(settings, log).map_err(Failed::Violation)?;
    ended.map_err(Failed::Engine)
}

/// Plays `script`, and returns its log, and whether the controller completed it.
pub(super) fn record(script: &LevelScript) -> (Vec<Record>, Result<(), String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut play = Play {
            stage: Stage::new(&Options::default()),
            retry: script.retry,
            plans: Plans::default(),
            informers: BTreeMap::new(),
            process: None,
        };
        let ended = play.run(script).await;
        let log = play.stage.with(|state| std::mem::take(&mut state.log));
        (log, ended)
    })
}

// === impl Play ===

impl Play {
    async fn run(&mut self, script: &LevelScript) -> Result<(), String> {
        self.start();
        for step in &script.steps {
            match step {
                LevelStep::Common(step) => self.step(*step).await?,
                LevelStep::Call(plan) => self.plans.lock().push_back(*plan),
            }
        }
        self.plans.lock().clear();
        self.stage.log(Entry::Quiet);
        self.follow(Duration::from_secs(1_800)).await?;
        self.stage.log(Entry::Settled);
        self.follow(Duration::from_secs(3_600)).await?;
        self.end(true).await
    }

    fn start(&mut self) {
        let handler = Handler {
            id: HandlerId(0),
            kind: Arc::from(KINDS[0]),
            role: Role::Reconciler,
            finalizers: Vec::new(),
            early: false,
            filtered: false,
        };
        self.stage.log(Entry::HandlerAdded(handler));
        let (primary, others) = (self.informer(0), self.informer(1));
        let client = server::client(&self.stage);
        let mut leases = Controller::<Lease>::builder(client, Watch::from(primary));
        let affected = |lease: &Lease| {
            let name = name_of(lease);
            let mapped = mapped()
                .into_iter()
                .filter(move |(from, _)| **from == *name);
            let keys = mapped.map(|(_, to)| ObjectKey::new(&*to).within(NAMESPACE));
            keys.collect::<Vec<_>>()
        };
        let others = leases.watches(Watch::from(others), affected);
        let informers = others.informers().clone();
        let leases = leases.on_error(|_| {}).seed(1);
        let seconds = Duration::from_secs;
        let leases = match self.retry {
            RetryOption::Constant => {
                leases.retry_policy(move |_: &ErrorReport<'_>| Some(seconds(4)))
            }
            RetryOption::Doubling => {
                leases.retry_policy(ExponentialBackoff::forever(seconds(1)).cap(seconds(64)))
            }
            _ => leases,
        };
        let reconciler = RecordedLevel {
            others,
            stage: self.stage.clone(),
            plans: Arc::clone(&self.plans),
        };
        let controller = leases.build(reconciler).expect("good settings");
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
        });
        self.stage.log(Entry::Started);
        self.process = Some(Process {
            others: informers,
            stop,
            task,
        });
    }

    /// Adds an informer: the first one of the reconciled kind, and others.
    fn informer(&mut self, id: u32) -> Informer<Lease> {
        let kind = KINDS[usize::from(id > 0)];
        self.stage.log(Entry::InformerAdded {
            informer: InformerId(id),
            kind: Arc::from(kind),
        });
        let (source, counter) = InformerSource::new(id, Selector::All, self.stage.clone());
        self.informers.insert(id, source);
        Informer::new(counter)
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        let stage = self.stage.clone();
        let id = |it: usize| u32::try_from(it).unwrap_or_default();
        match step {
            Step::Create(name, label) => stage.create(name, label).await,
            Step::Update(name) => stage.update(name).await,
            Step::Touch(name) => stage.touch(name).await,
            Step::Delete(name) => stage.delete(name).await,
            Step::Hold(name) => stage.hold(name).await,
            Step::Free(name) => stage.free(name).await,
            Step::Wait(0) => sleep(Duration::from_millis(1)).await,
            Step::Wait(seconds) => sleep(Duration::from_secs(seconds)).await,
            Step::AddInformer(_) if !self.informers.contains_key(&2) => {
                // Only after the start.
                sleep(Duration::from_millis(1)).await;
                let added = self.informer(2);
                if let Some(process) = &self.process {
                    let added = process.others.add(Watch::from(added));
                    added.map_err(|error| error.to_string())?;
                }
            }
            Step::Restart | Step::Crash => {
                self.end(step == Step::Restart).await?;
                self.informers.clear();
                self.start();
            }
            Step::Show(it, count) => {
                if let Some(informer) = self.informers.get_mut(&id(it)) {
                    (0..count).for_each(|_| _ = informer.show());
                }
            }
            Step::List(it) => {
                if let Some(informer) = self.informers.get_mut(&id(it)) {
                    informer.list(usize::MAX);
                }
            }
            Step::ListOld(it) => {
                if let Some(informer) = self.informers.get_mut(&id(it)) {
                    informer.list_old();
                }
            }
            Step::Bookmark(it) => {
                if let Some(informer) = self.informers.get_mut(&id(it)) {
                    informer.bookmark();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the process: gracefully with a limit of one minute, or by a crash.
    async fn end(&mut self, gracefully: bool) -> Result<(), String> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let limit = Duration::from_secs(if gracefully { 60 } else { 0 });
        if gracefully {
            process.stop.cancel();
        }
        let ended = timeout(limit, &mut process.task).await;
        if ended.is_err() {
            process.task.abort();
            _ = process.task.await;
        }
        self.stage.log(Entry::Stopped);
        match ended {
            Ok(Ok(Ok(()))) | Err(_) => Ok(()),
            Ok(ended) => Err(format!("the controller ended with {ended:?}")),
        }
    }

    /// Delivers all changes immediately for some time.
    async fn follow(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        loop {
            self.informers
                .values_mut()
                .for_each(InformerSource::catch_up);
            let written = Arc::clone(&self.stage.written);
            if timeout_at(end, written.notified()).await.is_err() {
                return Ok(());
            }
            if self.stage.with(|state| state.log.len()) > ENDLESS {
                return Err("it does not become quiet".to_owned());
            }
        }
    }
}

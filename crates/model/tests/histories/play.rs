//! Plays a script: records its log, and checks it against the rules.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep, timeout_at};
use windlass_informer::Informer;
use windlass_model::{
    Entry, Handler, HandlerId, InformerId, Record, Role, Violation, check, check_all,
};

use crate::{
    engine::{Engine, KIND, finalizers, settings},
    live::View,
    script::{HandlerKind, Script, Selector, Step},
    stage::{Detected, Stage},
    watchdog::Watched,
};

/// The number of entries after which a history is considered endless.
const ENDLESS: usize = 4_000;

/// The failure of a history: a broken rule, or an error.
#[derive(Debug)]
pub(crate) enum Failed {
    Violation(Box<Violation>),
    /// The controller ended, or it continued to make calls.
    Engine(String),
}

struct Play {
    stage: Stage,
    script: Script,
    engine: Engine,
    handlers: BTreeMap<u32, (HandlerKind, windlass_controller::Registration)>,
    kinds: BTreeMap<u32, HandlerKind>,
    informers: BTreeMap<u32, (View, Informer<Lease>)>,
    selectors: BTreeMap<u32, Selector>,
    /// Informers that were removed.
    removed: BTreeMap<u32, (View, Informer<Lease>)>,
    /// A second controller, and the informer that it shares.
    other: Option<Engine>,
    /// The number of the next handler, and of the next informer.
    next: (u32, u32),
}

/// Plays `script`, and checks its log.
pub(crate) fn play(script: &Script) -> Result<Vec<Record>, Failed> {
    let (log, engine) = record(script);
    check(settings(&script.options), log.iter().cloned()).map_err(Failed::Violation)?;
    engine.map_err(Failed::Engine)?;
    Ok(log)
}

/// Plays `script`, and returns all rules that it breaks.
pub(crate) fn play_all(script: &Script) -> Vec<Failed> {
    let (log, engine) = record(script);
    let violations = check_all(settings(&script.options), log);
    let violations = violations
        .into_iter()
        .map(|it| Failed::Violation(Box::new(it)));
    violations.chain(engine.err().map(Failed::Engine)).collect()
}

/// Plays `script`, and returns its log, and whether the engine completed it.
pub(crate) fn record(script: &Script) -> (Vec<Record>, Result<(), String>) {
    let _watched = Watched::new(script);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut play = Play::new(script);
        let ended = play.run().await;
        let log = play.stage.with(|state| std::mem::take(&mut state.log));
        (log, ended)
    })
}

// === impl Failed ===

impl Failed {
    /// The name of the failure, to recognize the same failure while a script is shrunk.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Violation(violation) => violation.rule.name,
            Self::Engine(_) => "the engine ends",
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Engine(reason) => f.write_str(reason),
        }
    }
}

// === impl Play ===

impl Play {
    fn new(script: &Script) -> Self {
        let stage = Stage::new(&script.options);
        let handlers = (0..).zip(script.handlers.iter().copied());
        let selectors = (0..).zip(script.informers.iter().copied());
        let mut play = Self {
            engine: Engine::new(&script.options),
            stage,
            script: script.clone(),
            handlers: BTreeMap::new(),
            kinds: handlers.collect(),
            informers: BTreeMap::new(),
            selectors: selectors.collect(),
            removed: BTreeMap::new(),
            other: None,
            next: (count(&script.handlers), count(&script.informers)),
        };
        play.start();
        play
    }

    /// Adds all handlers and informers, and starts the controller.
    fn start(&mut self) {
        self.handlers.clear();
        self.informers.clear();
        self.removed.clear();
        if self.selectors.is_empty() {
            self.selectors.insert(self.next.1, Selector::All);
            self.next.1 += 1;
        }
        for (id, selector) in self.selectors.clone() {
            self.add_informer(id, selector);
        }
        for (id, kind) in self.kinds.clone() {
            self.add_handler(id, kind);
        }
        self.engine.start();
        self.stage.log(Entry::Started);
    }

    fn add_handler(&mut self, id: u32, kind: HandlerKind) {
        let role = if kind.reconciler {
            Role::Reconciler
        } else {
            Role::Watcher
        };
        self.stage.log(Entry::HandlerAdded(Handler {
            id: HandlerId(id),
            kind: Arc::from(KIND),
            role,
            filtered: kind.filtered,
            early: kind.early,
            finalizers: if kind.wrapped {
                finalizers(id)
            } else {
                Vec::new()
            },
        }));
        let added = self.engine.add_handler(id, kind, &self.stage);
        self.handlers.insert(id, (kind, added));
        self.kinds.insert(id, kind);
    }

    fn add_informer(&mut self, id: u32, selector: Selector) {
        self.stage.log(Entry::InformerAdded {
            informer: InformerId(id),
            kind: Arc::from(KIND),
        });
        let added = self.engine.add_informer(id, selector, &self.stage);
        self.informers.insert(id, added);
        self.selectors.insert(id, selector);
    }

    async fn run(&mut self) -> Result<(), String> {
        for step in self.script.steps.clone() {
            self.step(step).await?;
            if self.engine.has_ended() {
                let Some(Detected(true)) = self.stage.with(|state| state.restored) else {
                    return self.engine.stop().await;
                };
                self.restart_restored().await?;
            }
        }
        self.quiet().await?;
        self.engine.stop().await?;
        self.stage.log(Entry::Stopped);
        if let Some(mut other) = self.other.take() {
            other.stop().await?;
        }
        Ok(())
    }

    /// Makes a step that concerns the server, an informer, or the next call or patch. Returns
    /// `false` for other steps.
    async fn simulated_step(&mut self, step: Step) -> bool {
        let stage = &self.stage;
        let id = |it: usize| u32::try_from(it).unwrap_or_default();
        match step {
            Step::Create(name, label) => stage.create(name, label).await,
            Step::Update(name) => stage.update(name).await,
            Step::Touch(name) => stage.touch(name).await,
            Step::Label(name, label) => stage.label(name, label).await,
            Step::Delete(name) => stage.delete(name).await,
            Step::Strip(name) => stage.strip(name).await,
            Step::Hold(name) => stage.hold(name).await,
            Step::Free(name) => stage.free(name).await,
            Step::Restore => stage.restore(),
            Step::Next(it, behaviour) => stage.with(|state| {
                let next = state.behaviours.entry(id(it)).or_default();
                next.push_back(behaviour);
            }),
            Step::Patch(fault) => stage.with(|state| state.faults.push_back(fault)),
            Step::Release(fault) => stage.with(|state| state.release_faults.push_back(fault)),
            Step::Show(it, n) => {
                if let Some((sight, _)) = self.informers.get_mut(&id(it)) {
                    (0..n).for_each(|_| sight.show());
                }
            }
            Step::List(it) => {
                if let Some((sight, _)) = self.informers.get_mut(&id(it)) {
                    sight.list();
                }
            }
            Step::ListOld(it) => {
                if let Some((sight, _)) = self.informers.get_mut(&id(it)) {
                    sight.list_old();
                }
            }
            Step::Bookmark(it) => {
                if let Some((sight, _)) = self.informers.get_mut(&id(it)) {
                    sight.bookmark();
                }
            }
            _ => return false,
        }
        true
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        if self.simulated_step(step).await {
            return Ok(());
        }
        let id = |it: usize| u32::try_from(it).unwrap_or_default();
        match step {
            Step::Wait(0) => sleep(Duration::from_millis(1)).await,
            Step::Wait(seconds) => sleep(Duration::from_secs(seconds)).await,
            // A handler needs an informer of its kind.
            Step::AddHandler(_) if self.informers.is_empty() => {}
            Step::AddHandler(kind) => {
                let next = self.next.0;
                self.next.0 += 1;
                self.add_handler(next, kind);
            }
            Step::RemoveHandler(it) => {
                if let Some((_, handler)) = self.handlers.remove(&id(it)) {
                    handler.remove();
                    self.stage.log(Entry::HandlerRemoved(HandlerId(id(it))));
                    self.kinds.remove(&id(it));
                }
            }
            Step::AddInformer(selector) => {
                let next = self.next.1;
                self.next.1 += 1;
                self.add_informer(next, selector);
            }
            Step::RemoveInformer(it) => {
                // Only after the start, because a controller without an informer does not start.
                sleep(Duration::from_millis(1)).await;
                if let Some((sight, informer)) = self.informers.remove(&id(it)) {
                    self.engine.remove_informer(&informer);
                    sight.end();
                    self.removed.insert(id(it), (sight, informer));
                    self.stage.log(Entry::InformerRemoved(InformerId(id(it))));
                    self.selectors.remove(&id(it));
                }
            }
            Step::AddAgain(it) => {
                // A removed informer has stopped, unless it is shared.
                sleep(Duration::from_millis(1)).await;
                if let Some((mut sight, informer)) = self.removed.remove(&id(it)) {
                    self.stage.log(Entry::InformerAdded {
                        informer: InformerId(id(it)),
                        kind: Arc::from(KIND),
                    });
                    sight.begin_again();
                    self.engine.add_again(&informer);
                    self.selectors.insert(id(it), sight.selector());
                    self.informers.insert(id(it), (sight, informer));
                }
            }
            Step::Share(it) => {
                if let (None, Some((_, informer))) = (&self.other, self.informers.get(&id(it))) {
                    self.other = Some(Engine::other(informer));
                }
            }
            Step::Unshare => {
                if let Some(mut other) = self.other.take() {
                    other.stop().await?;
                }
            }
            Step::Restart | Step::Crash => {
                if let Some(mut other) = self.other.take() {
                    other.stop().await?;
                }
                if step == Step::Restart {
                    self.engine.stop().await?;
                } else {
                    self.engine.crash().await;
                }
                self.begin_anew();
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts a new process, after the last one has ended.
    fn begin_anew(&mut self) {
        self.stage.log(Entry::Stopped);
        self.stage.with(|state| state.restored = None);
        self.engine = Engine::new(&self.script.options);
        self.start();
    }

    /// Starts a new process after a restore of the server, if there was one. A process whose informers
    /// have seen the server before ends by itself.
    async fn restart_restored(&mut self) -> Result<(), String> {
        let Some(restored) = self.stage.with(|state| state.restored) else {
            return Ok(());
        };
        if let Some(mut other) = self.other.take() {
            other.stop().await?;
        }
        match restored {
            Detected(true) => self.engine.ended_by_restore().await?,
            Detected(false) => self.engine.stop().await?,
        }
        self.begin_anew();
        Ok(())
    }

    /// Ends all faults, and lets time pass until all work is done.
    async fn quiet(&mut self) -> Result<(), String> {
        self.stage.with(|state| {
            state.behaviours.clear();
            state.faults.clear();
            state.release_faults.clear();
        });
        if self.stage.with(|state| state.restored.is_some()) {
            for (view, _) in self.informers.values_mut() {
                view.catch_up();
            }
            self.restart_restored().await?;
        }
        self.stage.log(Entry::Quiet);
        self.follow(Duration::from_secs(1_800)).await?;
        self.stage.log(Entry::Settled);
        self.follow(Duration::from_secs(3_600)).await
    }

    /// Delivers all changes immediately for some time.
    async fn follow(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        loop {
            for (sight, _) in self.informers.values_mut() {
                sight.catch_up();
            }
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

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

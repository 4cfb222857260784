//! Random faults of a server and its proxies, and the state of the informer when they have ended.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::time::{Instant, timeout};
use windlass_informer::{Event, HealthState, Informer};

use crate::{
    server::{Answer, Server},
    text::{added, bookmark, deleted, end, error, list, modified, page},
    wire::{Wire, source},
};

/// The objects of the server, with their versions.
type Objects = BTreeMap<String, usize>;

/// A server that fails at random, until it has answered `faults` requests.
struct Hostile {
    rng: StdRng,
    faults: usize,
    version: usize,
    objects: Objects,
    /// Each change, as a line.
    changes: Vec<(usize, String)>,
    /// The objects at each version of a list.
    lists: BTreeMap<usize, Vec<(String, usize)>>,
}

impl Hostile {
    fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            faults: 40,
            version: 10,
            objects: Objects::new(),
            changes: Vec::new(),
            lists: BTreeMap::new(),
        }
    }

    fn write(&mut self) {
        self.version += 1;
        let version = self.version;
        let name = format!("o-{}", self.rng.random_range(0..6));
        let line = match self.objects.get(&name) {
            Some(_) if self.rng.random_bool(0.4) => {
                self.objects.remove(&name);
                deleted(&name, version)
            }
            Some(_) => {
                self.objects.insert(name.clone(), version);
                modified(&name, version, "1")
            }
            None => {
                self.objects.insert(name.clone(), version);
                added(&name, version, "1")
            }
        };
        self.changes.push((version, line));
    }

    fn answer(&mut self, asked: &str) -> Answer {
        if self.faults > 0 {
            for _ in 0..self.rng.random_range(0..4) {
                self.write();
            }
        }
        let is_hostile = self.faults > 0 && self.rng.random_bool(0.7);
        self.faults = self.faults.saturating_sub(1);
        if is_hostile && self.rng.random_bool(0.4) {
            return self.refusal();
        }
        let body = self.body(asked, is_hostile);
        if !is_hostile {
            return if asked.contains("watch=true") && self.faults == 0 {
                Answer::watch(vec![body.into_bytes()]).then_hang()
            } else {
                Answer::watch(vec![body.into_bytes()])
            };
        }
        let cut = self.rng.random_range(0..=body.len());
        let body = &body.as_bytes()[..if self.rng.random_bool(0.5) {
            cut
        } else {
            body.len()
        }];
        let answer = Answer::watch(vec![body.to_vec()]);
        let wait = Duration::from_secs(self.rng.random_range(0..20));
        match self.rng.random_range(0..5) {
            0 => answer.then_hang(),
            1 => answer.then_break(wait, ErrorKind::ConnectionReset),
            2 => answer.then_break(wait, ErrorKind::TimedOut),
            _ => answer,
        }
    }

    /// A response without content.
    fn refusal(&mut self) -> Answer {
        let code = *[400, 401, 403, 404, 405, 410, 422, 429, 500, 502, 503, 504]
            .choose(&mut self.rng)
            .expect("some");
        match self.rng.random_range(0..8) {
            0 => Answer::html(code),
            1 => Answer::html(200),
            2 => Answer::refused(),
            3 => Answer::never(),
            4 => Answer::json(429, "").retry_after(1),
            5 => Answer::json(
                504,
                r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 7"}"#,
            ),
            _ => Answer::json(code, &format!(r#"{{"kind":"Status","code":{code}}}"#)),
        }
    }

    /// The body of a response. A hostile one has other lines too, or lacks some.
    fn body(&mut self, asked: &str, is_hostile: bool) -> String {
        if !asked.contains("watch=true") {
            return self.page(asked, is_hostile);
        }
        let mut lines: Vec<String> = if asked.contains("sendInitialEvents") {
            let objects = self.objects.iter();
            objects
                .map(|(name, version)| added(name, *version, "1"))
                .chain([end(self.version)])
                .collect()
        } else {
            let after = parameter(asked, "resourceVersion")
                .parse()
                .expect("a version");
            let changes = self.changes.iter().filter(|it| it.0 > after);
            changes
                .map(|it| it.1.clone())
                .chain([bookmark(self.version)])
                .collect()
        };
        if is_hostile {
            let noise = match self.rng.random_range(0..9) {
                0 => error(410, "Expired"),
                1 => error(500, "InternalError"),
                2 => error(429, "TooManyRequests"),
                3 => {
                    r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{}}}"#.to_owned()
                }
                4 => bookmark(1),
                5 => r#"{"type":"MOVED","object":{"metadata":{"name":"o-1"}}}"#.to_owned(),
                6 => r#"{"type":"ADDED","object":{"kind":"ConfigMap"}}"#.to_owned(),
                7 => "<html>".to_owned(),
                _ => String::new(),
            };
            let at = self.rng.random_range(0..=lines.len());
            match self.rng.random_range(0..4) {
                // A proxy that swallows bookmarks.
                0 => _ = lines.pop(),
                // An event that comes again.
                1 if at > 0 => lines.insert(at, lines[at - 1].clone()),
                _ => lines.insert(at, noise),
            }
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }

    fn page(&mut self, asked: &str, is_hostile: bool) -> String {
        let token = parameter(asked, "continue");
        let (mut version, at) = match token.split_once('-') {
            Some((version, at)) => (version.parse().expect("ours"), at.parse().expect("ours")),
            None => (self.version, 0),
        };
        let current = &self.objects;
        let objects = self
            .lists
            .entry(version)
            .or_insert_with(|| current.clone().into_iter().collect());
        let limit = if asked.contains("limit=1&") || asked.ends_with("limit=1") {
            1
        } else if asked.contains("limit=") {
            2
        } else {
            objects.len()
        };
        let end = objects.len().min(at + limit);
        let items: Vec<(&str, usize)> = objects[at..end].iter().map(|it| (&*it.0, it.1)).collect();
        let next = if end < objects.len() {
            format!("{version}-{end}")
        } else {
            String::new()
        };
        if is_hostile && at > 0 && self.rng.random_bool(0.3) {
            // A server whose pages have the version of their time.
            version = self.version;
        }
        if next.is_empty() {
            list(&version.to_string(), &items)
        } else {
            page(&version.to_string(), &items, &next)
        }
    }
}

/// The value of a parameter of a request, or an empty one.
fn parameter<'a>(asked: &'a str, name: &str) -> &'a str {
    let (_, query) = asked.split_once('?').unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|pair| pair.0 == name).map_or("", |pair| pair.1)
}

#[tokio::test(start_paused = true)]
async fn an_informer_has_the_objects_of_a_server_whose_faults_have_ended() {
    for seed in 0..50 {
        check(seed).await;
    }
}

async fn check(seed: u64) {
    /// A silence of three minutes, and a backoff and a few requests.
    const RECOVERY: Duration = Duration::from_secs(240);

    let hostile = Arc::new(Mutex::new(Hostile::new(seed)));
    let server = Server::new([]).otherwise({
        let hostile = Arc::clone(&hostile);
        move |asked| hostile.lock().expect("no panic").answer(asked)
    });
    let informer = Informer::builder(source(&server).seed(seed));
    let mut wire = Wire::follow(informer.on_error(|_| {}).build(), server);
    let mut known = Objects::new();
    let mut deadline = None;
    loop {
        match timeout(Duration::from_secs(1), wire.next()).await {
            Ok(event) => apply(seed, &mut known, &event),
            Err(_) if hostile.lock().expect("no panic").faults > 0 => {}
            Err(_) => {
                let deadline = *deadline.get_or_insert(Instant::now() + RECOVERY);
                let health = wire.informer.health();
                let (objects, is_watching) = (
                    &hostile.lock().expect("no panic").objects,
                    matches!(health.state, HealthState::Watching),
                );
                if known == *objects && is_watching {
                    break;
                }
                assert!(
                    Instant::now() < deadline,
                    "seed {seed}: the server has {objects:?}, and the subscriber {known:?}; {health}"
                );
            }
        }
    }
    let version = |object: &ConfigMap| object.resource_version()?.parse().ok();
    let stored = wire.informer.store().list();
    let stored: Objects = (stored.iter())
        .map(|object| (object.name_any(), version(object).expect("a number")))
        .collect();
    assert_eq!(stored, known, "seed {seed}");
    assert!(wire.informer.history_went_back().is_none(), "seed {seed}");
}

/// Applies an event to what a subscriber knows, and checks that it continues that.
fn apply(seed: u64, known: &mut Objects, event: &Event<ConfigMap>) {
    let Some(object) = event.object() else { return };
    let (name, version) = (object.name_any(), object.resource_version().expect("one"));
    let version: usize = version.parse().expect("a number");
    match event {
        Event::Added(_) => assert_eq!(known.insert(name, version), None, "seed {seed}: {event:?}"),
        Event::Updated { .. } => {
            let old = known.insert(name, version);
            assert!(
                old.is_some_and(|old| old < version),
                "seed {seed}: {event:?} {old:?}"
            );
        }
        Event::Deleted { .. } => {
            let old = known.remove(&name);
            assert!(
                old.is_some_and(|old| old <= version),
                "seed {seed}: {event:?} {old:?}"
            );
        }
        _ => {}
    }
}

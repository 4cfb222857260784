//! Random ownership: the same creates, deletions and changes of owners leave the same objects on
//! both servers.

use std::collections::BTreeMap;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use super::Collected;
use crate::cluster::{Cluster, number};

/// How many objects there can be, and the number of steps of a sequence.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const STEPS: usize = 12;

const HELD: &str = "ex.io/hold";

/// One request about the config map `name`.
#[derive(Clone, Debug)]
enum Step {
    Create {
        name: &'static str,
        owners: Vec<Owner>,
        is_held: bool,
    },
    Delete {
        name: &'static str,
        policy: Option<&'static str>,
    },
    /// Removes the finalizer of the test.
    Release { name: &'static str },
    /// Replaces the owners.
    Own {
        name: &'static str,
        owners: Vec<Owner>,
    },
}

/// The object of a name that was created as the nth one, which may not exist any more.
#[derive(Clone, Debug)]
struct Owner {
    name: &'static str,
    nth: usize,
    blocks: bool,
}

/// One server, with the uids of all objects that were created.
struct Side {
    server: Collected,
    uids: BTreeMap<&'static str, Vec<String>>,
}

/// Chooses steps, by what there is on the embedded server.
struct Generator {
    random: StdRng,
}

// === impl Side ===

impl Side {
    fn new(server: Collected) -> Self {
        Self {
            server,
            uids: BTreeMap::new(),
        }
    }

    fn references(&self, owners: &[Owner]) -> Value {
        let references = owners.iter().map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name,
                "uid": self.uids[owner.name][owner.nth], "blockOwnerDeletion": owner.blocks,
            })
        });
        references.collect()
    }

    async fn take(&mut self, step: &Step) {
        let raw = &self.server.raw;
        match step {
            Step::Create {
                name,
                owners,
                is_held,
            } => {
                let finalizers: &[&str] = if *is_held { &[HELD] } else { &[] };
                let object = json!({ "metadata": {
                    "name": name, "finalizers": finalizers,
                    "ownerReferences": self.references(owners),
                } });
                let created = raw.post(&raw.maps(), &object).await.ok();
                let uid = created["metadata"]["uid"].as_str().expect("a uid");
                self.uids.entry(name).or_default().push(uid.to_owned());
            }
            Step::Delete { name, policy } => {
                let options = json!({ "propagationPolicy": policy });
                raw.delete_so(&self.server.at(name), &options).await.ok();
            }
            Step::Release { name } => self.release(name).await,
            Step::Own { name, owners } => {
                let change = json!({ "metadata": { "ownerReferences": self.references(owners) } });
                raw.merge(&self.server.at(name), &change).await.ok();
            }
        }
    }

    async fn release(&self, name: &str) {
        let path = self.server.at(name);
        loop {
            let object = self.server.raw.get(&path).await.ok();
            let finalizers = object["metadata"]["finalizers"].as_array();
            let kept = finalizers.into_iter().flatten();
            let kept: Vec<_> = kept.filter(|it| **it != HELD).collect();
            let change = json!({ "metadata": {
                "finalizers": kept, "resourceVersion": object["metadata"]["resourceVersion"],
            } });
            let answer = self.server.raw.merge(&path, &change).await;
            if answer.code != 409 {
                answer.ok();
                return;
            }
        }
    }

    /// Each object, without what differs between servers.
    async fn state(&self) -> Vec<String> {
        let list = self.server.raw.get(&self.server.raw.maps()).await.ok();
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|item| self.shown(&item["metadata"])).collect()
    }

    fn shown(&self, metadata: &Value) -> String {
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners: Vec<_> = owners
            .map(|owner| {
                let blocks = if owner["blockOwnerDeletion"] == true {
                    "!"
                } else {
                    ""
                };
                format!("{}{blocks}", self.identity(owner))
            })
            .collect();
        let ending = if metadata["deletionTimestamp"].is_string() {
            ", deleted"
        } else {
            ""
        };
        let finalizers = match &metadata["finalizers"] {
            Value::Null => String::new(),
            finalizers => format!(", {finalizers}"),
        };
        let itself = self.identity(metadata);
        format!("{itself} of {}{ending}{finalizers}", owners.join(" "))
    }

    /// Such as `a1`, for the second object with the name `a`.
    fn identity(&self, named: &Value) -> String {
        let name = named["name"].as_str().unwrap_or_default();
        let uids = self.uids.get(name);
        let nth = uids.and_then(|uids| uids.iter().position(|uid| named["uid"] == **uid));
        format!(
            "{name}{}",
            nth.map_or("?".to_owned(), |nth| nth.to_string())
        )
    }
}

// === impl Generator ===

impl Generator {
    fn step(&mut self, side: &Side, state: &[String]) -> Step {
        let exists = |name: &str| state.iter().find(|it| it.starts_with(name));
        let name = *NAMES.choose(&mut self.random).expect("there are some");
        let Some(object) = exists(name) else {
            return Step::Create {
                name,
                owners: self.owners(side, state, name),
                is_held: self.random.random_bool(0.25),
            };
        };
        let chosen = self.random.random_range(0..10);
        if chosen >= 2
            && let Some(name) = torn(state, object)
        {
            let owners = Vec::new();
            return Step::Own { name, owners };
        }
        match chosen {
            0..2 => Step::Own {
                name,
                owners: self.owners(side, state, name),
            },
            2..5 if object.contains(HELD) => Step::Release { name },
            _ => {
                let policies = [None, Some("Background"), Some("Foreground"), Some("Orphan")];
                let policy = *policies.choose(&mut self.random).expect("there are some");
                Step::Delete { name, policy }
            }
        }
    }

    /// Up to two owners of `owned`, mostly ones that exist. None depends on `owned` or is being
    /// deleted: the real collector checks such objects at times that depend on chance.
    fn owners(&mut self, side: &Side, state: &[String], owned: &str) -> Vec<Owner> {
        let object = state.iter().find(|it| it.starts_with(owned));
        let dependents = object.map_or(Vec::new(), |object| with_dependents(state, object));
        let mut owners: Vec<Owner> = Vec::new();
        for (name, uids) in &side.uids {
            let is_chosen = owners.len() < 2 && self.random.random_bool(0.4);
            let is_excluded = *name == owned
                || dependents.iter().any(|it| it.starts_with(name))
                || state
                    .iter()
                    .any(|it| it.starts_with(name) && it.contains(", deleted"));
            if !is_chosen || is_excluded {
                continue;
            }
            let newest = uids.len() - 1;
            let nth = if self.random.random_bool(0.9) {
                newest
            } else {
                self.random.random_range(0..=newest)
            };
            owners.push(Owner {
                name,
                nth,
                blocks: self.random.random_bool(0.5),
            });
        }
        owners
    }
}

/// The identity and the owners of an object.
fn parts(object: &str) -> (&str, Vec<&str>) {
    let (identity, rest) = object.split_once(" of ").unwrap_or_default();
    let owners = rest.split(',').next().unwrap_or_default().split(' ');
    let owners = owners.map(|owner| owner.trim_end_matches('!'));
    (identity, owners.collect())
}

/// The identities of `object` and of its dependents, direct or not.
fn with_dependents<'a>(state: &'a [String], object: &'a str) -> Vec<&'a str> {
    let all: Vec<_> = state.iter().map(|it| parts(it)).collect();
    let mut found = vec![parts(object).0];
    while let Some((next, _)) = all.iter().find(|(identity, owners)| {
        !found.contains(identity) && owners.iter().any(|owner| found.contains(owner))
    }) {
        found.push(next);
    }
    found
}

/// A dependent of `object`, direct or not, of which several owners depend on `object` or are it. The
/// real collector checks dependents in a random order, and removes a reference of this one if it
/// comes before another owner of it.
fn torn(state: &[String], object: &str) -> Option<&'static str> {
    let dependents = with_dependents(state, object);
    let torn = state.iter().find(|it| {
        let (identity, owners) = parts(it);
        let owners = owners.iter().filter(|owner| dependents.contains(owner));
        dependents.contains(&identity) && owners.count() > 1
    })?;
    NAMES.into_iter().find(|name| torn.starts_with(name))
}

/// Sends one sequence to the embedded server, and to the server of `cluster` if that is another one.
/// Panics at the first difference.
async fn run(cluster: &Cluster, seed: u64, number: u64) {
    let random = StdRng::seed_from_u64(seed.wrapping_add(number));
    let mut generator = Generator { random };
    let mut embedded = Side::new(Collected::on(&ApiServer::new(), "sequence").await);
    let mut real = None;
    if !cluster.is_embedded() {
        let server = Collected::new(cluster, &format!("-{number}")).await;
        real = Some(Side::new(server));
    }
    let mut sent = Vec::new();
    let mut state = Vec::new();
    for _ in 0..STEPS {
        let step = generator.step(&embedded, &state);
        sent.push(step.clone());
        if let Some(real) = &mut real {
            // The collector must know all objects: otherwise it deletes an owner before it sees
            // the dependent that blocks it.
            real.server.settles().await;
            real.take(&step).await;
        }
        embedded.take(&step).await;
        state = embedded.state().await;
        if let Some(real) = &real {
            wait_until_equal(real, &state, &sent, seed).await;
        }
    }
    if let Some(real) = &real {
        real.server.settles().await;
        wait_until_equal(real, &state, &sent, seed).await;
    }
}

/// Waits until the real server has the same objects.
async fn wait_until_equal(real: &Side, wanted: &[String], sent: &[Step], seed: u64) {
    /// So often the collector has handled everything before.
    const ROUNDS: usize = 20;
    let mut found = real.state().await;
    for _ in 0..ROUNDS {
        if found == wanted {
            return;
        }
        real.server.settles().await;
        found = real.state().await;
    }
    panic!(
        "WINDLASS_SEED={seed}: {sent:#?}\n  the real server: {found:#?}\n  the embedded one: {wanted:#?}"
    );
}

on_both_servers! {
    /// `WINDLASS_SEED` chooses other sequences, `WINDLASS_OWNERSHIPS` says how many are sent.
    ///
    /// docs/apiserver.md: rows 94, 101.
    async fn random_ownership_leaves_the_same_objects(cluster: Cluster) {
        let seed = number("WINDLASS_SEED").unwrap_or(101);
        let sequences = number("WINDLASS_OWNERSHIPS").unwrap_or(5);
        println!("WINDLASS_SEED={seed}");
        for sequence in 0..sequences {
            run(&cluster, seed, sequence).await;
        }
        println!("{sequences} sequences");
    }
}

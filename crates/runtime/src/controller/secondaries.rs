//! `Secondary`: a kind whose changes reconcile objects of the controlled kind.

use std::{collections::HashMap, fmt::Debug, hash::Hash};

use kube::Resource;
use windlass_controller::{AddError, InformerController, Mapper};
use windlass_informer::{DecodeError, Informer, LazyObject, ObjectKey, Stored};

use super::{Controller, key_queue::KeyQueue, primary::Controlled};

/// An informer with its mapper, of any type.
pub(super) struct Secondary<K> {
    name: String,
    add: Box<Add<K>>,
}

/// Adds an informer under a name, with a mapper to the controlled kind.
type Add<K> = dyn FnOnce(&InformerController, &str, &Controlled<K>) -> Result<(), AddError> + Send;

/// A mapper whose keys go to the queue of a controller without a list and watch.
struct ToQueue<M> {
    mapper: M,
    queue: KeyQueue,
}

/// Adds the secondaries to `engine`, each under a name of its own. `controlled` is the controlled kind
/// and its name.
pub(super) fn add_all<K>(
    secondaries: Vec<Secondary<K>>,
    engine: &InformerController,
    (taken, controlled): (&str, &Controlled<K>),
) -> Result<(), AddError> {
    let mut numbers = HashMap::from([(taken.to_owned(), 1_usize)]);
    for Secondary { name, add } in secondaries {
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        let name = match *number {
            1 => name,
            number => format!("{name}-{number}"),
        };
        add(engine, &name, controlled)?;
    }
    Ok(())
}

// === impl Controller ===

impl<K> Controller<K>
where
    K: Clone + Resource + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Adds a kind whose changes reconcile the objects that `mapper` returns.
    pub(super) fn add_secondary<O: Stored>(
        &mut self,
        name: String,
        informer: Informer<O>,
        mapper: impl Mapper<O>,
    ) {
        let queue = self.primary.queue().cloned();
        self.secondaries.push(Secondary {
            name,
            add: Box::new(move |engine, name, controlled| {
                let kind = engine.kind::<O>(name)?;
                engine.add_informer(&kind, &informer)?;
                match (queue, controlled) {
                    (Some(queue), Controlled::Keys(to)) => {
                        let mapper = ToQueue { mapper, queue };
                        engine.add_mapper::<O, O, _>(&kind, to, mapper)?;
                    }
                    (_, Controlled::Objects(to)) => {
                        engine.add_mapper::<O, O, _>(&kind, to, mapper)?;
                    }
                    // A controller with keys has a queue.
                    (None, Controlled::Keys(_)) => {}
                }
                Ok(())
            }),
        });
    }
}

// === impl ToQueue ===

impl<O, M: Mapper<O>> Mapper<O> for ToQueue<M> {
    fn keys(&self, object: &O) -> impl IntoIterator<Item = ObjectKey> {
        self.queue.touch(self.mapper.keys(object));
        None
    }

    fn keys_before(&self, old: &LazyObject<O>) -> Result<Vec<ObjectKey>, DecodeError>
    where
        O: Send + Sync + 'static,
    {
        self.queue.touch(self.mapper.keys_before(old)?);
        Ok(Vec::new())
    }
}

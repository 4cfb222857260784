//! The memory of each parent: the state of its children after the last call, while the parent exists.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use windlass_controller::children::ChildMemory;

/// The memories of all parents, by uid.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<String, Arc<Mutex<ChildMemory>>>>);

// === impl Memories ===

impl Memories {
    pub(crate) fn of(&self, uid: &str) -> Arc<Mutex<ChildMemory>> {
        let mut memories = self.0.lock();
        if let Some(memory) = memories.get(uid) {
            return Arc::clone(memory);
        }
        let memory = Arc::new(Mutex::new(ChildMemory::new()));
        memories.insert(uid.to_owned(), Arc::clone(&memory));
        memory
    }

    /// Forgets a parent that does not exist any more.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

//! Delete: an object goes, at once or when its finalizers are gone.

use std::sync::Arc;

use super::{Cluster, DEFINITIONS, NAMESPACES};
use crate::metadata;
use crate::registry::Resource;
use crate::selector::Selector;
use crate::status::{About, Status};
use crate::store::{Key, Stored, Table};
use crate::wire::DeleteOptions;

/// What became of an object that was deleted.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It waits for its finalizers.
    Dying(Arc<Stored>),
}

// === impl Deleted ===

impl Deleted {
    fn object(self) -> Arc<Stored> {
        match self {
            Self::Gone(object) | Self::Dying(object) => object,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Deletes the object at `key`.
    ///
    /// # Errors
    ///
    /// 404 if there is none, 409 if it isn't the one that is meant, 403 for a namespace
    /// that every cluster has.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<Deleted, Status> {
        let object = self.get(resource, key)?.clone();
        check_preconditions(resource, &object, options)?;
        if &*resource.table == NAMESPACES {
            check_namespace(resource, &key.name)?;
        }
        let deleted = if options.dry_run {
            if object.has_finalizers() {
                let mut value = object.value().clone();
                metadata::mark_dying(&mut value, now);
                Deleted::Dying(Arc::new(Stored::unsaved(value)))
            } else {
                Deleted::Gone(object)
            }
        } else if &*resource.table == NAMESPACES {
            self.end_namespace(key, &object, now)
        } else if &*resource.table == DEFINITIONS {
            self.end_definition(key, &object, now)
        } else {
            self.end(&resource.table, key, &object, now)
        };
        self.settle();
        Ok(deleted)
    }

    /// Deletes the objects that `selector` means, up to `limit` of them if it isn't 0,
    /// and gives them.
    pub(crate) fn delete_collection(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: &Selector,
        limit: usize,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        let keys: Vec<Key> = self
            .store
            .objects(&resource.table)
            .filter(|(key, object)| {
                namespace.is_none_or(|namespace| &*key.namespace == namespace)
                    && selector.matches(object.value())
            })
            .map(|(key, _)| key.clone())
            .take(if limit == 0 { usize::MAX } else { limit })
            .collect();
        let mut objects = Vec::with_capacity(keys.len());
        for key in keys {
            match self.delete(resource, &key, options, now) {
                Ok(deleted) => objects.push(deleted.object()),
                // It went along with another one.
                Err(status) if status.code() == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(objects)
    }

    /// Takes an object away, or marks it as dying if it has finalizers.
    pub(super) fn end(
        &mut self,
        table: &Table,
        key: &Key,
        object: &Arc<Stored>,
        now: &str,
    ) -> Deleted {
        if !object.has_finalizers() {
            let last = self.store.remove(table, key);
            return Deleted::Gone(last.unwrap_or_else(|| object.clone()));
        }
        let mut value = object.value().clone();
        if metadata::mark_dying(&mut value, now) {
            Deleted::Dying(self.store.put(table, key, value, object.schema()))
        } else {
            Deleted::Dying(object.clone())
        }
    }
}

fn check_preconditions(
    resource: &Resource,
    object: &Stored,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let name = object
        .metadata("name")
        .and_then(|name| name.as_str())
        .unwrap_or_default();
    // Kubernetes names the kind here where it otherwise names the resource.
    let about = About {
        resource: &resource.info.kind,
        ..resource.about(name)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != object.uid()) {
        let detail = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object \
             might have been deleted and then recreated",
            object.uid()
        );
        return Err(Status::conflict(&about, &detail));
    }
    let current = object.revision().to_string();
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|wanted| *wanted != current)
    {
        let detail = format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({current}). The object might have been modified"
        );
        return Err(Status::conflict(&about, &detail));
    }
    Ok(())
}

fn check_namespace(resource: &Resource, name: &str) -> Result<(), Status> {
    if matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(
            &resource.about(name),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

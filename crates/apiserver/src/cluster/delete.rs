//! The verb delete: removes an object immediately, or after its finalizers were removed.

use std::sync::Arc;

use serde_json::Value;

use super::pods::{self, PODS};
use super::strategy::PRIORITY_CLASSES;
use super::{Cluster, DEFINITIONS, NAMESPACES, Page, initial, key_of, namespaces};
use crate::metadata;
use crate::registry::{DefaultPropagation, Resource};
use crate::status::{About, Status};
use crate::store::{FOREGROUND, Key, ORPHAN, Stored, Table};
use crate::wire::{DeleteOptions, ListOptions, Propagation};

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object was removed. Contains its last state.
    Gone(Arc<Stored>),
    /// The object is terminating, and waits for its finalizers.
    Dying(Arc<Stored>),
}

// === impl Cluster ===

impl Cluster {
    /// Deletes the object at `key`.
    ///
    /// # Errors
    ///
    /// 404 if it does not exist, 409 if a precondition fails, 403 for a namespace that every
    /// cluster has.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<Deleted, Status> {
        let object = self.get(resource, key)?.clone();
        check_preconditions(resource, &object, options)?;
        check_needed(resource, &key.name)?;
        let options = &DeleteOptions {
            propagation: propagation(resource, &object, options),
            ..options.clone()
        };
        let deleted = if options.dry_run && &*resource.table == NAMESPACES {
            Deleted::Dying(Arc::new(Stored::unsaved(namespaces::terminating(
                &object, options, now,
            ))))
        } else if &*resource.table == PODS
            && let Some(stopping) = pods::stopping(&object, options, now)
        {
            if options.dry_run {
                Deleted::Dying(Arc::new(Stored::unsaved(stopping)))
            } else if stopping == *object.value() {
                Deleted::Dying(object)
            } else {
                Deleted::Dying(self.store.put(&resource.table, key, stopping, 0))
            }
        } else if options.dry_run {
            let finalizers = finalizers_of_deletion(&object, options);
            if finalizers.is_empty() {
                let is_pod = &*resource.table == PODS;
                let marked = is_pod
                    .then(|| pods::marked(&object, options, now))
                    .flatten();
                Deleted::Gone(match marked {
                    Some(marked) => Arc::new(Stored::unsaved(marked)),
                    None => object,
                })
            } else {
                let mut value = object.value().clone();
                metadata::mark_dying(&mut value, now);
                metadata::of(&mut value).insert("finalizers".to_owned(), finalizers.into());
                Deleted::Dying(Arc::new(Stored::unsaved(value)))
            }
        } else if &*resource.table == NAMESPACES {
            self.end_namespace(key, &object, options, now)
        } else if &*resource.table == DEFINITIONS {
            self.end_definition(key, &object, now)
        } else {
            self.end(&resource.table, key, &object, options, now)
        };
        Ok(deleted)
    }

    /// Deletes the objects of the list that `list` requests, and returns the list before the
    /// deletion.
    ///
    /// # Errors
    ///
    /// The errors of the list, and those of [`delete`](Self::delete) except 404.
    pub(crate) fn delete_collection(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<Page, Status> {
        let page = self.list(resource, namespace, list)?;
        for object in &page.items {
            let key = key_of(resource, object.value());
            match self.delete(resource, &key, options, now) {
                // The list can be of an earlier version.
                Err(status) if status.code() != 404 => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(page)
    }

    /// Removes an object, or marks it for deletion if it has finalizers or if its dependents
    /// require a finalizer.
    pub(super) fn end(
        &mut self,
        table: &Table,
        key: &Key,
        object: &Arc<Stored>,
        options: &DeleteOptions,
        now: &str,
    ) -> Deleted {
        let finalizers = finalizers_of_deletion(object, options);
        if finalizers.is_empty() {
            // A pod is marked for deletion first, even without finalizers and a grace period.
            if &**table == PODS
                && let Some(marked) = pods::marked(object, options, now)
            {
                self.store.put(table, key, marked, object.schema());
            }
            let last = self.store.remove(table, key);
            return Deleted::Gone(last.unwrap_or_else(|| object.clone()));
        }
        let mut value = object.value().clone();
        let is_new = metadata::mark_dying(&mut value, now);
        metadata::of(&mut value).insert("finalizers".to_owned(), finalizers.into());
        if is_new || value != *object.value() {
            Deleted::Dying(self.store.put(table, key, value, object.schema()))
        } else {
            Deleted::Dying(object.clone())
        }
    }
}

/// The propagation policy of the request; or else that of the object's finalizers; or else that of
/// its kind.
fn propagation(
    resource: &Resource,
    object: &Stored,
    options: &DeleteOptions,
) -> Option<Propagation> {
    let own = || own_propagation(finalizers(object));
    match resource.rules.default_propagation {
        DefaultPropagation::Background => options.propagation,
        DefaultPropagation::Orphan => {
            let policy = options.propagation.or_else(own);
            policy.or(Some(Propagation::Orphan))
        }
        DefaultPropagation::Unsupported => Some(Propagation::Background),
    }
}

fn finalizers(object: &Stored) -> &[Value] {
    let list = object.metadata("finalizers").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The propagation policy in the finalizers of an object.
fn own_propagation(finalizers: &[Value]) -> Option<Propagation> {
    let mut finalizers = finalizers.iter();
    finalizers.find_map(|finalizer| match finalizer.as_str() {
        Some(ORPHAN) => Some(Propagation::Orphan),
        Some(FOREGROUND) => Some(Propagation::Foreground),
        _ => None,
    })
}

/// The finalizers of a terminating object: its own, and one for the propagation policy. Without a
/// policy in the request, the object keeps its policy.
pub(super) fn finalizers_of_deletion(object: &Stored, options: &DeleteOptions) -> Vec<Value> {
    let before = finalizers(object);
    let wanted = match options.propagation.or_else(|| own_propagation(before)) {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) | None => None,
    };
    let others = before
        .iter()
        .filter(|it| *it != ORPHAN && *it != FOREGROUND);
    let finalizers: Vec<_> = others.cloned().chain(wanted.map(Value::from)).collect();
    let is_same = finalizers.len() == before.len()
        && finalizers
            .iter()
            .all(|finalizer| before.contains(finalizer));
    if is_same { before.to_vec() } else { finalizers }
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
    let current = object.revision().to_string();
    if &*resource.table == NAMESPACES {
        // Namespaces have a check of their own.
        for (field, wanted, found) in [
            ("UID", options.uid.as_deref(), object.uid()),
            (
                "ResourceVersion",
                options.resource_version.as_deref(),
                &current,
            ),
        ] {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                let detail = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object \
                     meta: {found}"
                );
                return Err(Status::conflict(&resource.about(name), &detail));
            }
        }
    }
    // In this error, Kubernetes shows the kind instead of the resource.
    let about = About {
        resource: &resource.info.kind,
        ..resource.about_contents(name)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != object.uid()) {
        let detail = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object \
             might have been deleted and then recreated",
            object.uid()
        );
        return Err(Status::conflict(&about, &detail));
    }
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

/// Rejects the deletion of objects that every cluster needs.
fn check_needed(resource: &Resource, name: &str) -> Result<(), Status> {
    let why = match (&*resource.table, name) {
        (NAMESPACES, "default" | "kube-system" | "kube-public") => {
            "this namespace may not be deleted"
        }
        (PRIORITY_CLASSES, name) if initial::is_system_class(name) => {
            "this is a system priority class and cannot be deleted"
        }
        _ => return Ok(()),
    };
    Err(Status::forbidden(&resource.about(name), why))
}

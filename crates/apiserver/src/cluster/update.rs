//! The verbs update and patch: change an existing object. For some kinds, an update creates a
//! missing object.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{self, Decoded};
use super::strategy;
use super::{Cluster, DEFINITIONS, NAMESPACES, Written, create, ownership, pods, size};
use crate::metadata::{self, unqualified_finalizers, validate};
use crate::patch::Patch;
use crate::registry::{Definition, Generation, Resource};
use crate::status::{FieldError, Status};
use crate::store::{Key, Stored};
use crate::typed;
use crate::wire::WriteOptions;

mod identity;
mod part;

use self::identity::{check_kind, wrong_uid};
pub(super) use self::identity::{check_name, sent_version};
pub(crate) use self::part::Part;
use self::part::{check_part, limit_to};

/// The result of a write that creates a missing object.
#[derive(Debug)]
pub(crate) enum Upsert {
    /// The object is new.
    Created(Written),
    /// The object existed before.
    Updated(Written),
}

// === impl Cluster ===

impl Cluster {
    /// Replaces the object at `key` with the object in `body`, or creates it if the kind allows
    /// this.
    ///
    /// # Errors
    ///
    /// 400, 404, 409 or 422.
    pub(crate) fn update(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        body: Value,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Upsert, Status> {
        let namespace = resource.info.namespaced.then_some(&*key.namespace);
        let decoded = decode::decode(resource, namespace, body, options)?;
        let warnings = decoded.warnings.clone();
        let updated = self.update_decoded(resource, key, part, decoded, options, now);
        updated.map_err(|status| match status.warnings() {
            [] => status.with_warnings(warnings),
            _ => status,
        })
    }

    fn update_decoded(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        mut decoded: Decoded,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Upsert, Status> {
        let namespace = resource.info.namespaced.then_some(&*key.namespace);
        let object = &decoded.object;
        check_name(key, object)?;
        let old = match self.current(resource, key) {
            Ok(old) => old,
            Err(_) if part == Part::Main && resource.rules.creates_on_update => {
                let uid = metadata::text(object, "uid");
                if !uid.is_empty() {
                    return Err(wrong_uid(resource, key, options.dry_run, [uid, ""]));
                }
                // The resourceVersion of the request is no precondition for the creation of a
                // missing object.
                metadata::of(&mut decoded.object).remove("resourceVersion");
                create::own_new(resource, &mut decoded, options, now);
                let added = self.add(resource, namespace, decoded, options, now)?;
                return Ok(Upsert::Created(added));
            }
            Err(status) => return Err(status.with_warnings(decoded.warnings)),
        };
        let about = resource.about(&key.name);
        let uid = metadata::text(&decoded.object, "uid");
        if !uid.is_empty() && uid != old.uid() {
            return Err(wrong_uid(resource, key, options.dry_run, [uid, old.uid()]));
        }
        match sent_version(&decoded.object)? {
            None | Some(0) if resource.rules.unconditional_update => {}
            None | Some(0) => {
                return Err(Status::version_missing(&about));
            }
            Some(version) if version != old.revision() => {
                return Err(Status::modified(&about));
            }
            Some(_) => {}
        }
        let duplicates = metadata::drop_duplicate_owners(&mut decoded.object, false);
        decoded.warnings.extend(duplicates);
        ownership::track(
            resource,
            part,
            old.value(),
            &mut decoded.object,
            options,
            now,
        );
        let written = self.replace(resource, key, part, &old, decoded, options, now)?;
        Ok(Upsert::Updated(written))
    }

    /// Applies `patch` to the object at `key`.
    ///
    /// # Errors
    ///
    /// 400, 404, 409 or 422.
    pub(crate) fn patch(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        patch: &Patch,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let old = self.current(resource, key)?;
        let mut object = resource.present(old.value());
        patch.apply(&mut object, resource.typed())?;
        check_kind(resource, patch, &mut object)?;
        let namespace = resource.info.namespaced.then_some(&*key.namespace);
        let decoded = decode::decode(resource, namespace, object, options);
        let decoded = decoded.map_err(|status| {
            // The patch is applied again for the error message, because this error is rare.
            let mut object = resource.present(old.value());
            match decode::unhandled(resource, &status) {
                Some(why) if patch.apply(&mut object, resource.typed()).is_ok() => {
                    Status::patch_invalid(&patch.shown(&object), &patch.type_fault(why))
                }
                _ => status,
            }
        })?;
        check_name(key, &decoded.object)
            .map_err(|status| status.with_warnings(decoded.warnings.clone()))?;
        let version = sent_version(&decoded.object)?.unwrap_or_default();
        let about = resource.about(&key.name);
        if version == 0 && !resource.rules.unconditional_update {
            return Err(Status::version_missing(&about).with_warnings(decoded.warnings));
        }
        if version != 0 && version != old.revision() {
            return Err(Status::modified(&about).with_warnings(decoded.warnings));
        }
        let mut decoded = decoded;
        let duplicates = metadata::drop_duplicate_owners(&mut decoded.object, true);
        decoded.warnings.extend(duplicates);
        ownership::track(
            resource,
            part,
            old.value(),
            &mut decoded.object,
            options,
            now,
        );
        self.replace(resource, key, part, &old, decoded, options, now)
    }

    /// Replaces `old` with a decoded object whose ownership has been tracked.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parameters of every write, the old state and the new one"
    )]
    pub(super) fn replace(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        old: &Arc<Stored>,
        decoded: Decoded,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let warnings = decoded.warnings.clone();
        let replaced = self.replace_decoded(resource, key, part, old, decoded, options, now);
        replaced.map_err(|status| status.with_warnings(warnings))
    }

    #[expect(clippy::too_many_arguments, reason = "as for `replace`")]
    fn replace_decoded(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        old: &Arc<Stored>,
        decoded: Decoded,
        options: &WriteOptions,
        now: &str,
    ) -> Result<Written, Status> {
        let Decoded {
            object,
            mut warnings,
        } = decoded;
        let before = old.value();
        let mut object = limit_to(part, resource, before, object);
        if &*resource.table == DEFINITIONS && part == Part::Main {
            Definition::add_storage_version(&mut object);
        }
        strategy::prepare_update(resource, part, before, &mut object, now);
        let mut errors = metadata::carry_over(&mut object, before);
        ownership::keep_times(&mut object, before);
        errors.extend(self.check_change(resource, part, old, &mut object));
        if errors.is_empty() && part == Part::Main {
            errors = self.allocate(resource, &mut object, Some(before));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(
                &resource.about_contents(&key.name),
                &errors,
            ));
        }
        if let Some(kind) = resource.stored_type().filter(|_| part == Part::Main) {
            warnings.extend(typed::warnings(kind.name, &object, Some(before)));
        }
        if !old.is_terminating() {
            self.check_limits(resource, part, false, &object)?;
        }
        size::limit(resource, key, &mut object, options)?;
        let states = [Some(before), Some(&object)];
        self.charge_quotas(resource, part, states, options.dry_run, now)?;
        if !matches!(part, Part::Status | Part::Approval) {
            bump_generation(resource, before, &mut object);
        }
        if resource.info.custom && part == Part::Main {
            warnings.extend(unqualified_finalizers(&object));
        }
        // An object that was stored with another schema is written even if nothing else changes, as
        // on the real server.
        let stored = self.get(resource, key)?;
        if object == *stored.value() {
            return Ok(Written {
                object: stored.clone(),
                warnings,
            });
        }
        if options.dry_run {
            return Ok(Written {
                object: Arc::new(Stored::unsaved(object)),
                warnings,
            });
        }
        if old.is_terminating()
            && metadata::is_unfinalized(&object)
            && &*resource.table != NAMESPACES
            && !pods::is_stopping(before)
        {
            // The state without finalizers is never stored: watchers receive the deletion with the
            // state that was stored last.
            self.store.remove(&resource.table, key);
            self.forget_definition(resource, key);
            return Ok(Written {
                object: Arc::new(Stored::unsaved(object)),
                warnings,
            });
        }
        let object = self.put(resource, key, object);
        if &*resource.table == DEFINITIONS {
            self.accept_names(key, now);
            self.serve(key);
        }
        Ok(Written { object, warnings })
    }

    /// Validates an object that replaces `old`.
    fn check_change(
        &self,
        resource: &Resource,
        part: Part,
        old: &Stored,
        object: &mut Value,
    ) -> Vec<FieldError> {
        let before = old.value();
        let mut errors = validate(object, resource.rules.names, resource.rules.finalizers);
        if old.is_terminating() {
            errors.extend(metadata::new_finalizers(object, before));
        }
        errors.extend(decode::check_schema(resource, part, Some(before), object));
        if let Some(kind) = resource.stored_type().filter(|_| part == Part::Main) {
            errors.extend(typed::validate_update(kind.name, before, object));
        }
        if let Some(kind) = resource.stored_type().filter(|_| part == Part::Status) {
            errors.extend(typed::validate_status(kind.name, before, object));
        }
        if &*resource.table == DEFINITIONS && part == Part::Main {
            errors.extend(Definition::validate(object, &self.pattern_memory));
            errors.extend(Definition::of(before).frozen(object));
            errors.extend(Definition::of(object).dropped_versions());
        }
        errors.extend(check_part(part, resource, before, object));
        errors
    }
}

fn bump_generation(resource: &Resource, before: &Value, object: &mut Value) {
    let changed = match resource.rules.generation {
        Generation::None => false,
        Generation::Spec => before.get("spec") != object.get("spec"),
        Generation::Content => {
            let own_status = resource.has_subresource("status");
            let content = |object: &Value| {
                let members = object.as_object().into_iter().flatten();
                members
                    .filter(|(field, _)| {
                        *field != "metadata" && !(own_status && *field == "status")
                    })
                    .map(|(field, value)| (field.clone(), value.clone()))
                    .collect::<serde_json::Map<_, _>>()
            };
            content(before) != content(object)
        }
    };
    let metadata_changed = resource.rules.counted_metadata.is_some_and(|field| {
        let field = format!("/metadata/{field}");
        before.pointer(&field) != object.pointer(&field)
    });
    if changed || metadata_changed {
        let generation = metadata::field(before, "generation").and_then(Value::as_i64);
        metadata::of(object).insert(
            "generation".to_owned(),
            (generation.unwrap_or_default() + 1).into(),
        );
    }
}

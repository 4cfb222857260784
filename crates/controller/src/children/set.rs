//! `CheckedChild` and `CheckedChildren`: children that were checked before one of them is written.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_informer::{LazyObject, ObjectKey};

use super::{
    Applied, ChildError, ChildKind, ChildMemory, ChildObject, Children, Contention, Desired,
    InvalidChild, Parent, desired::Prepared, memory::ChildId, plan::is_marked,
};

/// A valid child that a parent should have. Created by [`Parent::check_one`].
#[derive(Clone, Debug)]
pub struct CheckedChild {
    pub(super) kind: ChildKind,
    pub(super) desired: Prepared,
}

/// The children that a parent should have. All of them are valid. Created by [`Parent::check`].
#[derive(Debug, Default)]
pub struct CheckedChildren {
    children: Vec<CheckedChild>,
    known: ChildKeys,
}

/// The resources and keys of children.
pub type ChildKeys = HashSet<(String, ObjectKey)>;

/// The result of [`Children::apply_all`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AllApplied {
    /// The errors, one for each child that was not applied.
    pub errors: Vec<ChildError>,
    /// The children that another writer reverts. Pass them to `Context::report_contention`.
    pub contended: Vec<Contention>,
    /// The time after which the first of the children has to be applied again.
    pub repeat_after: Option<Duration>,
}

// === impl Parent ===

impl Parent {
    /// Checks all `desired` children of this parent. Each needs a name of its own.
    ///
    /// # Errors
    ///
    /// [`ChildError::Invalid`] for the first invalid child, or one that is desired twice.
    pub fn check<C>(
        &self,
        desired: impl IntoIterator<Item = (ChildKind, Desired<C>)>,
    ) -> Result<CheckedChildren, ChildError> {
        let mut checked = CheckedChildren::default();
        for (kind, desired) in desired {
            if !desired.has_name() {
                return Err(ChildError::Invalid {
                    resource: kind.resource(),
                    name: "without a name".to_owned(),
                    source: InvalidChild::NoName,
                });
            }
            let child = self.check_one(&kind, desired, &mut checked.known)?;
            checked.children.push(child);
        }
        Ok(checked)
    }

    /// Checks one desired child of this parent, which must not be `known`, and adds it to these.
    ///
    /// # Errors
    ///
    /// [`ChildError::Invalid`] if it is invalid, or desired twice.
    pub fn check_one<C>(
        &self,
        kind: &ChildKind,
        desired: Desired<C>,
        known: &mut ChildKeys,
    ) -> Result<CheckedChild, ChildError> {
        let desired = desired.prepare(self, kind)?;
        self.check_new(kind, &desired.key, known)?;
        let kind = kind.clone();
        Ok(CheckedChild { kind, desired })
    }

    /// Adds a child to the `known` ones.
    ///
    /// # Errors
    ///
    /// [`ChildError::Invalid`] if it is known.
    pub fn check_new(
        &self,
        kind: &ChildKind,
        key: &ObjectKey,
        known: &mut ChildKeys,
    ) -> Result<(), ChildError> {
        if known.insert((kind.resource(), key.clone())) {
            return Ok(());
        }
        Err(ChildError::Invalid {
            resource: kind.resource(),
            name: key.to_string(),
            source: InvalidChild::Twice,
        })
    }
}

// === impl CheckedChild ===

impl CheckedChild {
    /// The namespace and name.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.desired.key
    }

    fn id(&self) -> ChildId {
        ChildId {
            resource: self.kind.resource(),
            key: self.key().clone(),
        }
    }

    /// The labels.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let labels = self.desired.body.pointer("/metadata/labels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    }

    /// The child, as it would be sent. `None` if it has too few fields to decode.
    #[must_use]
    pub fn unsent<C: DeserializeOwned>(&self) -> Option<C> {
        serde_json::from_value(self.desired.body.clone()).ok()
    }
}

// === impl CheckedChildren ===

impl CheckedChildren {
    /// Whether there is a child of `kind` with this key.
    #[must_use]
    pub fn contains(&self, kind: &ChildKind, key: &ObjectKey) -> bool {
        self.known.contains(&(kind.resource(), key.clone()))
    }
}

// === impl Children ===

impl Children {
    /// Whether an existing child with this metadata was not updated to its desired state. Only for
    /// children that are marked with the digest of their desired state. Another writer can remove the
    /// mark: in the process that has applied the child, its memory counts as well.
    #[must_use]
    pub fn is_outdated(&self, child: &CheckedChild, metadata: &ObjectMeta) -> bool {
        let is_applied = || {
            let memory = self.memory.lock();
            memory.get(&child.id()).is_some_and(|last| {
                last.desired == child.desired.digest && metadata.uid.as_ref() == Some(&last.uid)
            })
        };
        metadata.deletion_timestamp.is_none()
            && !is_marked(&child.desired, metadata)
            && !is_applied()
    }

    /// Whether the last apply of a child was that of another desired state.
    pub(crate) fn was_applied_differently(&self, child: &CheckedChild) -> bool {
        let memory = self.memory.lock();
        let last = memory.get(&child.id());
        last.is_some_and(|last| last.desired != child.desired.digest)
    }

    /// Whether `metadata` is of a state from before the last apply of the child.
    pub(crate) fn is_behind(&self, child: &CheckedChild, metadata: &ObjectMeta) -> bool {
        let memory = self.memory.lock();
        let (uid, version) = (
            metadata.uid.as_deref(),
            metadata.resource_version.as_deref(),
        );
        let known = memory.get(&child.id()).zip(uid).zip(version);
        known.is_some_and(|((last, uid), version)| ChildMemory::is_newer(last, uid, version))
    }

    /// Applies the children in their order. An error of one does not prevent the others. `stored`
    /// returns the object of a kind with a key, as the store has it.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, any of the children may be written.
    pub async fn apply_all<C: ChildObject>(
        &self,
        checked: &CheckedChildren,
        stored: impl Fn(&ChildKind, &ObjectKey) -> Option<LazyObject<C>>,
    ) -> AllApplied {
        let mut all = AllApplied::default();
        for child in &checked.children {
            let stored = stored(&child.kind, child.key());
            let applied: Result<Applied<C>, _> = self.apply(child, stored).await;
            match applied {
                Err(error) => all.errors.push(error),
                Ok(applied) => {
                    let delays = [all.repeat_after, applied.repeat_after];
                    all.repeat_after = delays.into_iter().flatten().min();
                    all.contended.extend(applied.contention);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::api::{ApiResource, DynamicObject};
    use serde_json::{Value, json};

    use super::*;

    /// Checks config maps and secrets with this metadata, for a parent in `shop`.
    fn check(metadata: &[(&str, Value)]) -> Result<CheckedChildren, String> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("blog".into());
        map.metadata.namespace = Some("shop".into());
        map.metadata.uid = Some("u-1".into());
        let parent = Parent::of(&map, &(), "websites").expect("it has a uid");
        let desired = metadata.iter().map(|(kind, metadata)| {
            let types = match *kind {
                "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
                _ => ApiResource::erase::<Secret>(&()),
            };
            let object = json!({ "metadata": metadata });
            let kind = ChildKind::of::<DynamicObject>(&types);
            (kind, Desired::<DynamicObject>::json(object))
        });
        parent.check(desired).map_err(|error| error.to_string())
    }

    /// Rows: RO-31, RO-38
    #[test]
    fn each_child_has_a_name_of_its_own_within_its_kind() {
        let web = json!({ "name": "web" });
        let both = check(&[("ConfigMap", web.clone()), ("Secret", web.clone())]);
        let key = ObjectKey::new("web").within("shop");
        let both = both.expect("two kinds");
        let kind = ChildKind::of::<Secret>(&());
        assert!(both.contains(&kind, &key));
        assert!(!both.contains(&kind, &ObjectKey::new("web")));

        let twice = [
            ("Secret", web.clone()),
            ("Secret", json!({ "name": "web", "namespace": "shop" })),
        ];
        let twice = check(&twice).expect_err("the same child twice");
        assert_eq!(
            twice,
            "the desired child secrets shop/web is invalid: it is desired twice"
        );
        for unnamed in [json!({}), json!({ "generateName": "web-" }), Value::Null] {
            let unnamed = check(&[("Secret", web.clone()), ("ConfigMap", unnamed)])
                .expect_err("a child without a name");
            assert!(unnamed.contains("configmaps without a name"), "{unnamed}");
            assert!(unnamed.contains("it needs a name"), "{unnamed}");
        }
    }
}

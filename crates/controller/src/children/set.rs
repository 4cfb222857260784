//! `CheckedChildren`: all children of a parent, checked together before one of them is written.

use std::{collections::HashSet, time::Duration};

use windlass_informer::{LazyObject, ObjectKey};

use super::{
    Applied, ChildError, ChildKind, ChildObject, ChildOutcome, Children, Contention, Desired,
    InvalidChild, Parent, desired::Prepared,
};

/// The children that a parent should have. All of them are valid. Created by [`Parent::check`].
#[derive(Debug, Default)]
pub struct CheckedChildren {
    children: Vec<(ChildKind, Prepared)>,
}

/// The result of [`Children::apply_all`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AllApplied {
    /// The errors, one for each child that was not applied.
    pub errors: Vec<ChildError>,
    /// The children that another writer reverts. Pass them to `Context::report_contention`.
    pub contended: Vec<Contention>,
    /// The time after which the first of the delayed children has to be applied.
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
        let mut known = HashSet::new();
        for (kind, desired) in desired {
            let invalid = |name, source| ChildError::Invalid {
                resource: kind.resource(),
                name,
                source,
            };
            if !desired.has_name() {
                return Err(invalid("without a name".to_owned(), InvalidChild::NoName));
            }
            let child = desired.prepare(self, &kind)?;
            if !known.insert((kind.resource(), child.key.clone())) {
                return Err(invalid(child.key.to_string(), InvalidChild::Twice));
            }
            checked.children.push((kind, child));
        }
        Ok(checked)
    }
}

// === impl CheckedChildren ===

impl CheckedChildren {
    /// Whether there is a child of `kind` with this key.
    #[must_use]
    pub fn contains(&self, kind: &ChildKind, key: &ObjectKey) -> bool {
        let is = |(of, child): &(ChildKind, Prepared)| of == kind && child.key == *key;
        self.children.iter().any(is)
    }
}

// === impl Children ===

impl Children {
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
        for (kind, child) in &checked.children {
            let stored = stored(kind, &child.key);
            let applied: Result<Applied<C>, _> = self.apply_prepared(kind, child, stored).await;
            match applied {
                Err(error) => all.errors.push(error),
                Ok(applied) => {
                    if let ChildOutcome::Delayed(wait) = applied.outcome {
                        let first = all.repeat_after.map_or(wait, |it| it.min(wait));
                        all.repeat_after = Some(first);
                    }
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

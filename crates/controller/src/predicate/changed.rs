//! Predicates about the changed part of an object.

use kube::Resource;
use windlass_informer::{Event, ObjectIdentity as _};

use super::Predicate;

/// Passes updates with another generation, other finalizers, or a new deletion mark. Rejects
/// updates that only change the status, labels or other metadata.
///
/// Passes all other events, also resyncs: an unchanged object is only dispatched again because its
/// resync period has passed or because a [`Mapper`](crate::Mapper) returned its key.
///
/// Passes all updates of objects without a generation, for example `ConfigMap`s.
///
/// Source: controller-runtime, `predicate.GenerationChangedPredicate`, which also rejects changed
/// finalizers, and all updates of objects without a generation.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenerationChanged;

/// Passes updates with changed labels, and all other events.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelsChanged;

/// Passes updates with changed annotations, and all other events.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotationsChanged;

/// Passes all events with a new version: updates, creations and deletions, and no resyncs.
///
/// A resync for a [`Mapper`](crate::Mapper) has no new version either, so a handler with this
/// predicate does not receive it.
///
/// Source: controller-runtime, `predicate.ResourceVersionChangedPredicate`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceVersionChanged;

// === impl Predicate ===

impl<K: Resource> Predicate<K> for GenerationChanged {
    fn passes(&self, event: &Event<K>) -> bool {
        let Event::Updated { old, new } = event else {
            return true;
        };
        let (old, new) = (old.metadata(), new.meta());
        new.generation.is_none()
            || old.generation != new.generation
            || old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
            || !same(old.finalizers.as_ref(), new.finalizers.as_ref())
    }
}

impl<K: Resource> Predicate<K> for LabelsChanged {
    fn passes(&self, event: &Event<K>) -> bool {
        let Event::Updated { old, new } = event else {
            return true;
        };
        !same(old.metadata().labels.as_ref(), new.meta().labels.as_ref())
    }
}

impl<K: Resource> Predicate<K> for AnnotationsChanged {
    fn passes(&self, event: &Event<K>) -> bool {
        let Event::Updated { old, new } = event else {
            return true;
        };
        let (old, new) = (old.metadata(), new.meta());
        !same(old.annotations.as_ref(), new.annotations.as_ref())
    }
}

impl<K: Resource> Predicate<K> for ResourceVersionChanged {
    fn passes(&self, event: &Event<K>) -> bool {
        match event {
            Event::Updated { old, new } => {
                old.resource_version() != new.meta().resource_version.as_deref()
            }
            Event::Resynced(_) => false,
            _ => true,
        }
    }
}

/// Whether the two are equal. `None` equals an empty value.
fn same<T: Default + PartialEq>(old: Option<&T>, new: Option<&T>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => old == new,
        (Some(it), None) | (None, Some(it)) => *it == T::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::{
        api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
    };

    use super::*;

    /// Rows: BO-10
    #[test]
    fn a_new_generation_passes_and_so_do_finalizers_and_deletion_marks() {
        let check = |old, new, passes| check(&GenerationChanged, old, new, passes);
        check("gen=1", "gen=2", true);
        check("gen=1", "gen=1 finalizer=a", true);
        check("gen=1 finalizer=a", "gen=1", true);
        check("gen=1 finalizer=a", "gen=1 finalizer=b", true);
        check("gen=1 finalizer=a", "gen=1 finalizer=a deleted=1", true);
        check("gen=1", "gen=1 status=2", false);
        check("gen=1", "gen=1 label=a annotation=b version=2", false);
        check("gen=1 deleted=1", "gen=1 deleted=2", false);
    }

    #[test]
    fn without_generations_every_event_passes() {
        check(&GenerationChanged, "", "label=a", true);
        check(&GenerationChanged, "gen=1", "", true);
    }

    #[test]
    fn labels_annotations_and_versions_are_compared_separately() {
        check(&LabelsChanged, "label=a", "label=b", true);
        check(&LabelsChanged, "", "label=a", true);
        check(&LabelsChanged, "label=a gen=1", "label=a gen=2", false);
        check(&AnnotationsChanged, "annotation=a", "annotation=b", true);
        check(&AnnotationsChanged, "gen=1", "gen=2 label=b", false);
        check(&ResourceVersionChanged, "version=1", "version=2", true);
        check(
            &ResourceVersionChanged,
            "version=1",
            "version=1 gen=2",
            false,
        );
    }

    #[test]
    fn an_absent_list_equals_an_empty_one() {
        assert!(same::<Vec<u8>>(None, Some(&vec![])));
        assert!(same::<Vec<u8>>(Some(&vec![]), None));
        assert!(!same(None, Some(&vec![1])));
    }

    /// Rows: BO-10
    #[test]
    fn only_updates_and_resyncs_are_filtered() {
        let (generation, labels, annotations, version) = (
            &GenerationChanged as &dyn Asked,
            &LabelsChanged as &dyn Asked,
            &AnnotationsChanged as &dyn Asked,
            &ResourceVersionChanged as &dyn Asked,
        );
        let deleted = || Event::Deleted {
            last: Arc::default(),
            missed: false,
        };
        for predicate in [generation, labels, annotations, version] {
            assert!(predicate.asked(&Event::Added(Arc::default())));
            assert!(predicate.asked(&deleted()));
        }
        for predicate in [generation, labels, annotations] {
            assert!(predicate.asked(&Event::Resynced(Arc::default())));
        }
        assert!(!version.asked(&Event::Resynced(Arc::default())));
    }

    /// A predicate of whichever type.
    trait Asked {
        fn asked(&self, event: &Event<Deployment>) -> bool;
    }

    impl<P: Predicate<Deployment>> Asked for P {
        fn asked(&self, event: &Event<Deployment>) -> bool {
            self.passes(event)
        }
    }

    /// Whether an update from `old` to `new` passes.
    #[track_caller]
    fn check(predicate: &impl Predicate<Deployment>, old: &str, new: &str, passes: bool) {
        let event = Event::Updated {
            old: Arc::new(parse(old)).into(),
            new: Arc::new(parse(new)),
        };
        assert_eq!(predicate.passes(&event), passes, "{old:?} to {new:?}");
    }

    fn parse(text: &str) -> Deployment {
        let mut object = Deployment::default();
        let metadata = &mut object.metadata;
        for word in text.split_whitespace() {
            let (field, value) = word.split_once('=').expect("a field and a value");
            let map = || Some([("key".to_owned(), value.to_owned())].into());
            match field {
                "gen" => metadata.generation = value.parse().ok(),
                "finalizer" => metadata.finalizers = Some(vec![value.to_owned()]),
                "label" => metadata.labels = map(),
                "annotation" => metadata.annotations = map(),
                "version" => metadata.resource_version = Some(value.to_owned()),
                "status" => {
                    object.status.get_or_insert_default().replicas = value.parse().ok();
                }
                _ => {
                    let second = value.parse().expect("a second");
                    let when = Timestamp::from_second(second).expect("a second of 1970");
                    metadata.deletion_timestamp = Some(Time(when));
                }
            }
        }
        object
    }
}

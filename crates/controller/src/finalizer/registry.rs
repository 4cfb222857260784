//! `FinalizerRegistry`: the finalizers of several controllers, so that no two share a name.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{FinalizerIdentity, FinalizerName};

/// The finalizers of the handlers of several controllers.
///
/// Two wrappers with one finalizer on one object would each treat the other's finalizer as their
/// own, so that the object is deleted after the first of two clean-ups.
///
/// # Contract
///
/// *Guaranteed.* A handler or an informer is refused, with
/// [`AddError::FinalizerTaken`](crate::AddError::FinalizerTaken), if another handler in the registry
/// has the same finalizer on the same resource, and both can receive the same object: one of them
/// watches all namespaces, or both watch the same one. The in-progress form and the
/// [legacy names](crate::Finalizers::legacy_name) of a finalizer count as its names. Selectors are
/// not compared. The finalizers of a controller are released when its run ends and when it is
/// dropped, those of a handler when it is removed.
///
/// *Not guaranteed.* That another process does not use the name.
///
/// An operator has one registry for all its controllers. Give the controllers of different clusters
/// [registries of their own](crate::InformerControllerBuilder::finalizer_registry), and those that
/// run without an operator a common one.
///
/// Clones share one registry.
#[derive(Clone, Default)]
pub struct FinalizerRegistry {
    claimants: Arc<Mutex<HashMap<ClaimantId, Claimant>>>,
}

/// The identity of a controller in the registries of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClaimantId(u64);

/// The finalizers of one controller.
struct Claimant {
    controller: Arc<str>,
    claims: Vec<FinalizerClaim>,
}

/// A finalizer of one handler.
#[derive(Clone, Debug)]
pub(crate) struct FinalizerClaim {
    /// The name of the kind of the handler.
    pub(crate) kind: Arc<str>,
    pub(crate) finalizer: FinalizerIdentity,
    pub(crate) scope: Scope,
}

/// The objects that the informers of a kind have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Those of these namespaces. None before the kind has an informer.
    Namespaces(BTreeSet<String>),
}

/// Two handlers that share the name of a finalizer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FinalizerConflict {
    /// The kind of the refused handler.
    pub(crate) kind: Arc<str>,
    pub(crate) finalizer: FinalizerName,
    pub(crate) resource: Arc<str>,
    /// The controller and the kind of the other handler.
    pub(crate) controller: Arc<str>,
    pub(crate) other_kind: Arc<str>,
}

// === impl FinalizerRegistry ===

impl FinalizerRegistry {
    /// Creates a registry without finalizers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the claims of `claimant`, a controller with this name. If one conflicts with
    /// another, all stay as they were.
    pub(crate) fn claim(
        &self,
        claimant: ClaimantId,
        controller: &str,
        claims: Vec<FinalizerClaim>,
    ) -> Result<(), FinalizerConflict> {
        let mut claimants = self.claimants.lock();
        for (at, claim) in claims.iter().enumerate() {
            // Handlers of one kind receive the same objects, also before it has an informer.
            let own = (claims[..at].iter())
                .filter(|it| it.kind == claim.kind || claim.scope.overlaps(&it.scope))
                .map(|it| (it, controller));
            let others = claimants.iter().filter(|(id, _)| **id != claimant);
            let others = others
                .flat_map(|(_, it)| it.claims.iter().map(|claim| (claim, &*it.controller)))
                .filter(|(it, _)| claim.scope.overlaps(&it.scope));
            let mut all = own.chain(others);
            if let Some(conflict) = all.find_map(|(it, by)| claim.conflict(it, by)) {
                return Err(conflict);
            }
        }
        if claims.is_empty() {
            claimants.remove(&claimant);
        } else {
            let controller = Arc::from(controller);
            claimants.insert(claimant, Claimant { controller, claims });
        }
        Ok(())
    }

    /// Removes the claims of `claimant`.
    pub(crate) fn release(&self, claimant: ClaimantId) {
        self.claimants.lock().remove(&claimant);
    }
}

impl fmt::Debug for FinalizerRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claimants = self.claimants.lock();
        let claims = claimants.values().flat_map(|it| &it.claims);
        let names = claims.map(|it| (&it.finalizer.resource, it.finalizer.name().as_str()));
        f.debug_list().entries(names).finish()
    }
}

// === impl ClaimantId ===

impl ClaimantId {
    /// An identity that no other claimant of the process has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

// === impl FinalizerClaim ===

impl FinalizerClaim {
    /// How this claim conflicts with `other`, a claim of `controller` for the same objects.
    fn conflict(&self, other: &Self, controller: &str) -> Option<FinalizerConflict> {
        let finalizer = self.finalizer.name_shared_with(&other.finalizer)?;
        Some(FinalizerConflict {
            kind: Arc::clone(&self.kind),
            finalizer: finalizer.clone(),
            resource: Arc::clone(&self.finalizer.resource),
            controller: Arc::from(controller),
            other_kind: Arc::clone(&other.kind),
        })
    }
}

// === impl Scope ===

impl Scope {
    /// Adds the objects of an informer of these namespaces, or of all.
    pub(crate) fn extend(&mut self, namespaces: Option<&[String]>) {
        match (self, namespaces) {
            (Self::All, _) => {}
            (Self::Namespaces(known), Some(namespaces)) => {
                known.extend(namespaces.iter().cloned());
            }
            (scope, None) => *scope = Self::All,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) => true,
            (Self::All, Self::Namespaces(some)) | (Self::Namespaces(some), Self::All) => {
                !some.is_empty()
            }
            (Self::Namespaces(own), Self::Namespaces(others)) => !own.is_disjoint(others),
        }
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::Namespaces(BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_once_for_each_object() {
        check("a:*", "b:*", true);
        check("a:shop", "b:shop", true);
        check("a:*", "b:shop", true);
        check("a:shop", "b:*", true);
        check("a:shop,blog", "b:blog,wiki", true);
        check("a:shop", "b:blog", false);
        check("a:shop", "b:", false);
        check("a:", "b:*", false);
    }

    #[test]
    fn a_refused_claim_changes_nothing_and_a_released_name_is_free() {
        let registry = FinalizerRegistry::new();
        let (first, second) = (ClaimantId::next(), ClaimantId::next());
        registry
            .claim(first, "first", vec![claim("shop")])
            .expect("free");
        registry
            .claim(second, "second", vec![claim("blog")])
            .expect("another namespace");
        let refused = registry.claim(second, "second", vec![claim("blog,shop")]);
        let refused = refused.expect_err("taken");
        assert_eq!(&*refused.controller, "first");
        assert_eq!(refused.finalizer.as_str(), "example.io/own");
        registry
            .claim(first, "first", vec![claim("shop,wiki")])
            .expect("its own claims do not conflict with their earlier state");
        let refused = registry.claim(first, "first", vec![claim("blog")]);
        assert_eq!(&*refused.expect_err("kept").controller, "second");
        registry.release(second);
        registry
            .claim(first, "first", vec![claim("blog")])
            .expect("released");
        assert_eq!(
            format!("{registry:?}"),
            r#"[("configmaps", "example.io/own")]"#
        );
        registry.claim(first, "first", Vec::new()).expect("nothing");
        assert_eq!(format!("{registry:?}"), "[]");
    }

    #[test]
    fn two_handlers_of_one_controller_conflict_like_those_of_two() {
        let registry = FinalizerRegistry::new();
        let id = ClaimantId::next();
        for scope in ["shop", ""] {
            let refused = registry.claim(id, "own", vec![claim(scope), claim(scope)]);
            assert_eq!(&*refused.expect_err("taken").controller, "own");
        }
        registry
            .claim(id, "own", vec![claim("shop"), other_kind("blog")])
            .expect("two namespaces");
        let refused = registry.claim(id, "own", vec![claim("shop"), other_kind("shop")]);
        assert_eq!(&*refused.expect_err("taken").other_kind, "configs");
    }

    fn other_kind(scope: &str) -> FinalizerClaim {
        FinalizerClaim {
            kind: Arc::from("others"),
            ..claim(scope)
        }
    }

    fn claim(scope: &str) -> FinalizerClaim {
        let name = FinalizerName::new("example.io/own").expect("a name");
        FinalizerClaim {
            kind: Arc::from("configs"),
            finalizer: FinalizerIdentity::new("configmaps", name),
            scope: match scope {
                "*" => Scope::All,
                some => {
                    let names = some.split(',').filter(|it| !it.is_empty());
                    Scope::Namespaces(names.map(ToOwned::to_owned).collect())
                }
            },
        }
    }

    #[track_caller]
    fn check(first: &str, second: &str, refused: bool) {
        let registry = FinalizerRegistry::new();
        let [first, second] = [first, second].map(|it| it.split_once(':').expect("a scope"));
        for ((controller, scope), refused) in [(first, false), (second, refused)] {
            let claimed = registry.claim(ClaimantId::next(), controller, vec![claim(scope)]);
            assert_eq!(claimed.is_err(), refused, "{first:?} {second:?}");
        }
    }
}

//! The finalizers of the handlers of a controller, in the registry of its operator.

use std::sync::Arc;

use parking_lot::RwLock;
use windlass_informer::Trim;

use super::Shared;
use crate::{
    AddError, FinalizerRegistry,
    finalizer::{ClaimantId, FinalizerClaim, FinalizerIdentity, Scope},
    route::KindId,
};

/// The place of a controller in a registry of finalizers.
pub(super) struct FinalizerClaims {
    id: ClaimantId,
    /// A registry of its own, unless it was given another one.
    registry: RwLock<FinalizerRegistry>,
    /// Whether the builder was given the registry, which then stays.
    is_fixed: bool,
}

/// A change that is checked before it is made.
#[derive(Clone, Copy)]
pub(super) enum Planned<'a> {
    Nothing,
    /// A handler with this finalizer.
    Handler(KindId, &'a FinalizerIdentity),
    /// An informer for these namespaces, or for all.
    Informer(KindId, Option<&'a [String]>),
}

// === impl FinalizerClaims ===

impl FinalizerClaims {
    pub(super) fn new(given: Option<FinalizerRegistry>) -> Self {
        Self {
            id: ClaimantId::next(),
            is_fixed: given.is_some(),
            registry: RwLock::new(given.unwrap_or_default()),
        }
    }

    /// Releases all finalizers.
    pub(super) fn release(&self) {
        self.registry.read().release(self.id);
    }
}

// === impl Shared ===

impl Shared {
    /// Claims the finalizers of all handlers, as they are after the `planned` change. Called under
    /// the registration lock.
    pub(super) fn claim_finalizers(&self, planned: Planned<'_>) -> Result<(), AddError> {
        let registry = self.finalizers.registry.read().clone();
        self.claim_in(&registry, planned)
    }

    /// Claims the finalizers of the handlers that are left after a removal.
    pub(super) fn reclaim_finalizers(&self) {
        if !self.has_ended() {
            // Fewer than before, which had no conflict.
            _ = self.claim_finalizers(Planned::Nothing);
        }
    }

    /// The fields that the informers of `kind` remove from the objects: those of its first informer.
    pub(super) fn trim(&self, kind: KindId) -> Option<Arc<Trim>> {
        let feeds = self.feeds.read();
        let entry = feeds.iter().find(|entry| entry.kind == kind)?;
        Some(Arc::clone(entry.feed.trim()))
    }

    /// Moves the finalizers of all handlers to `registry`, unless the controller was built with
    /// another one.
    pub(super) fn join_registry(&self, registry: &FinalizerRegistry) -> Result<(), AddError> {
        if self.finalizers.is_fixed {
            return Ok(());
        }
        let _registration = self.registration.lock();
        self.claim_in(registry, Planned::Nothing)?;
        *self.finalizers.registry.write() = registry.clone();
        Ok(())
    }

    fn claim_in(&self, registry: &FinalizerRegistry, planned: Planned<'_>) -> Result<(), AddError> {
        let claims = self.finalizer_claims(planned);
        let claimed = registry.claim(self.finalizers.id, &self.settings.name, claims);
        claimed.map_err(|conflict| AddError::FinalizerTaken {
            kind: conflict.kind.to_string(),
            finalizer: conflict.finalizer.to_string(),
            resource: conflict.resource.to_string(),
            other_kind: conflict.other_kind.to_string(),
            controller: conflict.controller.to_string(),
        })
    }

    fn finalizer_claims(&self, planned: Planned<'_>) -> Vec<FinalizerClaim> {
        let route = self.route.read();
        let feeds = self.feeds.read();
        let claim = |kind: KindId, finalizer: &FinalizerIdentity| {
            let mut scope = Scope::default();
            for entry in feeds.iter().filter(|entry| entry.kind == kind) {
                scope.extend(entry.feed.namespaces());
            }
            if let Planned::Informer(of, namespaces) = planned
                && of == kind
            {
                scope.extend(namespaces);
            }
            FinalizerClaim {
                kind: route.name(kind),
                finalizer: finalizer.clone(),
                scope,
            }
        };
        let mut handlers: Vec<_> = route.handlers().collect();
        handlers.sort_unstable_by_key(|(_, handler)| handler.id);
        let mut claims: Vec<_> = (handlers.into_iter())
            .filter_map(|(kind, handler)| Some(claim(kind, handler.code.finalizer()?)))
            .collect();
        if let Planned::Handler(kind, finalizer) = planned {
            claims.push(claim(kind, finalizer));
        }
        claims
    }
}

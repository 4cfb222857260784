//! Builds a controller from its settings.

use std::sync::{Arc, OnceLock};

use kube::Api;
use parking_lot::Mutex;
use serde::Serialize;
use windlass_informer::{host_name, resource_name};

use super::{ControllerBuilder, kinds::Wiring};
use crate::{
    Controller, ControllerBuildError, EventRecorder, FinalizerName, Finalizers, MissingKind,
    ObjectReconciler, Watchable,
    controller::{EventFilter, LevelAdapter},
    level::{
        children::Memories,
        controller::Publisher,
        filter::Filter,
        handler::{LevelCalls, LevelHandler},
        memo::Memos,
        own::OwnWriteTracker,
        pace::Paces,
        setup::Setup,
        triggers::Target,
    },
};

// === impl ControllerBuilder ===

impl<K: Watchable> ControllerBuilder<K> {
    /// Builds the controller, which calls `reconciler`.
    ///
    /// # Errors
    ///
    /// [`ControllerBuildError`] if the finalizer or a selector is invalid, if a shared informer has
    /// run before and lacks an index, if children are claimed and the controller has another handle for
    /// their resource, if children are watched in another cluster, or if an informer was added twice.
    #[expect(
        clippy::too_many_lines,
        reason = "the parts of a controller, each of which needs the parts before it"
    )]
    pub fn build<R>(self, reconciler: R) -> Result<Controller<K>, ControllerBuildError>
    where
        K: Serialize,
        R: ObjectReconciler<K>,
    {
        Self::check_owned(&self.owned)?;
        let field_manager = self.manager().to_owned();
        let finalizer = self.finalizer.map(FinalizerName::new).transpose()?;
        let types = self.primaries.types().clone();
        let api = Api::<K>::all_with(self.client.clone(), &types);
        let finalizers = finalizer.map(|name| Finalizers::of(api, &types, name));
        let finalizers = finalizers.transpose()?;
        let filtered = finalizers.clone();
        let controller = self.engine.name(self.name.clone()).build()?;
        let primary = controller.kind::<K>(&resource_name::<K>(&types))?;
        self.primaries.attach(
            &controller,
            primary.clone(),
            &self.client,
            self.longest_interval,
            self.primary,
        )?;
        let own = Arc::new(OwnWriteTracker::new(self.own_write_timeout));
        own.watch(&self.primaries);
        controller.track(Arc::<OwnWriteTracker>::clone(&own));
        let target = Target {
            engine: controller.downgrade(),
            kind: primary.id(),
        };
        let wiring = Wiring {
            controller: &controller,
            primary: &primary,
            client: &self.client,
            own: &own,
            target: &target,
            is_optional: self.missing_kind == MissingKind::Optional,
        };
        // Calls that began without an optional kind are repeated with it.
        let mut optional = Vec::new();
        for add in self.secondaries {
            optional.extend(add(&wiring)?);
        }
        let fence = Arc::new(OnceLock::new());
        let (events, publisher) =
            EventRecorder::new(self.client.clone(), self.name.as_str(), host_name());
        let setup = Arc::new(Setup {
            field_manager,
            earlier_managers: self.earlier_managers,
            primaries: self.primaries.clone(),
            target: target.clone(),
            fence: Arc::clone(&fence),
            memories: Memories::default(),
            memos: Memos::default(),
            events,
            own: Arc::clone(&own),
            client: self.client.clone(),
            fenced: OnceLock::new(),
        });
        let through = Arc::clone(&setup);
        let publisher = Publisher {
            publisher,
            client: Box::new(move || through.client().clone()),
        };
        let calls = LevelCalls {
            setup: Arc::clone(&setup),
            reconciler,
            limit: self.limit,
        };
        let paces = Paces::new(self.debounce, self.rate);
        let handler = LevelHandler::new(paces, calls, finalizers, self.on_selector_exit);
        let calls = Arc::clone(&handler.calls);
        let filter = Filter {
            finalizers: filtered,
            needs_finalizer: Box::new(move |object: &K| calls.needs_finalizer(object)),
            predicate: self.predicate,
        };
        let passes: Arc<EventFilter> = Arc::new(move |event: &_| filter.passes(event));
        own.set_primary(primary.id(), &passes);
        let code = LevelAdapter::<K, _>::new(controller.downgrade(), handler)
            .calling::<R>()
            .filtered(passes);
        controller.add_erased(&primary, Box::new(code))?;
        let triggers = self.triggers.into_iter();
        let mut tasks: Vec<_> = triggers
            .filter_map(|trigger| trigger.task(target.clone()))
            .collect();
        tasks.extend(optional);
        Ok(Controller {
            engine: controller,
            primaries: self.primaries,
            fence,
            tasks: Mutex::new(tasks),
            publisher: Mutex::new(Some(publisher)),
            target,
        })
    }
}

//! One call for one parent: builds the request, calls the handler, and writes its response.

use std::{
    cmp::Reverse,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::api::{ApiResource, DynamicObject};
use serde::Serialize;
use serde_json::Value;
use windlass_controller::{
    ChildError, ChildErrors, Context, Failure, HandlerError, ObjectEvent, ObjectReconciler,
    Outcome, Owned, Retry, Watchable,
    children::{ChildKind, Children, parent_uid},
};
use windlass_informer::{ObjectIdentity as _, ObjectKey, log};

use crate::{
    AsyncCompositeHandler, ChildConfig, SyncRequest, observed_generation, request::ObservedKind,
};

/// The reconciler of the parents.
pub(crate) struct Calls<P: Watchable, H> {
    pub(crate) handler: H,
    pub(crate) kinds: Vec<WatchedKind<P>>,
    pub(crate) parent_kind: ChildKind,
    /// Whether the schema of the parents has no `observedGeneration`.
    pub(crate) is_generation_undeclared: AtomicBool,
}

/// A kind of children.
pub(crate) struct WatchedKind<P: Watchable> {
    pub(crate) types: ApiResource,
    pub(crate) kind: ChildKind,
    /// `None`: children of it are only deleted.
    pub(crate) config: Option<ChildConfig>,
    pub(crate) owned: Owned<P, DynamicObject>,
}

/// What a response wants to be written.
struct Wanted {
    status: Option<Value>,
    /// `None`: the existing children stay.
    children: Option<Vec<Value>>,
    is_finalizing: bool,
}

/// What was written.
#[derive(Default)]
struct Written {
    errors: Vec<ChildError>,
    all_applied: bool,
    /// When a delayed child has to be applied.
    repeat_after: Option<Duration>,
}

/// When a clean-up that waits for the deletion of children checks them again, if no event of them
/// arrives.
const CHECK_DELETED: Duration = Duration::from_secs(10);

// === impl Calls ===

impl<P, H> Calls<P, H>
where
    P: Watchable + Serialize,
    H: AsyncCompositeHandler<P>,
{
    /// The parent of `cx` and its children in the stores.
    fn request(&self, cx: &Context<P>, is_finalizing: bool) -> SyncRequest<P> {
        let uid = cx.object().meta().uid.as_deref();
        let kinds = self.kinds.iter().map(|kind| {
            let mut objects = kind.owned.of(cx);
            objects.retain(|it| parent_uid(&kind.kind, &it.metadata).as_deref() == uid);
            objects.sort_by_cached_key(|it| it.key());
            for object in &mut objects {
                // Objects in a list may lack them.
                if object.types.is_none() {
                    Arc::make_mut(object).types = Some(kube::core::TypeMeta {
                        api_version: kind.types.api_version.clone(),
                        kind: kind.types.kind.clone(),
                    });
                }
            }
            ObservedKind {
                types: kind.types.clone(),
                objects,
            }
        });
        let kinds = kinds.collect();
        SyncRequest::new(
            Arc::clone(cx.object()),
            cx.key().clone(),
            is_finalizing,
            kinds,
        )
    }

    /// Writes children and status of a response.
    async fn write(
        &self,
        cx: &Context<P>,
        request: &SyncRequest<P>,
        wanted: Wanted,
    ) -> Result<Written, Failure> {
        let children = cx.children()?;
        let mut written = match wanted.children {
            Some(desired) => {
                let ended = self.write_children(cx, &children, request, desired).await;
                ended.map_err(|error| ChildErrors::from(error).into_failure())?
            }
            None => Written::default(),
        };
        if let Some(status) = wanted.status {
            let all_applied = written.all_applied && !wanted.is_finalizing;
            let ended = self
                .write_status(cx, status, all_applied, request.generation())
                .await;
            written.errors.extend(ended.err());
        }
        Ok(written)
    }

    /// Checks all children, applies them, and deletes the others if all were applied.
    async fn write_children(
        &self,
        cx: &Context<P>,
        children: &Children,
        request: &SyncRequest<P>,
        desired: Vec<Value>,
    ) -> Result<Written, ChildError> {
        let declared = desired.into_iter().map(|child| self.declared(child));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        let checked = children.parent.check::<DynamicObject>(declared)?;
        let stored = |kind: &ChildKind, key: &ObjectKey| {
            let watched = self.kinds.iter().find(|it| it.kind == *kind)?;
            watched.owned.informers().get_lazy(key)
        };
        let applied = children.apply_all(&checked, stored).await;
        for contention in &applied.contended {
            cx.report_contention(contention);
        }
        let mut written = Written {
            all_applied: applied.errors.is_empty(),
            errors: applied.errors,
            repeat_after: applied.repeat_after,
        };
        if !written.all_applied {
            return Ok(written);
        }
        for watched in &self.kinds {
            let is_desired = |key: &ObjectKey| checked.contains(&watched.kind, key);
            let stored = watched.stored(request);
            match children.prune(&watched.kind, stored, is_desired).await {
                Ok(_) => {}
                Err(error) => written.errors.push(error),
            }
        }
        Ok(written)
    }

    /// The kind of a child in a response, and how it is written.
    fn declared(
        &self,
        child: Value,
    ) -> Result<(ChildKind, windlass_controller::Desired<DynamicObject>), ChildError> {
        let text = |pointer: &str| {
            let text = child.pointer(pointer).and_then(Value::as_str);
            windlass_informer::one_line(text.unwrap_or_default()).into_owned()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let is =
            |it: &&WatchedKind<P>| it.types.api_version == api_version && it.types.kind == kind;
        let watched = self.kinds.iter().find(is);
        if let Some((watched, config)) = watched.and_then(|it| Some((it, it.config.as_ref()?))) {
            return Ok((watched.kind.clone(), config.desired(child)));
        }
        let declared = self.kinds.iter().filter(|it| it.config.is_some());
        let declared = declared.map(|it| format!("{} of {}", it.types.kind, it.types.api_version));
        Err(ChildError::Invalid {
            resource: if kind.is_empty() {
                "without a kind".to_owned()
            } else {
                kind.clone()
            },
            name: text("/metadata/name"),
            source: windlass_controller::InvalidChild::OtherKind {
                found: format!("{kind} of {api_version}"),
                declared: declared.collect::<Vec<_>>().join(", "),
            },
        })
    }

    async fn write_status(
        &self,
        cx: &Context<P>,
        status: Value,
        all_applied: bool,
        generation: i64,
    ) -> Result<(), ChildError> {
        let mut complete = status.clone();
        if !self.is_generation_undeclared.load(Ordering::Relaxed) {
            let observed = cx.observed_status();
            observed_generation::add_to(&mut complete, generation, all_applied, &observed);
        }
        match cx.apply_status(&complete).await {
            Err(error)
                if complete.get(observed_generation::FIELD).is_some()
                    && status.get(observed_generation::FIELD).is_none()
                    && observed_generation::is_refused(&error) =>
            {
                // Another field can be undeclared too.
                cx.apply_status(&status).await?;
                if !self.is_generation_undeclared.swap(true, Ordering::Relaxed) {
                    log::warn!(
                        component = "CompositeController",
                        object = %cx.key(),
                        "the status of the kind declares no observedGeneration, not writing it"
                    );
                }
                Ok(())
            }
            ended => ended.map(drop),
        }
    }

    /// Deletes the children that Kubernetes does not delete: also those that have the parent as owner, if it
    /// exists and has left the selector. Returns whether one of the others exists.
    async fn tear_down(&self, cx: &Context<P>, request: &SyncRequest<P>) -> Result<bool, Failure> {
        let children = cx.children()?;
        let (mut exists, mut errors) = (false, Vec::new());
        let is_outside = match cx.object().meta() {
            parent if parent.deletion_timestamp.is_some() => false,
            parent => {
                let read = children.read(&self.parent_kind, cx.key(), parent.uid.as_deref());
                let read = read.await.map_err(ChildErrors::from);
                read.map_err(ChildErrors::into_failure)?.is_some()
            }
        };
        for watched in &self.kinds {
            match children
                .tear_down(&watched.kind, watched.stored(request), is_outside)
                .await
            {
                Ok(found) => exists |= found,
                Err(error) => errors.push(error),
            }
        }
        match ChildErrors::new(errors) {
            Some(error) => Err(error.into_failure()),
            None => Ok(exists),
        }
    }
}

/// What the garbage collector does with the children of a parent that is being deleted, before the
/// parent disappears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GarbageCollector {
    Deletes,
    Orphans,
}

impl GarbageCollector {
    fn of(finalizers: Option<&[String]>) -> Option<Self> {
        let finalizers = finalizers.unwrap_or_default();
        let all = finalizers
            .iter()
            .filter_map(|finalizer| match &**finalizer {
                "orphan" => Some(Self::Orphans),
                "foregroundDeletion" => Some(Self::Deletes),
                _ => None,
            });
        all.max_by_key(|it| Reverse(*it == Self::Deletes))
    }
}

impl<P, H> ObjectReconciler<P> for Calls<P, H>
where
    P: Watchable + Serialize,
    H: AsyncCompositeHandler<P>,
{
    type Error = Failure;

    async fn reconcile(&self, cx: Context<P>) -> Result<Outcome, Failure> {
        let request = self.request(&cx, false);
        let response = self.handler.sync(request.clone()).await?;
        let wanted = Wanted {
            status: response.status,
            children: response.children,
            is_finalizing: false,
        };
        let written = self.write(&cx, &request, wanted).await?;
        if let Some(error) = ChildErrors::new(written.errors) {
            return Err(error.into_failure());
        }
        let delays = [response.resync_after, written.repeat_after];
        let delay = delays.into_iter().flatten().min();
        Ok(delay.map_or_else(Outcome::done, Outcome::requeue_after))
    }

    async fn cleanup(&self, cx: Context<P>) -> Result<Outcome, Failure> {
        let request = self.request(&cx, true);
        let response = self.handler.finalize(request.clone()).await?;
        let collector = GarbageCollector::of(cx.object().meta().finalizers.as_deref());
        let mut repeat_after = None;
        // Nothing is applied for a parent that disappeared with our finalizer.
        if cx.stored().is_some() {
            let wanted = Wanted {
                status: response.status,
                children: response.children.filter(|_| collector.is_none()),
                is_finalizing: true,
            };
            let written = self.write(&cx, &request, wanted).await?;
            if let Some(error) = ChildErrors::new(written.errors) {
                return Err(error.into_failure());
            }
            repeat_after = written.repeat_after;
        }
        let retry = response.retry_after;
        let delays = [retry, repeat_after].into_iter().flatten();
        if let Some(delay) = retry.and(delays.min()) {
            return Ok(Outcome::requeue_after(delay));
        }
        if collector != Some(GarbageCollector::Orphans) && self.tear_down(&cx, &request).await? {
            return Ok(Outcome::requeue_after(CHECK_DELETED));
        }
        Ok(Outcome::done())
    }

    /// Writes the error status of the handler. Errors of the writes of a response are shown in an Event.
    async fn failed(&self, cx: &Context<P>, error: &HandlerError) -> Retry {
        if let HandlerError::Failed { source } = error
            && let Some(errors) = source.downcast_ref::<ChildErrors>()
        {
            let note = windlass_informer::ErrorChain::new(errors).to_string();
            cx.event(ObjectEvent::warning("NotWritten", note).action("Apply"));
            return Retry::Policy;
        }
        if cx.stored().is_none() {
            return Retry::Policy;
        }
        let is_finalizing = cx.object().meta().deletion_timestamp.is_some();
        let request = self.request(cx, is_finalizing);
        let status = self.handler.error_status(request.clone(), error).await;
        let wanted = Wanted {
            status: status.filter(|status| !status.is_null()),
            children: None,
            is_finalizing,
        };
        let written = self.write(cx, &request, wanted).await;
        let errors = written.map(|written| written.errors).unwrap_or_default();
        if let Some(error) = ChildErrors::new(errors) {
            log::error!(
                component = "CompositeController",
                object = %cx.key(),
                error = %windlass_informer::ErrorChain::new(&error),
                "the error status was not written"
            );
        }
        Retry::Policy
    }
}

// === impl WatchedKind ===

impl<P: Watchable> WatchedKind<P> {
    /// The children of this kind in `request`, as the store has them.
    fn stored(
        &self,
        request: &SyncRequest<P>,
    ) -> Vec<windlass_informer::LazyObject<DynamicObject>> {
        let children = request.children().of_kind(&self.types);
        let informers = self.owned.informers();
        children
            .iter()
            .filter_map(|it| informers.get_lazy(&it.key()))
            .collect()
    }
}

//! External resources: they are outside of the cluster, and survive a crash of the operator.

use std::{fmt, sync::Arc};

use tokio::time::sleep;

use crate::{
    Fault,
    fault::StepKind,
    world::{Origin, World},
};

/// Resources outside of the cluster by name, such as DNS records, buckets or accounts.
///
/// They outlive the process and are part of the end state. Faults are injected into writes to them.
#[derive(Clone)]
pub struct External {
    world: Arc<World>,
    origin: Origin,
}

/// A write to an external resource failed because of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the external resource could not be written because of a simulated fault")]
pub struct ExternalError;

// === impl External ===

impl External {
    pub(crate) const fn new(world: Arc<World>, origin: Origin) -> Self {
        Self { world, origin }
    }

    /// Creates or changes a resource.
    ///
    /// # Errors
    ///
    /// [`ExternalError`] if the plan injects a fault. Then nothing was written.
    pub async fn put(&self, name: &str, value: impl Into<String>) -> Result<(), ExternalError> {
        self.write(name, Some(value.into())).await.map(drop)
    }

    /// Removes a resource. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`ExternalError`] if the plan injects a fault. Then nothing was removed.
    pub async fn remove(&self, name: &str) -> Result<bool, ExternalError> {
        let before = self.write(name, None).await?;
        Ok(before.is_some())
    }

    /// The value of a resource.
    pub async fn get(&self, name: &str) -> Option<String> {
        sleep(self.world.latency()).await;
        self.world.halt_if_crashed(self.origin).await;
        self.world.external(name)
    }

    async fn write(
        &self,
        name: &str,
        value: Option<String>,
    ) -> Result<Option<String>, ExternalError> {
        let Self { world, origin } = self;
        sleep(world.latency()).await;
        world.halt_if_crashed(*origin).await;
        let text = match &value {
            Some(value) => format!("external {name} = {value}"),
            None => format!("external {name} removed"),
        };
        let fault = world.step(*origin, StepKind::External, &text, None);
        match fault {
            Some(Fault::ExternalFails) => return Err(ExternalError),
            Some(Fault::CrashBefore) => world.crash(*origin),
            Some(Fault::Freeze) => world.freeze().await,
            _ => {}
        }
        world.halt_if_crashed(*origin).await;
        let before = world.set_external(name, value);
        if fault == Some(Fault::CrashAfter) {
            world.crash(*origin);
        }
        world.halt_if_crashed(*origin).await;
        Ok(before)
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.origin).finish()
    }
}

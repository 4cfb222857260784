//! The names of the crate roperator (0.3): files with handlers move by their imports, and `main` by
//! hand.
//!
//! | there | here |
//! |--|--|
//! | `roperator::{prelude, config, error, handler, k8s_types, resource, serde_json}` | the same names |
//! | `run_operator(config, handler)`, which blocks | [`run_operator`](runner::run_operator) with a client, which is awaited; or [`OperatorConfig::controller`](config::OperatorConfig::controller) for an [`Operator`](crate::Operator) with more controllers |
//! | `ClientConfig`, `KubeConfig`, `Credentials` | `kube::Client`, which also renews tokens |
//! | `TestKit` | `windlass::kit`, feature `kit` |
//!
//! `docs/from-roperator.md` says what changes in meaning. First: an error leaves the children as they
//! are. New programs implement [`CompositeHandler`](crate::composite::CompositeHandler).

pub mod config;
pub mod handler;
pub mod k8s_types;
pub mod resource;
pub mod runner;

mod adapter;

pub use serde_json;

pub mod error {
    //! The error of a handler.

    pub use windlass_controller::Failure as Error;
}

pub mod prelude {
    //! The names that most handlers use.

    pub use serde::{Deserialize, Serialize};

    pub use super::{
        config::{ChildConfig, OperatorConfig, UpdateStrategy},
        error::Error,
        handler::{FinalizeResponse, Handler, RequestChildren, SyncRequest, SyncResponse},
        k8s_types::{self, K8sType},
        resource::{K8sResource, K8sTypeRef, ObjectId, ObjectIdRef},
        runner::run_operator,
    };
}

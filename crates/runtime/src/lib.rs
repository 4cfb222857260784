//! The API of `kube::runtime` on the engine of Windlass.
//!
//! A kube-rs operator moves by changing its imports: replace `kube::runtime` by
//! `windlass::runtime`. The page `docs/from-kube-rs.md` says what changes and what does not move.
//!
//! What touches [`Controller`], [`Action`](controller::Action) or [`Store`](reflector::Store) is
//! implemented here, with the paths, names, bounds and meaning of kube-runtime 5.0. Everything else
//! is re-exported from kube-runtime, so that code that uses both crates compiles.
//!
//! # Example
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use futures::StreamExt as _;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client};
//! use windlass_runtime::{
//!     controller::{Action, Controller},
//!     watcher,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let server = windlass_apiserver::ApiServer::new();
//! # let client = server.client();
//! let configs = Api::<ConfigMap>::default_namespaced(client);
//! let config = serde_json::from_value(serde_json::json!({ "metadata": { "name": "web" } })).unwrap();
//! configs.create(&Default::default(), &config).await.unwrap();
//!
//! let mut reconciled = Controller::new(configs, watcher::Config::default())
//!     .run(
//!         |config: Arc<ConfigMap>, _context| async move {
//!             println!("reconciling {:?}", config.metadata.name);
//!             Ok::<_, std::convert::Infallible>(Action::requeue(Duration::from_secs(300)))
//!         },
//!         |_config, _error, _context| Action::backoff(),
//!         Arc::new(()),
//!     )
//!     .boxed();
//! let (object, action) = reconciled.next().await.unwrap().unwrap();
//! assert_eq!(object.name, "web");
//! assert_eq!(action, Action::requeue(Duration::from_secs(300)));
//! # }
//! ```

// The controller and what it returns.
pub mod controller;

// Helpers of reconcilers.
pub mod finalizer;
#[doc(inline)]
pub use kube::runtime::{events, wait};

// Streams and stores.
pub mod reflector;
pub mod utils;
#[doc(inline)]
pub use kube::runtime::{scheduler, watcher};

#[expect(deprecated, reason = "kube-runtime exports it at this path")]
pub use kube::runtime::metadata_watcher;
#[doc(inline)]
pub use kube::runtime::{Predicate, PredicateConfig, conditions, predicates};

pub use crate::{
    controller::{Config, Controller},
    finalizer::finalizer,
    reflector::reflector,
    utils::WatchStreamExt,
};

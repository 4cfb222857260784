//! The contenders, and their common interface.

pub(crate) mod floor;
pub(crate) mod level;
pub(crate) mod moved;
pub(crate) mod own;
pub(crate) mod runtime;
pub(crate) mod windlass;

use std::{any::Any, fmt::Debug};

use clap::ValueEnum;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The measured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Contender {
    /// Windlass.
    Windlass,
    /// kube-runtime.
    Runtime,
    /// client-go's shared informer.
    ClientGo,
    /// controller-runtime's manager, with one controller.
    ControllerRuntime,
    /// grafana-app-sdk's controller, or its informer.
    GrafanaAppSdk,
    /// The real kube-apiserver with etcd, the peer of the embedded server.
    KubeApiserver,
    /// The lower bound: reads the same bytes, and decodes each object once.
    Floor,
}

/// How the first list is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Lists {
    /// In pages: the default of kube-runtime.
    Paged,
    /// As a watch that begins with all objects: the default of Windlass.
    Streamed,
}

/// The form in which a store keeps objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Keeps {
    /// The default form.
    Typed,
    /// Decoded objects of a type that declares only the used fields.
    Own,
    /// JSON that is not decoded.
    Packed,
    /// JSON that the handler decodes.
    Decoded,
    /// Only metadata, which is all that is requested; as JSON if the contender supports it.
    Metadata,
}

/// The form of a controller of Windlass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// `InformerController`: a call for each event.
    Events,
    /// `Controller<K>`: a call for the newest object.
    Level,
    /// `windlass::runtime`: the `Controller` of kube-runtime on the engine of Windlass.
    Runtime,
}

/// A kind that contenders can list and watch.
pub(crate) trait Object:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + DeserializeOwned
    + Serialize
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Serialize
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// A contender that lists and watches a kind in the background.
pub(crate) struct Following {
    /// Completes when the next relist is complete.
    pub(crate) relisted: BoxFuture<'static, ()>,
    /// Reads each object by name.
    pub(crate) read: Box<dyn Fn()>,
    /// The kept state.
    pub(crate) _kept: Box<dyn Any>,
}

// === impl Contender ===

impl Contender {
    pub(crate) const ALL: [Self; 7] = [
        Self::Windlass,
        Self::Runtime,
        Self::ClientGo,
        Self::ControllerRuntime,
        Self::GrafanaAppSdk,
        Self::KubeApiserver,
        Self::Floor,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Runtime => "kube-runtime",
            Self::ClientGo => "client-go",
            Self::ControllerRuntime => "controller-runtime",
            Self::GrafanaAppSdk => "grafana-app-sdk",
            Self::KubeApiserver => "kube-apiserver",
            Self::Floor => "floor",
        }
    }

    /// Whether it is written in Go, and so part of `bench/peers`.
    pub(crate) fn in_go(self) -> bool {
        matches!(
            self,
            Self::ClientGo | Self::ControllerRuntime | Self::GrafanaAppSdk
        )
    }

    /// Whether it is a peer of Windlass, and not the floor.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Self::Windlass | Self::Floor)
    }
}

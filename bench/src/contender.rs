//! The contenders, each behind the same few functions.

pub(crate) mod floor;
pub(crate) mod own;
pub(crate) mod runtime;
pub(crate) mod windlass;

use std::{any::Any, fmt::Debug};

use clap::ValueEnum;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The program that is measured.
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
    /// The same bytes read, and decoded once into what is kept, and nothing else.
    Floor,
}

/// How the first picture is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Lists {
    /// Page by page: kube-runtime's default.
    Paged,
    /// As a watch that begins with everything: Windlass' default.
    Streamed,
}

/// What a store keeps of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Keeps {
    /// The object, as it is kept by default.
    Typed,
    /// The decoded object, of a type in which only that is declared which is looked at.
    Own,
    /// The JSON of the object, which is not read.
    Packed,
    /// The JSON of the object, which the handler decodes.
    Decoded,
    /// Its metadata, which is all that is asked for; as JSON, by who can.
    Metadata,
}

/// A kind that can be followed.
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

/// A contender that follows a kind, in the background.
pub(crate) struct Following {
    /// Ready when the next whole picture has been taken.
    pub(crate) relisted: BoxFuture<'static, ()>,
    /// Reads each object by its name.
    pub(crate) read: Box<dyn Fn()>,
    /// What it keeps.
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

    /// Whether it is written in Go, and so measured by `bench/peers`.
    pub(crate) fn in_go(self) -> bool {
        matches!(
            self,
            Self::ClientGo | Self::ControllerRuntime | Self::GrafanaAppSdk
        )
    }

    /// Whether Windlass is compared with it, rather than both with it.
    pub(crate) fn is_peer(self) -> bool {
        !matches!(self, Self::Windlass | Self::Floor)
    }
}

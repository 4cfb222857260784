//! The programs of contenders that cargo does not build.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::contender::Contender;

/// Where they are; a contender without its program is not compared.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Programs {
    /// The peers in Go, built from bench/peers.
    #[arg(long)]
    peers: Option<PathBuf>,

    /// The real kube-apiserver, built from tests/kube-apiserver.
    #[arg(long)]
    kube_apiserver: Option<PathBuf>,
}

// === impl Programs ===

impl Programs {
    /// What the program of a contender is called; none if it is this one.
    pub(crate) fn of(contender: Contender) -> Option<&'static str> {
        match contender {
            Contender::ClientGo | Contender::ControllerRuntime => Some("peers"),
            Contender::KubeApiserver => Some("kube-apiserver"),
            Contender::Windlass | Contender::Runtime | Contender::Floor => None,
        }
    }

    pub(crate) fn peers(&self) -> Option<&Path> {
        self.peers.as_deref()
    }

    pub(crate) fn kube_apiserver(&self) -> Option<&Path> {
        self.kube_apiserver.as_deref()
    }

    /// Whether a contender can be compared.
    pub(crate) fn have(&self, contender: Contender) -> bool {
        match contender {
            Contender::ClientGo | Contender::ControllerRuntime => self.peers.is_some(),
            Contender::KubeApiserver => self.kube_apiserver.is_some(),
            Contender::Windlass | Contender::Runtime | Contender::Floor => true,
        }
    }
}

//! The programs of contenders that cargo does not build.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::contender::Contender;

/// The paths of these programs. A contender without its program is left out.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Programs {
    /// client-go and controller-runtime, built from bench/peers.
    #[arg(long)]
    peers: Option<PathBuf>,

    /// grafana-app-sdk, built from bench/peers/grafana.
    #[arg(long)]
    grafana_app_sdk: Option<PathBuf>,

    /// The real kube-apiserver, built from tests/kube-apiserver.
    #[arg(long)]
    kube_apiserver: Option<PathBuf>,
}

// === impl Programs ===

impl Programs {
    /// The name of a contender's program. None if it is this program.
    pub(crate) fn of(contender: Contender) -> Option<&'static str> {
        match contender {
            Contender::ClientGo | Contender::ControllerRuntime => Some("peers"),
            Contender::GrafanaAppSdk => Some("grafana-app-sdk"),
            Contender::KubeApiserver => Some("kube-apiserver"),
            Contender::Windlass | Contender::Runtime | Contender::Floor => None,
        }
    }

    /// The path of a contender's program. None if it is this program, or not available.
    pub(crate) fn get(&self, contender: Contender) -> Option<&Path> {
        match contender {
            Contender::ClientGo | Contender::ControllerRuntime => self.peers.as_deref(),
            Contender::GrafanaAppSdk => self.grafana_app_sdk.as_deref(),
            Contender::KubeApiserver => self.kube_apiserver.as_deref(),
            Contender::Windlass | Contender::Runtime | Contender::Floor => None,
        }
    }

    /// Whether a contender is available.
    pub(crate) fn have(&self, contender: Contender) -> bool {
        Self::of(contender).is_none() || self.get(contender).is_some()
    }
}

//! The Go programs that the tests run as clients of a server.

use std::path::PathBuf;

use crate::{Result, go::Program, repository::Repository};

/// A Go program that is a client of a server.
#[derive(Debug)]
pub(crate) struct GoClient {
    /// How errors and progress name it.
    pub(crate) name: &'static str,

    /// The variable in which the tests find the path of its binary.
    pub(crate) variable: &'static str,

    /// Where its sources are.
    pub(crate) folder: &'static str,

    /// The file in that folder that names its modules.
    mod_file: &'static str,

    /// Where it is built to, in the folder that cargo builds to.
    binary: &'static str,
}

/// client-go and controller-runtime with their defaults.
pub(crate) const LIBRARIES: GoClient = GoClient {
    name: "client-go and controller-runtime",
    variable: "WINDLASS_GO_CLIENTS",
    folder: "tests/go-clients",
    mod_file: "go.mod",
    binary: "go-clients/go-clients",
};

/// kubectl.
pub(crate) const KUBECTL: GoClient = GoClient {
    name: "kubectl",
    variable: "WINDLASS_KUBECTL",
    folder: "tests/kubectl",
    mod_file: "go.mod",
    binary: "kubectl/kubectl",
};

/// Helm.
pub(crate) const HELM: GoClient = GoClient {
    name: "Helm",
    variable: "WINDLASS_HELM",
    folder: "tests/helm",
    mod_file: "go.mod",
    binary: "helm/helm",
};

/// kubectl of an older minor version. The name of the file is the manager of the fields that
/// kubectl writes.
pub(crate) const OLDER_KUBECTL: GoClient = GoClient {
    name: "kubectl 1.34",
    variable: "WINDLASS_KUBECTL_1_34",
    folder: "tests/kubectl",
    mod_file: "go.1.34.mod",
    binary: "kubectl/1.34/kubectl",
};

/// The controller manager and the scheduler of Kubernetes.
pub(crate) const CONTROLLERS: GoClient = GoClient {
    name: "kube-controller-manager and kube-scheduler",
    variable: "WINDLASS_KUBE_CONTROLLERS",
    folder: "tests/kube-controllers",
    mod_file: "go.mod",
    binary: "kube-controllers/kube-controllers",
};

/// The modules whose version is that of Kubernetes, that of kubectl with another first number. The
/// controllers use both, and name the version of the first one only.
const MODULES: [&str; 2] = ["k8s.io/kubernetes ", "k8s.io/kubectl "];

// === impl GoClient ===

impl GoClient {
    /// Builds the program if that has not been done: its path, or why it cannot be built here.
    pub(crate) fn find(
        &self,
        repository: &Repository,
    ) -> Result<std::result::Result<PathBuf, String>> {
        let program = Program::with_modules(repository, self.folder, self.mod_file, self.binary)?;
        if let Some(reason) = program.missing(self.name) {
            return Ok(Err(reason));
        }
        let mut flags = "-s -w".to_owned();
        let version = MODULES.iter().find_map(|it| program.value(it).ok());
        if let Some(version) = version {
            // Without a comment, such as `// indirect`.
            let version = version.split_whitespace().next().unwrap_or_default();
            let version = version.replacen("v0.", "v1.", 1);
            flags.push_str(" -X k8s.io/component-base/version.gitVersion=");
            flags.push_str(&version);
        }
        program.build(self.name, &flags).map(Ok)
    }
}

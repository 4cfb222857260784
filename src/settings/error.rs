//! Errors of settings.

use std::path::PathBuf;

use crate::{
    leader::InvalidElection,
    source::{InvalidListWatch, InvalidShard},
};

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings in {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error.
        source: std::io::Error,
    },

    /// The file is not YAML, or has an unknown key or an invalid value.
    #[error("the settings in {} are invalid at `{key}`", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The path of the key, such as `operator.drainTimeout`; `.` for the whole file.
        key: String,
        /// The error, with the line.
        source: serde_yaml_ng::Error,
    },

    /// Two sources cannot be merged, because a value has no JSON form.
    #[error("the settings of two sources cannot be merged at `{key}`")]
    Merge {
        /// The path of the key, such as `operator.tlsKey`.
        key: String,
        /// The error.
        source: serde_json::Error,
    },

    /// A setting has no effect without another one.
    #[error(
        "the setting {} has no effect without {}: set both, or none of them",
        named(setting),
        named(needs)
    )]
    Incomplete {
        /// The key in a file.
        setting: &'static str,
        /// The key of the other setting.
        needs: &'static str,
    },

    /// A setting has no effect, because the operator does not use it.
    #[error(
        "the setting {} has no effect in this operator, because it uses {instead}: remove it",
        named(setting)
    )]
    Unused {
        /// The key in a file.
        setting: &'static str,
        /// What it uses instead.
        instead: &'static str,
    },

    /// The health pages would be served over TLS, because they have the address of the metrics.
    #[error(
        "the setting {} is that of the metrics, and needs {}: otherwise the health pages are served over \
         TLS too, and the probes of the kubelet fail",
        named("tlsCertificate"),
        named("metricsAddress")
    )]
    TlsOfProbes,

    /// A client cannot be created.
    #[error("cannot create the client that authorizes metrics")]
    Client {
        /// The error.
        #[from]
        source: kube::Error,
    },

    /// The settings of the lease contradict each other.
    #[error("the settings of the leader election are invalid")]
    Election {
        /// The error.
        #[from]
        source: InvalidElection,
    },

    /// There are several shards, and this pod has none of them.
    #[error("the shard of this pod cannot be found by its name in `POD_NAME`")]
    Shard {
        /// The error.
        #[from]
        source: InvalidShard,
    },

    /// The list of namespaces has an empty name.
    #[error(
        "the setting {} has an empty name: remove it, or remove the setting to watch all namespaces",
        named("namespaces")
    )]
    EmptyNamespace,

    /// A selector is invalid.
    #[error("the settings of the watch are invalid")]
    Watch {
        /// The error.
        #[from]
        source: InvalidListWatch,
    },
}

/// A key of a file with the option of the command line: `` `queueSize` (`--queue-size`) ``.
fn named(setting: &str) -> String {
    let mut option = String::new();
    for letter in setting.chars() {
        if letter.is_ascii_uppercase() {
            option.push('-');
        }
        option.push(letter.to_ascii_lowercase());
    }
    format!("`{setting}` (`--{option}`)")
}

/// An error for the first of `settings` that is set.
pub(super) fn incomplete(
    settings: &[(&'static str, bool)],
    needs: &'static str,
) -> Result<(), SettingsError> {
    match settings.iter().find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(SettingsError::Incomplete { setting, needs }),
        None => Ok(()),
    }
}

/// An error for the first of `settings` that is set, in an operator that uses something else.
pub(super) fn unused(
    settings: &[(&'static str, bool)],
    instead: &'static str,
) -> Result<(), SettingsError> {
    match settings.iter().find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(SettingsError::Unused { setting, instead }),
        None => Ok(()),
    }
}

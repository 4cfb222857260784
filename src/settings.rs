//! Settings of an operator from the command line, the environment and a file.
//!
//! [`Settings`] has the settings of the builders as options of [`clap`], which also reads each from an
//! environment variable, and as fields of a YAML file. What is not set keeps the default of the builder.
//! The command line wins over the environment, and the environment over the file.
//!
//! # Example
//!
//! ```
//! use clap::Parser;
//! use windlass::settings::Settings;
//!
//! /// Serves websites.
//! #[derive(Parser)]
//! struct Cli {
//!     /// A YAML file with settings.
//!     #[arg(long, env = "OPERATOR_CONFIG")]
//!     config: Option<std::path::PathBuf>,
//!
//!     #[command(flatten)]
//!     settings: Settings,
//! }
//!
//! # let file = std::env::temp_dir().join(format!("windlass-settings-{}.yaml", std::process::id()));
//! # std::fs::write(&file, "controller: { concurrency: 8 }\noperator: { drainTimeout: 50s }")?;
//! let cli = Cli::try_parse_from(["operator", "--concurrency", "4"])?;
//! let settings = cli.settings.over(&Settings::read(&file)?);
//! assert_eq!(settings.controller.concurrency.map(|it| it.get()), Some(4));
//! assert_eq!(settings.operator.drain_timeout.map(|it| it.as_secs()), Some(50));
//! assert_eq!(settings.operator.lease_duration, None);
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod controller;
mod operator;
mod period;
mod watch;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use self::{controller::ControllerSettings, operator::OperatorSettings, watch::WatchSettings};

/// All settings of an operator with one controller. An operator with several controllers can have
/// `ControllerSettings` for each in a structure of its own, and read it with [`read`].
///
/// A file has one section for each field, with keys in camel case. Unknown keys are errors.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Of the process.
    #[command(flatten)]
    pub operator: OperatorSettings,

    /// Of the controller.
    #[command(flatten)]
    pub controller: ControllerSettings,

    /// Of the primary objects.
    #[command(flatten)]
    pub watch: WatchSettings,
}

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
}

// === impl Settings ===

impl Settings {
    /// Reads a YAML file.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the file cannot be read, or has an unknown key or an invalid value.
    pub fn read(file: impl AsRef<Path>) -> Result<Self, SettingsError> {
        read(file)
    }

    /// These settings, and those of `lower` that are not set here.
    #[must_use]
    pub fn over(&self, lower: &Self) -> Self {
        over(self, lower)
    }
}

/// Reads any structure of settings from a YAML file.
///
/// # Errors
///
/// [`SettingsError`] if the file cannot be read or does not decode.
pub fn read<T: DeserializeOwned>(file: impl AsRef<Path>) -> Result<T, SettingsError> {
    let file = file.as_ref();
    let text = fs::read_to_string(file).map_err(|source| SettingsError::Read {
        file: file.to_owned(),
        source,
    })?;
    let document = serde_yaml_ng::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(document).map_err(|error| SettingsError::Invalid {
        file: file.to_owned(),
        key: error.path().to_string(),
        source: error.into_inner(),
    })
}

/// The fields of `upper`, and those of `lower` that `upper` does not have. If one of the two has no
/// JSON form, the result is `upper`.
#[must_use]
pub fn over<T: Clone + Serialize + DeserializeOwned>(upper: &T, lower: &T) -> T {
    let merged = serde_json::to_value(upper).and_then(|above| {
        let mut merged = serde_json::to_value(lower)?;
        set(&mut merged, above);
        serde_json::from_value(merged)
    });
    merged.unwrap_or_else(|_| upper.clone())
}

/// Sets what is set in `above`.
fn set(below: &mut Value, above: Value) {
    match (below, above) {
        (_, Value::Null) => {}
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                set(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

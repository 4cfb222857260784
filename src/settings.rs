//! Settings of an operator from the command line, the environment and a file.
//!
//! [`Settings`] has the settings of the builders as options of [`clap`], which also reads each from an
//! environment variable, and as fields of a YAML file. What is not set keeps the default of the builder,
//! except that an operator has leader election. The command line wins over the environment, and the
//! environment over the file. An empty variable, such as one that a Helm chart leaves blank, is not set. A
//! setting that has no effect is an error.
//!
//! Settings that change what handlers may rely on are not here: names, finalizers, predicates, the
//! coalescing of events, and what happens to calls at a stop and after a delete.
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
//! let settings = cli.settings.with_fallback(&Settings::read(&file)?)?;
//! assert_eq!(settings.controller.concurrency.map(|it| it.get()), Some(4));
//! assert_eq!(settings.operator.drain_timeout.map(|it| it.as_secs()), Some(50));
//! assert_eq!(settings.operator.lease_duration, None);
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod controller;
mod error;
mod operator;
mod period;
mod watch;

use std::{env, fs, path::Path};

use clap::{
    Args,
    builder::{OsStr, Resettable},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use self::{
    controller::ControllerSettings,
    error::SettingsError,
    operator::{HealthDetailsSetting, OperatorSettings},
    watch::WatchSettings,
};

/// All settings of an operator with one controller. An operator with several controllers can have
/// `ControllerSettings` for each in a structure of its own, and read it with [`read`].
///
/// A file has one section for each field, with keys in camel case. Unknown keys are errors.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Settings of the process.
    #[command(flatten)]
    pub operator: OperatorSettings,

    /// Settings of the controller.
    #[command(flatten)]
    pub controller: ControllerSettings,

    /// Settings of the lists and watches of the primary objects.
    #[command(flatten)]
    pub watch: WatchSettings,
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

    /// These settings, and those of `fallback` that are not set here. An empty text here is not set, and
    /// neither is a list with only an empty text.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Merge`] with the key if a path is not UTF-8.
    pub fn with_fallback(&self, fallback: &Self) -> Result<Self, SettingsError> {
        with_fallback(self, fallback)
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

/// The fields of `settings`, and those of `fallback` that `settings` does not have. Each field that can
/// come from both is an [`Option`]. An empty text in `settings` is not set, and neither is a list with only
/// an empty text.
///
/// # Errors
///
/// [`SettingsError::Merge`] if one of the two has no JSON form, such as a path that is not UTF-8.
pub fn with_fallback<T: Serialize + DeserializeOwned>(
    settings: &T,
    fallback: &T,
) -> Result<T, SettingsError> {
    let mut merged = to_value(fallback)?;
    replace(&mut merged, to_value(settings)?);
    serde_path_to_error::deserialize(merged).map_err(|error| SettingsError::Merge {
        key: error.path().to_string(),
        source: error.into_inner(),
    })
}

/// The variable of a setting, or none if it is empty.
fn unless_empty(variable: &'static str) -> Resettable<OsStr> {
    match env::var_os(variable) {
        Some(value) if value.is_empty() => Resettable::Reset,
        _ => Resettable::Value(variable.into()),
    }
}

fn to_value<T: Serialize>(settings: &T) -> Result<Value, SettingsError> {
    let mut key = serde_path_to_error::Track::new();
    let serializer = serde_path_to_error::Serializer::new(serde_json::value::Serializer, &mut key);
    let value = settings.serialize(serializer);
    value.map_err(|source| SettingsError::Merge {
        key: key.path().to_string(),
        source,
    })
}

/// Replaces what is set in `settings`.
fn replace(merged: &mut Value, settings: Value) {
    match (merged, settings) {
        (_, settings) if is_unset(&settings) => {}
        (Value::Object(merged), Value::Object(settings)) => {
            for (key, value) in settings {
                replace(merged.entry(key).or_insert(Value::Null), value);
            }
        }
        (merged, settings) => *merged = settings,
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.len() == 1 && items[0] == "",
        _ => false,
    }
}

//! The options of creates, updates, patches and applies.

use serde_json::{Map, Value};

use super::super::{FieldOrder, Query};
use super::dry_run;
use crate::metadata::{self, MAX_MANAGER};
use crate::status::{FieldError, Status};

/// The options of a create, update or patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Whether the request is a dry run, which stores nothing.
    pub(crate) dry_run: bool,
    /// The handling of fields that the schema does not define.
    pub(crate) unknown_fields: UnknownFields,
    /// The messages about duplicate fields of the body, which are handled like unknown fields.
    pub(crate) duplicates: Vec<String>,
    /// The order of the messages about fields of the body.
    pub(crate) field_order: FieldOrder,
    /// The field manager; empty if the request has none.
    pub(crate) manager: String,
    /// Whether the request is a server-side apply.
    pub(crate) is_apply: bool,
    /// Whether an apply overrides conflicts with other field managers.
    pub(crate) force: bool,
    /// The user of the request as fields of an object, for the kinds that store it.
    pub(crate) user: Map<String, Value>,
}

/// The type of a write, which decides the allowed options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    /// A patch other than server-side apply.
    Patch,
    /// Server-side apply, which requires a field manager and allows `force`.
    Apply,
}

/// The handling of fields that the schema does not define. They are dropped in each case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// They are not reported.
    Ignore,
    /// The response has a warning.
    #[default]
    Warn,
    /// The object is rejected.
    Refuse,
    /// They are not reported, and neither is `null`, because the apply has checked the fields.
    Applied,
}

// === impl WriteOptions ===

impl WriteOptions {
    /// Rejects a configuration with duplicate fields, if the client requests it.
    ///
    /// # Errors
    ///
    /// 400 with the fields.
    pub(crate) fn check_duplicates(&self) -> Result<(), Status> {
        if self.unknown_fields == UnknownFields::Refuse && !self.duplicates.is_empty() {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {}",
                self.duplicates.join(", ")
            )));
        }
        Ok(())
    }

    /// Parses the options of a write. The default field manager is the first part of `user_agent`.
    ///
    /// # Errors
    ///
    /// 422 for an unsupported value, and for an apply without a field manager.
    pub(crate) fn parse(query: &Query, kind: WriteKind, user_agent: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.get("fieldManager");
        let force = query.flag("force");
        if kind == WriteKind::Apply && manager.is_empty() {
            let why = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", why));
        }
        if kind == WriteKind::Patch && force.is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        errors.extend(metadata::field_manager(manager, "fieldManager"));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let validation = query.get("fieldValidation");
        let known = ["", "Ignore", "Strict", "Warn"];
        if !known.contains(&validation) {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                &validation.into(),
                known,
            ));
        }
        let unknown_fields = match validation {
            "Ignore" => UnknownFields::Ignore,
            "Strict" => UnknownFields::Refuse,
            _ => UnknownFields::Warn,
        };
        if errors.is_empty() {
            Ok(Self {
                dry_run,
                unknown_fields,
                duplicates: Vec::new(),
                field_order: FieldOrder::default(),
                manager: if manager.is_empty() {
                    manager_of_agent(user_agent)
                } else {
                    manager.to_owned()
                },
                user: Map::new(),
                is_apply: kind == WriteKind::Apply,
                force: force.unwrap_or(false),
            })
        } else {
            Err(Status::invalid_options(kind.options(), &errors))
        }
    }
}

// === impl WriteKind ===

impl WriteKind {
    /// Returns the kind of the options, such as `PatchOptions`.
    const fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Returns the default field manager of a client: the text before the first slash of `User-Agent`.
fn manager_of_agent(user_agent: &str) -> String {
    let mut manager = String::new();
    let name = user_agent.split('/').next().unwrap_or_default();
    for c in name.chars().filter(|c| !c.is_control()) {
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

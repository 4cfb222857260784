//! The user of a request: name, uid, groups and extra fields. *(pure)*
//!
//! The service identifies the user of each request; authorization and reviews read it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::authorize::Attributes;

/// The user that sends a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// The group of all users except [`ANONYMOUS`].
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// The group whose requests are always authorized, and exempt from request limits.
pub(crate) const MASTERS: &str = "system:masters";

/// The name of an unauthenticated user, which a request can impersonate.
const ANONYMOUS: &str = "system:anonymous";

// === impl User ===

impl User {
    /// Returns the user of a request without a token, a member of [`MASTERS`].
    pub(crate) fn admin() -> Self {
        Self {
            name: Attributes::USER.to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the user of a service account, with its groups.
    pub(crate) fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.to_owned(),
            ..Self::default()
        };
        user.add_implied_groups();
        user
    }

    /// Adds the groups that the name of the user implies: the service account groups, if the user
    /// has no groups, and `system:authenticated` or `system:unauthenticated`.
    pub(crate) fn add_implied_groups(&mut self) {
        let account = self.name.strip_prefix("system:serviceaccount:");
        if let Some((namespace, _)) = account.and_then(|it| it.split_once(':'))
            && self.groups.is_empty()
        {
            self.groups.push("system:serviceaccounts".to_owned());
            self.groups
                .push(format!("system:serviceaccounts:{namespace}"));
        }
        let all = match self.name.as_str() {
            ANONYMOUS => "system:unauthenticated",
            _ => AUTHENTICATED,
        };
        if !self.groups.iter().any(|group| group == all) {
            self.groups.push(all.to_owned());
        }
    }

    /// Returns the user as the `userInfo` of a review.
    pub(crate) fn to_value(&self) -> Value {
        self.to_fields().into()
    }

    /// Returns the fields of `userInfo`: `username`, and `uid`, `groups` and `extra` if not empty.
    pub(crate) fn to_fields(&self) -> Map<String, Value> {
        let mut info = Map::new();
        info.insert("username".to_owned(), self.name.as_str().into());
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), self.uid.as_str().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), self.groups.as_slice().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter();
            let extra = extra.map(|(key, values)| (key.clone(), values.as_slice().into()));
            info.insert("extra".to_owned(), Value::Object(extra.collect()));
        }
        info
    }
}

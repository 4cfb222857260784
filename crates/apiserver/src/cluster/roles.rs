//! Role-based access control: evaluates the roles of users.
//!
//! The initial roles and bindings (`roles.jsonl`, one resource and object a line; its origin and
//! license are in `roles.origin.md`) are those that kube-apiserver v1.36.3 creates. A role that
//! aggregates others has their rules, which in a cluster a controller writes into it.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Cluster;
use super::pods::selects;
use crate::authorize::Attributes;
use crate::store::Key;
use crate::user::{MASTERS, User};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The roles and bindings that kube-apiserver creates.
const INITIAL: &str = include_str!("roles.jsonl");

// === impl Cluster ===

impl Cluster {
    /// Creates the initial roles and bindings, except those that exist.
    pub(crate) fn create_roles(&mut self, now: &str) {
        for line in INITIAL.lines() {
            let parsed = serde_json::from_str::<(String, Value)>(line);
            debug_assert!(parsed.is_ok(), "the file is ours: {line}");
            let Ok((plural, object)) = parsed else {
                continue;
            };
            let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
            let manager = "kube-apiserver";
            self.create_as(manager, [GROUP, &plural], namespace.as_deref(), object, now);
        }
    }

    /// Returns whether the roles of a user allow a request.
    pub(crate) fn permits(&self, request: &Attributes) -> bool {
        let user = User {
            name: request.user.clone(),
            groups: request.groups.clone(),
            ..User::default()
        };
        if user.groups.iter().any(|group| group == MASTERS) {
            return true;
        }
        let rules = self.rules_of(&user, &request.namespace);
        rules.iter().any(|rule| allows(rule, request))
    }

    /// Returns whether the roles of a user allow a request for a path that is not a resource.
    pub(crate) fn permits_path(&self, user: &User, verb: &str, path: &str) -> bool {
        let rules = self.rules_of(user, "");
        rules.iter().any(|rule| {
            let texts = |field: &str| list(&rule[field]).iter().filter_map(Value::as_str);
            let mut verbs = texts("verbs");
            verbs.any(|it| it == "*" || it == verb)
                && texts("nonResourceURLs").any(|url| match url.strip_suffix('*') {
                    Some(start) => path.starts_with(start),
                    None => url == path,
                })
        })
    }

    /// Returns the rules that apply to a user in a namespace; for an empty namespace, at the cluster
    /// scope.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Vec<Value> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return vec![
                json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
                json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
            ];
        }
        let tables = ["clusterrolebindings", "rolebindings"].map(|it| format!("{it}.{GROUP}"));
        let [everywhere, here] = tables.each_ref().map(|table| self.store.objects(table));
        let here = here.filter(|(key, _)| !namespace.is_empty() && &*key.namespace == namespace);
        let bindings = everywhere.chain(here);
        let bindings = bindings.filter(|(key, binding)| {
            list(&binding.value()["subjects"])
                .iter()
                .any(|subject| is_subject(subject, user, &key.namespace))
        });
        let mut rules = Vec::new();
        for (key, binding) in bindings {
            rules.extend(self.rules_of_role(&binding.value()["roleRef"], &key.namespace));
        }
        rules
    }

    /// Returns the rules of the role of a binding in `namespace`, and of the roles that it aggregates,
    /// which can aggregate others: `admin` aggregates `edit`, which aggregates `view`.
    fn rules_of_role(&self, reference: &Value, namespace: &str) -> Vec<Value> {
        let (plural, namespace) = match reference["kind"].as_str() {
            Some("Role") => ("roles", namespace),
            _ => ("clusterroles", ""),
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let table = format!("{plural}.{GROUP}");
        let first = self.store.get(&table, &Key::new(namespace, name));
        let mut pending: Vec<_> = first.into_iter().collect();
        // Users can write roles that aggregate each other.
        let mut added = HashSet::from([name]);
        let mut rules = Vec::new();
        while let Some(role) = pending.pop() {
            rules.extend_from_slice(list(&role.value()["rules"]));
            let selectors = role
                .value()
                .pointer("/aggregationRule/clusterRoleSelectors");
            for selector in selectors.map(list).unwrap_or_default() {
                for (key, other) in self.store.objects(&table) {
                    if selects(selector, other) && added.insert(&key.name) {
                        pending.push(other);
                    }
                }
            }
        }
        rules
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a binding in `namespace` has the user as a subject.
fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    let name = text("name");
    match text("kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let named = text("namespace");
            let namespace = if named.is_empty() { namespace } else { named };
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

/// Returns whether a rule allows a request.
fn allows(rule: &Value, request: &Attributes) -> bool {
    let names = |field: &str, wanted: &str| {
        let mut items = list(&rule[field]).iter().filter_map(Value::as_str);
        items.any(|item| item == "*" || item == wanted)
    };
    let resource = if request.subresource.is_empty() {
        request.resource.clone()
    } else {
        format!("{}/{}", request.resource, request.subresource)
    };
    // `*/scale` is the scale of all resources.
    let is_any = !request.subresource.is_empty()
        && names("resources", &format!("*/{}", request.subresource));
    let only = list(&rule["resourceNames"]);
    names("verbs", &request.verb)
        && names("apiGroups", &request.group)
        && (names("resources", &resource) || is_any)
        && (only.is_empty() || only.iter().any(|name| *name == *request.name))
}

//! A value with its path, and the list of validation errors.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::metadata::syntax;
use crate::status::FieldError;

/// The validation errors of an object, in the order in which Kubernetes reports them.
#[derive(Debug, Default)]
pub(super) struct Faults(pub(super) Vec<FieldError>);

/// A JSON object, and its path in the validated object.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a str,
}

// === impl At ===

impl<'a> At<'a> {
    /// The path of a field.
    pub(super) fn path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// The value of a field, if it is set.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.value.get(field).filter(|value| !value.is_null())
    }

    /// The text of a field; empty if it is not set.
    pub(super) fn text(&self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self, field: &str) -> Option<i64> {
        self.get(field).and_then(Value::as_i64)
    }

    pub(super) fn list(&self, field: &str) -> &'a [Value] {
        let list = self.get(field).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    pub(super) fn map(&self, field: &str) -> Option<&'a Map<String, Value>> {
        self.get(field).and_then(Value::as_object)
    }

    /// Calls `check` with the object in a field, if it is set.
    pub(super) fn inner(&self, field: &str, check: impl FnOnce(At<'_>)) {
        if let Some(value) = self.get(field) {
            check(At {
                value,
                path: &self.path(field),
            });
        }
    }

    /// Calls `check` with each item of a list.
    pub(super) fn each(&self, field: &str, mut check: impl FnMut(At<'_>)) {
        for (at, value) in self.list(field).iter().enumerate() {
            let path = format!("{}[{at}]", self.path(field));
            check(At { value, path: &path });
        }
    }
}

// === impl Faults ===

impl Faults {
    pub(super) fn add(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(super) fn invalid(
        &mut self,
        path: impl Into<String>,
        value: &Value,
        why: impl Into<String>,
    ) {
        self.add(FieldError::invalid(path, value, why));
    }

    pub(super) fn required(&mut self, path: impl Into<String>, why: &str) {
        self.add(FieldError::required(path, why));
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, why: &str) {
        self.add(FieldError::forbidden(path, why));
    }

    /// Checks that a text is not empty. Returns whether it is not.
    pub(super) fn needs(&mut self, at: At<'_>, field: &str) -> bool {
        let is_there = !at.text(field).is_empty();
        if !is_there {
            self.required(at.path(field), "");
        }
        is_there
    }

    /// Checks that a text is one of `values`, or empty.
    pub(super) fn one_of(&mut self, at: At<'_>, field: &str, values: &[&str]) {
        let text = at.text(field);
        if !text.is_empty() && !values.contains(&text) {
            self.add(FieldError::not_supported(
                at.path(field),
                &text.into(),
                values,
            ));
        }
    }

    /// Checks that a text is one of `values`, or not set. An empty text is an error.
    pub(super) fn must_be_one_of(&mut self, at: At<'_>, field: &str, values: &[&str]) {
        if let Some(text) = at.get(field)
            && !text.as_str().is_some_and(|text| values.contains(&text))
        {
            self.add(FieldError::not_supported(at.path(field), text, values));
        }
    }

    /// Checks that a number, if it is set, is at least `least`.
    pub(super) fn at_least(&mut self, at: At<'_>, field: &str, least: i64) {
        if let Some(number) = at.number(field)
            && number < least
        {
            let why = format!("must be greater than or equal to {least}");
            self.invalid(at.path(field), &number.into(), why);
        }
    }

    /// Checks that numbers are not negative.
    pub(super) fn not_negative(&mut self, at: At<'_>, fields: &[&str]) {
        for field in fields {
            self.at_least(at, field, 0);
        }
    }

    /// Adds one error for each of the `reasons`.
    pub(super) fn wrong(
        &mut self,
        path: impl Into<String>,
        value: &Value,
        reasons: impl IntoIterator<Item = String>,
    ) {
        let path = path.into();
        for why in reasons {
            self.invalid(path.as_str(), value, why);
        }
    }

    /// Checks a text with `rule`, even if it is empty.
    pub(super) fn must_follow<R>(&mut self, at: At<'_>, field: &str, rule: impl Fn(&str) -> R)
    where
        R: IntoIterator<Item = String>,
    {
        let text = at.text(field);
        self.wrong(at.path(field), &text.into(), rule(text));
    }

    /// Checks a text with `rule`, unless it is empty.
    pub(super) fn follows<R>(&mut self, at: At<'_>, field: &str, rule: impl Fn(&str) -> R)
    where
        R: IntoIterator<Item = String>,
    {
        if !at.text(field).is_empty() {
            self.must_follow(at, field, rule);
        }
    }

    /// Checks that a text is not empty, and checks it with `rule`.
    pub(super) fn needs_valid<R>(&mut self, at: At<'_>, field: &str, rule: impl Fn(&str) -> R)
    where
        R: IntoIterator<Item = String>,
    {
        if self.needs(at, field) {
            self.must_follow(at, field, rule);
        }
    }

    /// Checks the texts of a list with `rule`.
    pub(super) fn items<R>(&mut self, at: At<'_>, field: &str, rule: impl Fn(&str) -> R)
    where
        R: IntoIterator<Item = String>,
    {
        for (number, item) in at.list(field).iter().enumerate() {
            let path = format!("{}[{number}]", at.path(field));
            self.wrong(path, item, rule(item.as_str().unwrap_or_default()));
        }
    }

    /// Checks a qualified name.
    pub(super) fn qualified(&mut self, path: String, name: &str) {
        self.wrong(path, &name.into(), syntax::qualified_name(name));
    }

    /// Checks a port number.
    pub(super) fn port(&mut self, path: String, number: &Value) {
        let is_port = number
            .as_i64()
            .is_some_and(|port| (1..=65_535).contains(&port));
        if !is_port {
            self.invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }

    /// Checks a port number or a port name.
    pub(super) fn port_or_name(&mut self, path: &str, port: &Value) {
        match port.as_str() {
            Some(name) => self.wrong(path, port, syntax::port_name(name)),
            None => self.port(path.to_owned(), port),
        }
    }

    /// Checks a number or a percentage.
    pub(super) fn share(&mut self, at: At<'_>, field: &str) {
        const FORM: &str = "a valid percent string must be a numeric string followed by an ending \
                            '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        let Some(value) = at.get(field) else {
            return;
        };
        match value.as_str() {
            Some(text) if percent(text).is_none() => self.invalid(at.path(field), value, FORM),
            Some(_) => {}
            None => self.at_least(at, field, 0),
        }
    }

    /// Checks that a percentage is at most 100%.
    pub(super) fn not_above_all(&mut self, at: At<'_>, field: &str) {
        if let Some(value) = at.get(field)
            && value.as_str().and_then(percent).is_some_and(|it| it > 100)
        {
            self.invalid(at.path(field), value, "must not be greater than 100%");
        }
    }

    pub(super) fn address(&mut self, path: String, value: &Value) {
        let is_address = value
            .as_str()
            .is_some_and(|it| it.parse::<IpAddr>().is_ok());
        if !is_address {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            self.invalid(path, value, why);
        }
    }

    /// Checks that an address is reachable from other machines.
    pub(super) fn endpoint(&mut self, path: String, value: &Value) {
        let Some(address) = value.as_str().and_then(|it| it.parse::<IpAddr>().ok()) else {
            self.address(path, value);
            return;
        };
        let (is_near, is_near_group) = match address {
            IpAddr::V4(address) => (
                address.is_link_local(),
                matches!(address.octets(), [224, 0, 0, _]),
            ),
            IpAddr::V6(address) => (
                address.is_unicast_link_local(),
                address.segments()[0] & 0xff0f == 0xff02,
            ),
        };
        let found = value.as_str().unwrap_or_default();
        let unspecified = format!("may not be unspecified ({found})");
        let rules = [
            (address.is_unspecified(), unspecified.as_str()),
            (
                address.is_loopback(),
                "may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                is_near,
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ),
            (
                is_near_group,
                "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
        ];
        let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
        self.wrong(path, value, broken.map(|(_, why)| why.to_owned()));
    }

    /// Checks the keys and values of a map of labels.
    pub(super) fn labels(&mut self, at: At<'_>, field: &str) {
        let path = at.path(field);
        for (key, value) in at.map(field).into_iter().flatten() {
            self.qualified(path.clone(), key);
            let wrong = value.as_str().and_then(syntax::label_value);
            self.wrong(path.as_str(), value, wrong);
        }
    }
}

/// The number before a percent sign.
pub(super) fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

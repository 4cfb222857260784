//! The verb list: the objects of a resource in the current or an earlier state, with pages.

use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::{Cluster, selector};
use crate::registry::Resource;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::wire::{ListOptions, VersionMatch, read_version};

/// One page of a list, or a complete list.
#[derive(Debug)]
pub(crate) struct Page {
    /// The objects, in order.
    pub(crate) items: Vec<Arc<Stored>>,
    /// The revision of the returned state.
    pub(crate) revision: u64,
    /// The continue token of the next page. Empty on the last page.
    pub(crate) continue_token: String,
    /// The number of remaining objects, if it is known.
    pub(crate) remaining: Option<usize>,
}

/// The content of a continue token: where a list continues.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Continue {
    v: String,
    /// -1 for the newest state.
    rv: i64,
    /// The first key of the next page.
    start: String,
}

/// The version of continue tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

// === impl Cluster ===

impl Cluster {
    /// Lists the objects of `resource` in `namespace`, or in all namespaces.
    ///
    /// The caller must have waited for a `resourceVersion` from the future.
    ///
    /// # Errors
    ///
    /// 400, 410 or 504.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Page, Status> {
        let selector = selector(resource, options)?;
        if !options.continue_token.is_empty() {
            let token = Continue::decode(&options.continue_token)?;
            let after = token.last_key(namespace)?;
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return self.list_on(resource, namespace, &selector, options, (token, after));
        }
        let wanted = read_version(&options.resource_version)?;
        let limit = if selector.fields.name().is_some() {
            // A list of one object has one page.
            0
        } else {
            options.limit
        };
        let current = self.store.revision();
        match (wanted, options.version_match) {
            (Some(wanted), _) if wanted > current => {
                Err(Status::too_large_resource_version(wanted, current))
            }
            (Some(0), _) => self.page(resource, namespace, &selector, current, None, 0),
            (Some(wanted), Some(VersionMatch::Exact)) => {
                self.page(resource, namespace, &selector, wanted, None, limit)
            }
            // Older clients rely on this meaning of a page without `resourceVersionMatch`.
            (Some(wanted), None) if options.limit > 0 => {
                self.page(resource, namespace, &selector, wanted, None, limit)
            }
            _ => self.page(resource, namespace, &selector, current, None, limit),
        }
    }

    /// The page of a continue token.
    fn list_on(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: &Selector,
        options: &ListOptions,
        (token, after): (Continue, Key),
    ) -> Result<Page, Status> {
        let current = self.store.revision();
        let revision = match token.rv {
            rv if rv < 0 => current,
            rv => u64::try_from(rv).unwrap_or_default(),
        };
        if revision > current {
            return Err(Status::too_large_resource_version(revision, current));
        }
        if self.store.remembers(&resource.table, revision).is_err() {
            let fresh = Continue { rv: -1, ..token };
            return Err(Status::continue_expired(fresh.encode()));
        }
        self.page(
            resource,
            namespace,
            selector,
            revision,
            Some(after),
            options.limit,
        )
    }

    fn page(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: &Selector,
        revision: u64,
        after: Option<Key>,
        limit: usize,
    ) -> Result<Page, Status> {
        let first = Key::new(namespace.unwrap_or_default(), "");
        let start = match after {
            Some(after) if after > first => Bound::Excluded(after),
            _ => Bound::Included(first),
        };
        let remembered = self.store.remembers(&resource.table, revision);
        let objects = remembered
            .and_then(|()| self.store.objects_at(&resource.table, revision, start))
            .map_err(|_| {
                Status::expired("The resourceVersion for the provided list is too old.")
            })?;
        let is_wanted = |key: &Key| namespace.is_none_or(|namespace| &*key.namespace == namespace);
        let mut rest = objects.take_while(|(key, _)| is_wanted(key));
        let mut items = Vec::new();
        let mut last = None;
        while limit == 0 || items.len() < limit {
            let Some((key, object)) = rest.next() else {
                break;
            };
            last = Some(key);
            if resource.selects(selector, object) {
                items.push(object.clone());
            }
        }
        let is_last = rest.next().is_none();
        let continue_token = match last {
            Some(last) if !is_last => Continue::after(last, revision).encode(),
            _ => String::new(),
        };
        // With a selector, counting would require a check of all remaining objects.
        let remaining = (!is_last && selector.is_everything()).then(|| rest.count() + 1);
        Ok(Page {
            items,
            revision,
            continue_token,
            remaining,
        })
    }
}

// === impl Continue ===

impl Continue {
    fn after(key: &Key, revision: u64) -> Self {
        let start = format!("{}/{}\u{0}", key.namespace, key.name);
        let rv = i64::try_from(revision).unwrap_or(i64::MAX);
        Self {
            v: TOKEN_VERSION.to_owned(),
            rv,
            start,
        }
    }

    fn encode(&self) -> String {
        let json = serde_json::json!({ "v": self.v, "rv": self.rv, "start": self.start });
        URL_SAFE_NO_PAD.encode(json.to_string())
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| {
            let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let strange = token.bytes().position(|byte| !is_digit(byte));
            // Go reports an incomplete group of four at its beginning.
            let at = strange.unwrap_or(token.len() - token.len() % 4);
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: illegal base64 data at input \
                 byte {at}"
            ))
        })?;
        let invalid = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let decoded: Self = serde_json::from_slice(&bytes).map_err(|error| {
            // The error does not name the position in the decoded text, which clients cannot read.
            invalid(&error.to_string())
        })?;
        if decoded.v != TOKEN_VERSION {
            let version = &decoded.v;
            return Err(invalid(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        if decoded.rv == 0 {
            return Err(invalid(&format!(
                "incorrect encoded start resourceVersion (version {TOKEN_VERSION})"
            )));
        }
        Ok(decoded)
    }

    /// The last key of the previous page.
    fn last_key(&self, namespace: Option<&str>) -> Result<Key, Status> {
        if self.start.is_empty() {
            return Err(Status::bad_request(format!(
                "invalid continue token: continue key is not valid: encoded start key empty \
                 (version {TOKEN_VERSION})"
            )));
        }
        // As in Kubernetes, the key of a token is a clean path.
        let is_clean = |part: &str| !matches!(part, "" | "." | "..");
        let start = self.start.trim_start_matches('/');
        if start.is_empty() || !start.split('/').all(is_clean) {
            return Err(Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {}",
                self.start
            )));
        }
        let start = self.start.strip_suffix('\u{0}').unwrap_or(&self.start);
        // The tokens of this server have both parts.
        let (namespace, name) = start
            .split_once('/')
            .unwrap_or((namespace.unwrap_or_default(), start));
        Ok(Key::new(namespace, name))
    }
}

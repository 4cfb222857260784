//! One page of a list, its items not yet decoded. *(pure)*

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<'a> {
    pub(crate) metadata: PageMeta,

    /// `null` is how some servers say that there are none.
    #[serde(borrow, default, deserialize_with = "null_is_empty")]
    pub(crate) items: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMeta {
    /// The version of the whole list, the same on every page.
    #[serde(default)]
    pub(crate) resource_version: Option<String>,

    /// Where the next page begins; empty on the last.
    #[serde(rename = "continue", default)]
    continue_token: Option<String>,
}

// === impl PageMeta ===

impl PageMeta {
    /// Where the next page begins, unless this is the last.
    pub(crate) fn next(&self) -> Option<&str> {
        self.continue_token
            .as_deref()
            .filter(|token| !token.is_empty())
    }
}

fn null_is_empty<'de: 'a, 'a, D>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Vec<&'a RawValue>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

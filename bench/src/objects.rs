//! The objects of the load server: byte templates with placeholders.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the first object. It has ten digits, so that all later ones have ten too.
pub(crate) const FIRST_VERSION: u64 = 1_000_000_000;

/// The annotation with the time at which an event was sent, in nanoseconds of the monotonic clock.
pub(crate) const SENT: &str = "bench/sent";

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// 1 KB, of which 30 % are managed fields.
    Configmap,
    /// 7.9 KB, of which 30 % are managed fields; three containers.
    Pod,
}

/// The JSON template of one kind. All objects have the same length.
#[derive(Debug)]
pub(crate) struct Template {
    json: Vec<u8>,
    name: usize,
    uid: usize,
    version: usize,
    sent: usize,
}

// === impl Kind ===

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Configmap => "configmap",
            Self::Pod => "pod",
        }
    }

    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Configmap => "ConfigMap",
            Self::Pod => "Pod",
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Configmap => "/api/v1/configmaps",
            Self::Pod => "/api/v1/pods",
        }
    }

    fn pretty(self) -> &'static str {
        match self {
            Self::Configmap => include_str!("objects/config_map.json"),
            Self::Pod => include_str!("objects/pod.json"),
        }
    }
}

// === impl Template ===

impl Template {
    const NAME: &'static [u8] = b"NNNNNNNN";
    const UID: &'static [u8] = b"UUUUUUUUUUUU";
    const VERSION: &'static [u8] = b"VVVVVVVVVV";
    const STAMP: &'static [u8] = b"TTTTTTTTTTTTTTTTTTTT";

    /// An object in a watch event.
    pub(crate) fn whole(kind: Kind) -> Self {
        Self::of(compact(kind.pretty()))
    }

    /// An object in a list, where the API server omits the kind.
    pub(crate) fn item(kind: Kind) -> Self {
        let whole = compact(kind.pretty());
        let metadata = whole.find("\"metadata\"").expect("the object has metadata");
        Self::of(format!("{{{}", &whole[metadata..]))
    }

    /// The metadata of an object, the same in a list and in a watch event.
    pub(crate) fn metadata(kind: Kind) -> Self {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: &'a RawValue,
        }
        let whole = compact(kind.pretty());
        let object: Object<'_> = serde_json::from_str(&whole).expect("the object has metadata");
        Self::of(format!(
            r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}}"#,
            object.metadata
        ))
    }

    fn of(json: String) -> Self {
        let json = json.into_bytes();
        let find = |place: &[u8]| {
            json.windows(place.len())
                .position(|window| window == place)
                .expect("the template has this placeholder")
        };
        Self {
            name: find(Self::NAME),
            uid: find(Self::UID),
            version: find(Self::VERSION),
            sent: find(Self::STAMP),
            json,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.json.len()
    }

    /// Appends the object with this index and version.
    pub(crate) fn render(&self, index: usize, version: u64, sent: u64, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&self.json);
        let object = &mut to[start..];
        digits(index as u64, &mut object[self.name..][..Self::NAME.len()]);
        digits(index as u64, &mut object[self.uid..][..Self::UID.len()]);
        digits(version, &mut object[self.version..][..Self::VERSION.len()]);
        digits(sent, &mut object[self.sent..][..Self::STAMP.len()]);
    }
}

/// The index of an object, from its name.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

/// A number in thousands, such as `10k`.
pub(crate) fn short(count: usize) -> String {
    let mut text = String::new();
    let written = if count >= 1000 && count.is_multiple_of(1000) {
        write!(text, "{}k", count / 1000)
    } else {
        write!(text, "{count}")
    };
    written.expect("a string takes everything");
    text
}

fn digits(mut number: u64, to: &mut [u8]) {
    for place in to.iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).expect("one digit");
        number /= 10;
    }
}

/// Removes white space from JSON, and keeps the order of fields.
fn compact(pretty: &str) -> String {
    let mut compact = String::with_capacity(pretty.len());
    let (mut quoted, mut escaped) = (false, false);
    for char in pretty.chars() {
        if quoted || !char.is_whitespace() {
            compact.push(char);
        }
        match char {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = char == '\\' && !escaped;
    }
    compact
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::{Resource, core::PartialObjectMeta};
    use serde::de::DeserializeOwned;

    use super::{Kind, Template, index_of};

    #[test]
    fn every_rendered_object_decodes_as_its_kind() {
        check::<ConfigMap>(Kind::Configmap);
        check::<Pod>(Kind::Pod);
    }

    #[track_caller]
    fn check<K: DeserializeOwned + Resource<DynamicType = ()>>(kind: Kind) {
        let whole = decode::<K>(&Template::whole(kind));
        let item = decode::<K>(&Template::item(kind));
        let slim = decode::<PartialObjectMeta<K>>(&Template::metadata(kind));
        for meta in [whole.meta(), item.meta(), slim.meta()] {
            assert_eq!(meta.resource_version.as_deref(), Some("1000000007"));
            assert_eq!(meta.name.as_deref().and_then(index_of), Some(42));
            assert!(meta.managed_fields.is_some(), "{kind:?}");
        }
    }

    #[track_caller]
    fn decode<K: DeserializeOwned>(template: &Template) -> K {
        let mut json = Vec::new();
        template.render(42, 1_000_000_007, 5, &mut json);
        assert_eq!(json.len(), template.len());
        serde_json::from_slice(&json).expect("decodes")
    }
}

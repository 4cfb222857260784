//! Conversion webhooks: objects of one kind between the versions of its definition.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use windlass_informer::api_request::decode_text;

use super::{
    carry::carry,
    conversions::{ErasedConversion, Head},
};

/// The versions of a kind, and how its objects are converted between them: each version to the hub `H`
/// and back, so that a further version needs two conversions.
///
/// The conversions are those of `From` or `TryFrom` between the Rust types.
///
/// # Contract
///
/// *Guaranteed.* The metadata of a converted object is that of the object, except labels and annotations,
/// which a conversion may change to keep what the other version has no field for. The API server refuses
/// other changes. If one object of a review cannot be converted, the review fails, and the message names
/// the object, its version and the error.
///
/// *Required.* A conversion to another version and back loses nothing: the API server converts an object
/// to the stored version at each write. It copies the `metadata`, has no side effects and reads nothing
/// else. It succeeds for each object that the definition allows: one object that cannot be converted makes
/// every list of the kind in that version fail, also those of the operator. An object with more than 128
/// levels is not converted.
///
/// A pod whose readiness includes its informers (`/ready`) becomes ready only after they have listed, and
/// they may need these conversions: `docs/deploying.md` says how the first pod becomes reachable.
///
/// Fields that the Rust type of the object does not have are copied to the same path, except in lists, so
/// that an older replica keeps the fields of a newer definition that both versions have. The API server
/// removes those that the other version does not have. A field that is `false`, `0` or empty is copied
/// only if the type of the other version reads the same object with it: the field may be a default that
/// one of the types omits. Of more than 32 such fields, some are lost if the type reads one of them.
///
/// Source: controller-runtime, `pkg/conversion`, for hubs.
///
/// # Example
///
/// ```
/// use windlass_operator::Conversion;
///
/// mod v1 {
/// #   use kube::CustomResource;
/// #   use schemars::JsonSchema;
/// #   use serde::{Deserialize, Serialize};
///     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
///     #[kube(group = "example.io", version = "v1", kind = "Website", namespaced)]
///     pub struct WebsiteSpec {
///         pub replicas: i32,
///     }
/// }
///
/// mod v1beta1 {
/// #   use kube::CustomResource;
/// #   use schemars::JsonSchema;
/// #   use serde::{Deserialize, Serialize};
///     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
///     #[kube(group = "example.io", version = "v1beta1", kind = "Website", namespaced)]
///     pub struct WebsiteSpec {
///         pub size: i32,
///     }
/// }
///
/// impl From<v1beta1::Website> for v1::Website {
///     fn from(old: v1beta1::Website) -> Self {
///         let replicas = old.spec.size;
///         Self { metadata: old.metadata, spec: v1::WebsiteSpec { replicas } }
///     }
/// }
///
/// impl From<v1::Website> for v1beta1::Website {
///     fn from(hub: v1::Website) -> Self {
///         let size = hub.spec.replicas;
///         Self { metadata: hub.metadata, spec: v1beta1::WebsiteSpec { size } }
///     }
/// }
///
/// let conversion = Conversion::<v1::Website>::new().version::<v1beta1::Website>();
/// // `WebhookServer::convert` serves it.
/// let shown = format!("{conversion:?}");
/// assert!(shown.contains("example.io/v1\"") && shown.contains("example.io/v1beta1"));
/// ```
pub struct Conversion<H> {
    kind: Cow<'static, str>,
    versions: BTreeMap<String, Version<H>>,
}

/// The conversions of one version.
struct Version<H> {
    /// Also returns the object as its type writes it.
    to_hub: fn(&str) -> Result<(H, Value), String>,
    from_hub: fn(H) -> Result<Value, String>,
    /// An object of this version as its type reads and writes it. `None` if it does not decode.
    read: fn(&Value) -> Option<Value>,
}

// === impl Conversion ===

impl<H> Conversion<H>
where
    H: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
{
    /// Creates a conversion with only the hub version.
    #[must_use]
    pub fn new() -> Self {
        let hub = Version {
            to_hub: decode::<H>,
            from_hub: |hub| encode(&hub),
            read: read::<H>,
        };
        Self {
            kind: H::kind(&()),
            versions: [(H::api_version(&()).into_owned(), hub)].into(),
        }
    }

    /// Adds a version.
    #[must_use]
    pub fn version<V>(mut self) -> Self
    where
        V: Resource<DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + TryInto<H, Error: fmt::Display>,
        H: TryInto<V, Error: fmt::Display>,
    {
        let version = Version {
            to_hub: |object| {
                let (object, known) = decode::<V>(object)?;
                Ok((text(object.try_into())?, known))
            },
            from_hub: |hub| encode::<V>(&text(hub.try_into())?),
            read: read::<V>,
        };
        let name = V::api_version(&()).into_owned();
        self.versions.insert(name, version);
        self
    }
}

impl<H> ErasedConversion for Conversion<H>
where
    H: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
{
    fn kind(&self) -> [Cow<'static, str>; 2] {
        [H::kind(&()), H::group(&())]
    }

    fn convert(
        &self,
        object: &RawValue,
        head: &Head,
        desired: &str,
    ) -> Result<Box<RawValue>, String> {
        let version = |name: &str| {
            let known = || self.versions.keys().cloned().collect::<Vec<_>>().join(", ");
            let version = self.versions.get(name);
            version.ok_or_else(|| format!("this webhook has the versions {}", known()))
        };
        let (source, target) = (version(&head.api_version)?, version(desired)?);
        let (hub, known) = (source.to_hub)(object.get())?;
        let mut raw: Value = text(decode_text(object.get()))?;
        let mut converted = (target.from_hub)(hub)?;
        carry(&raw, &known, &mut converted, target.read);
        let Some(fields) = converted.as_object_mut() else {
            return Err("it was not converted to an object".to_owned());
        };
        let changed = fields.remove("metadata").unwrap_or_default();
        let metadata = raw["metadata"].take();
        if metadata["uid"] != changed["uid"] {
            let error =
                "its `metadata` was not copied, which would remove its labels and annotations";
            return Err(error.to_owned());
        }
        fields.insert("metadata".to_owned(), with_metadata(metadata, changed));
        fields.insert("apiVersion".to_owned(), desired.into());
        fields.insert("kind".to_owned(), (&*self.kind).into());
        text(to_raw_value(&converted))
    }
}

impl<H> Default for Conversion<H>
where
    H: Resource<DynamicType = ()> + Serialize + DeserializeOwned + 'static,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("kind", &self.kind)
            .field("versions", &self.versions.keys())
            .finish()
    }
}

/// `metadata` with the labels and annotations of `changed`.
fn with_metadata(mut metadata: Value, mut changed: Value) -> Value {
    if let (Some(metadata), Some(changed)) = (metadata.as_object_mut(), changed.as_object_mut()) {
        for field in ["labels", "annotations"] {
            match changed.remove(field) {
                Some(value) => metadata.insert(field.to_owned(), value),
                None => metadata.remove(field),
            };
        }
    }
    metadata
}

fn decode<V: DeserializeOwned + Serialize>(object: &str) -> Result<(V, Value), String> {
    let object = text(decode_text(object))?;
    let known = encode(&object)?;
    Ok((object, known))
}

fn read<V: DeserializeOwned + Serialize>(object: &Value) -> Option<Value> {
    encode(&V::deserialize(object).ok()?).ok()
}

fn encode<V: Serialize>(object: &V) -> Result<Value, String> {
    text(serde_json::to_value(object))
}

fn text<T>(result: Result<T, impl fmt::Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;

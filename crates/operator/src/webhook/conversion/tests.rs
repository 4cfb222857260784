//! Tests of conversions.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::to_raw_value};

use super::{super::conversions::Conversions, Conversion};

mod v1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.io", version = "v1", kind = "Toy", namespaced)]
    pub(super) struct ToySpec {
        pub(super) size: f64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub(super) parts: Vec<String>,
    }
}

mod v2 {
    use super::{BTreeMap, CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.io", version = "v2", kind = "Toy", namespaced)]
    pub(super) struct ToySpec {
        pub(super) length: f64,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub(super) parts: BTreeMap<String, i32>,
    }
}

impl From<v1::Toy> for v2::Toy {
    fn from(old: v1::Toy) -> Self {
        let length = old.spec.size;
        assert!(length >= 0.0, "a negative size");
        let parts = old.spec.parts.into_iter().map(|part| (part, 1)).collect();
        let spec = v2::ToySpec { length, parts };
        if length == 0.0 {
            // As kube's constructor does.
            return Self::new("car", spec);
        }
        Self {
            metadata: old.metadata,
            spec,
        }
    }
}

impl From<v2::Toy> for v1::Toy {
    fn from(hub: v2::Toy) -> Self {
        let spec = v1::ToySpec {
            size: hub.spec.length,
            parts: hub.spec.parts.into_keys().collect(),
        };
        Self {
            metadata: hub.metadata,
            spec,
        }
    }
}

fn convert(size: f64) -> Result<Value, String> {
    convert_spec(&json!({ "size": size }))
}

fn convert_spec(spec: &Value) -> Result<Value, String> {
    let toy = json!({
        "apiVersion": "example.io/v1",
        "kind": "Toy",
        "metadata": { "namespace": "shop", "name": "car", "uid": "1", "labels": { "a": "b" } },
        "spec": spec,
    });
    let conversion = Conversion::<v2::Toy>::new().version::<v1::Toy>();
    let mut conversions = Conversions::default();
    assert!(conversions.add(conversion));
    let toy = to_raw_value(&toy).expect("JSON");
    let converted = conversions.convert(&toy, "example.io/v2")?;
    Ok(serde_json::from_str(converted.get()).expect("JSON"))
}

#[test]
fn a_conversion_that_panics_or_drops_the_metadata_names_the_object() {
    let error = convert(-1.0).expect_err("it panics");
    let start = "cannot convert Toy shop/car from example.io/v1 to example.io/v2: the conversion \
                 panicked: a negative";
    assert!(error.starts_with(start), "{error}");
    let error = convert(0.0).expect_err("its labels would be removed");
    assert!(
        error.contains("Toy shop/car") && error.contains("was not copied"),
        "{error}"
    );
    let converted = convert(9_007_199_254_740_993.5).expect("a conversion");
    assert_eq!(converted["metadata"]["labels"]["a"], "b");
    assert_eq!(converted["spec"]["length"], 9_007_199_254_740_993.5);
}
/// An older replica and a newer definition.
#[test]
fn false_zero_and_empty_values_of_unknown_fields_are_carried() {
    let newer = json!({ "on": false, "count": 0, "text": "", "list": [], "map": {}, "one": 1 });
    let mut spec = newer.clone();
    spec["size"] = json!(2.0);
    // The type omits it, and the other version has a map with this name.
    spec["parts"] = json!([]);
    let mut expected = newer;
    expected["length"] = json!(2.0);
    assert_eq!(convert_spec(&spec).expect("a conversion")["spec"], expected);
    spec["parts"] = json!(["wheel"]);
    expected["parts"] = json!({ "wheel": 1 });
    assert_eq!(convert_spec(&spec).expect("a conversion")["spec"], expected);
}

//! Reviews: objects that are decoded like others, answered, and not stored.

use serde_json::Value;

use super::decode::{self, Decoded};
use super::{Cluster, Part, ownership};
use crate::registry::Resource;
use crate::status::Status;
use crate::wire::WriteOptions;

// === impl Cluster ===

impl Cluster {
    /// The answer to the review in `body`, with its warnings.
    ///
    /// # Errors
    ///
    /// 400 if it is not an object of this kind.
    #[expect(clippy::unused_self, reason = "it is a request as the others are")]
    pub(crate) fn review(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        body: Value,
        options: &WriteOptions,
        now: &str,
    ) -> Result<(Value, Vec<String>), Status> {
        let Decoded {
            mut object,
            warnings,
        } = decode::decode(resource, namespace, body, options)?;
        ownership::track(
            resource,
            Part::Main,
            &Value::Null,
            &mut object,
            options,
            now,
        );
        Ok((object, warnings))
    }
}

//! The answers of finalizer requests, in the form in which the informer has the objects.

use std::{future::Future, sync::Arc};

use serde::de::DeserializeOwned;
use tokio::task_local;
use windlass_informer::{Trim, api_request};

task_local! {
    /// The fields that the informers of the kind of the active call remove.
    static TRIM: Arc<Trim>;
}

/// Runs `call`. Objects in the answers of its finalizer requests have no fields that `trim` removes:
/// otherwise the next event would look like the removal of these fields by another writer.
pub(crate) async fn trimmed<C: Future>(trim: Option<Arc<Trim>>, call: C) -> C::Output {
    match trim {
        Some(trim) => TRIM.scope(trim, call).await,
        None => call.await,
    }
}

/// Decodes an object, without the fields that the informers of the active call remove.
pub(super) fn decode<K: DeserializeOwned>(body: &[u8]) -> Result<K, kube::Error> {
    match TRIM.try_with(|trim| trim.cut(body)) {
        Ok(Ok(json)) => api_request::decode(json.as_bytes()),
        // Outside of a call. Or the body is no object, which the decoder reports.
        _ => api_request::decode(body),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test]
    async fn an_answer_has_the_fields_of_the_informer() {
        let body = br#"{"metadata":{"name":"web","annotations":{"a":"b"},"labels":{"c":"d"}}}"#;
        let trim = Trim::nothing().field(["metadata", "annotations"]);
        let decoded = trimmed(Some(Arc::new(trim)), async { decode::<ConfigMap>(body) }).await;
        let metadata = decoded.expect("an object").metadata;
        assert!(metadata.annotations.is_none() && metadata.labels.is_some());
        let decoded = trimmed(None, async { decode::<ConfigMap>(body) }).await;
        assert!(decoded.expect("an object").metadata.annotations.is_some());
        let trim = Some(Arc::new(Trim::default()));
        let decoded = trimmed(trim, async { decode::<ConfigMap>(b"[") }).await;
        assert!(decoded.is_err());
    }
}

//! Subresources that execute an action and store no part of an object: binding, eviction, token.

use http::{Response, StatusCode};
use serde_json::Value;

use super::body::{self, Expected};
use super::resources::ResourceRequest;
use super::{ResponseBody, reply};
use crate::encode;
use crate::metadata;
use crate::registry::{self, Resource};
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::wire::{DeleteOptions, Format, WriteKind, WriteOptions};

// === impl ResourceRequest ===

impl ResourceRequest<'_> {
    /// Binds a pod, evicts a pod, or issues a token of a service account.
    pub(super) fn post(&self) -> Result<Response<ResponseBody>, Status> {
        let subresource = self.path.subresource.as_deref().unwrap_or_default();
        let Some(sent) = registry::posted(subresource) else {
            return Ok(reply::no_such_resource());
        };
        let typed = encode::has_protobuf(sent);
        let format = self.call.accept.format(&self.query, false, typed)?;
        let format = format.without_table()?;
        let expected = Expected::object_of(sent);
        body::supported(self.content_type(), &expected)?;
        let mut options = self.write_options(WriteKind::Create)?;
        let mut body = self.read_body(sent, &mut options)?;
        if subresource == "eviction" && body["apiVersion"] == "policy/v1beta1" {
            // Both versions have the same fields.
            body["apiVersion"] = sent.api_version().into();
        }
        let (key, shared) = (self.key(), &self.service.shared);
        let namespace = self.path.namespace.as_deref();
        let (body, warnings) =
            shared.write(|cluster, now| cluster.review(sent, namespace, body, &options, now))?;
        let mut response = self
            .post_decoded(subresource, sent, &key, &body, &options, format)
            .map_err(|status| status.with_warnings(warnings.clone()))?;
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    fn post_decoded(
        &self,
        subresource: &str,
        sent: &Resource,
        key: &Key,
        body: &Value,
        options: &WriteOptions,
        format: Format,
    ) -> Result<Response<ResponseBody>, Status> {
        let shared = &self.service.shared;
        let name = metadata::text(body, "name");
        if subresource != "token" && name != &*key.name {
            let kind = &sent.info.kind;
            let message = format!("name in URL does not match name in {kind} object");
            return Err(Status::bad_request(message));
        }
        match subresource {
            "binding" => {
                shared.write(|cluster, now| {
                    cluster.bind(&self.resource, key, body, options.dry_run, now)
                })?;
            }
            "eviction" => {
                let mut delete = DeleteOptions::parse(&self.query, body.get("deleteOptions"))?;
                delete.dry_run |= options.dry_run;
                shared.write(|cluster, now| cluster.evict(&self.resource, key, &delete, now))?;
            }
            _ => {
                let now = shared.now();
                let token = shared
                    .write(|cluster, _| cluster.issue_token(&self.resource, key, body, now))?;
                let encoded = encode::object(sent, &Stored::unsaved(token), format, now)?;
                return Ok(reply::encoded(StatusCode::CREATED, encoded));
            }
        }
        Ok(reply::refusal(&Status::done()))
    }
}

//! Requests to resources: determines the verb, authorizes the request, and executes it.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use super::body::{self, Expected};
use super::verb::Verb;
use super::{ApiService, Call, ResponseBody, permission, reply, watching};
use crate::cluster::{Page, expires, selector};
use crate::encode;
use crate::patch::Patch;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored};
use crate::wire::{
    FieldOrder, Format, ListOptions, Query, ResourcePath, WriteOptions, check_include_object,
    read_version,
};

mod write;

/// A request to a resource that is served.
pub(super) struct ResourceRequest<'a> {
    pub(super) service: &'a ApiService,
    pub(super) call: &'a Call,
    pub(super) query: Query,
    pub(super) resource: Arc<Resource>,
    pub(super) path: ResourcePath,
}

/// Executes a request to a resource.
pub(super) async fn respond(
    service: &ApiService,
    call: &Call,
    path: ResourcePath,
) -> Result<Response<ResponseBody>, Status> {
    let query = Query::parse(call.parts.uri.query().unwrap_or_default());
    let Some(verb) = Verb::of(&call.parts.method, &path, &query) else {
        return no_such_verb(service, call, &path);
    };
    permission::check(service, &call.user, verb, &path, &query)?;
    let found = service.shared.read(|cluster| {
        cluster
            .registry
            .find(&path.group, &path.version, &path.resource)
            .cloned()
    });
    let Some(resource) = found else {
        return Ok(service.no_resource(Some(&path.group)));
    };
    if !is_there(&resource, &path) {
        return match path.name.as_deref().filter(|_| path.subresource.is_some()) {
            _ if !resource.info.custom => Ok(reply::no_such_resource()),
            Some(_) if resource.info.namespaced != path.namespace.is_some() => {
                Ok(reply::not_found())
            }
            Some(name) => Err(Status::not_found(&resource.about(name))),
            None => Ok(reply::not_found()),
        };
    }
    let request = ResourceRequest {
        service,
        call,
        query,
        resource,
        path,
    };
    if !request.is_allowed(verb) {
        if !request.resource.info.custom {
            return Ok(reply::no_such_method());
        }
        let is_collection = request.path.subresource.is_none();
        if is_collection && matches!(verb, Verb::Create | Verb::DeleteCollection) {
            return Ok(reply::not_found());
        }
        let about = request.resource.about("");
        return Err(Status::method_not_allowed(&about, verb.name()));
    }
    let deprecation = request.resource.info.deprecation.clone();
    let mut response = match request.respond(verb).await {
        Ok(response) => response,
        Err(status) => reply::refusal(&status),
    };
    // The router of Kubernetes rejects the format of a patch, before the handler that warns.
    let is_routed = verb != Verb::Patch || response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE;
    if is_routed {
        reply::warn_first(&mut response, deprecation.as_slice());
    }
    Ok(response)
}

/// The response to a method that is not supported at the path.
fn no_such_verb(
    service: &ApiService,
    call: &Call,
    path: &ResourcePath,
) -> Result<Response<ResponseBody>, Status> {
    let found = service.shared.read(|cluster| {
        let registry = &cluster.registry;
        let found = registry.find(&path.group, &path.version, &path.resource);
        found.cloned()
    });
    if found.as_ref().is_none_or(|found| !is_there(found, path)) {
        return Ok(service.no_resource(Some(&path.group)));
    }
    let custom = found.filter(|resource| resource.info.custom);
    if let Some(resource) = &custom
        && resource.info.namespaced != path.namespace.is_some()
    {
        return Ok(reply::not_found());
    }
    let is_custom = custom.is_some();
    let is_write = [Method::PUT, Method::PATCH].contains(&call.parts.method);
    if is_custom && is_write && path.name.is_none() {
        if call.parts.method == Method::PATCH {
            Patch::check_media_type(content_type(call), true)?;
        }
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(reply::no_such_method())
}

/// Returns the media type of the body; empty if the request has none.
fn content_type(call: &Call) -> &str {
    let header = call.parts.headers.get(CONTENT_TYPE);
    header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Returns whether the URL matches the scope and the subresources of the resource.
fn is_there(resource: &Resource, path: &ResourcePath) -> bool {
    let scoped = match (&path.namespace, &path.name) {
        (Some(_), _) => resource.info.namespaced,
        // A request for one object of a namespaced resource needs a namespace.
        (None, Some(_)) => !resource.info.namespaced,
        // Reviews in a namespace cannot be listed, so they have no path without one.
        (None, None) if !resource.info.is_stored() => !resource.info.namespaced,
        (None, None) => true,
    };
    let is_named = path.name.is_some();
    scoped
        && (resource.info.is_stored() || !is_named)
        && path
            .subresource
            .as_deref()
            .is_none_or(|part| resource.has_subresource(part))
}

// === impl ResourceRequest ===

impl ResourceRequest<'_> {
    async fn respond(self, verb: Verb) -> Result<Response<ResponseBody>, Status> {
        if expires(&self.resource) {
            // A write deletes what has expired.
            self.service.shared.write(|_, _| ());
        }
        match self.path.subresource.as_deref() {
            Some("scale") => return self.scale(verb),
            Some("binding" | "eviction" | "token") => return self.post(),
            Some("log" | "exec" | "attach" | "portforward") => return self.connect(),
            _ => {}
        }
        match verb {
            Verb::Get => self.get().await,
            Verb::List => self.list().await,
            Verb::Watch => {
                let typed = encode::has_protobuf(&self.resource);
                let format = self.call.accept.format(&self.query, false, typed)?;
                let options = ListOptions::parse(&self.query)?;
                check_include_object(format, &self.query)?;
                let ResourceRequest {
                    service,
                    resource,
                    path,
                    ..
                } = self;
                watching::respond(service, resource, path.namespace, &options, format).await
            }
            Verb::Create if !self.resource.info.is_stored() => self.review(),
            Verb::Create => self.create(),
            Verb::Update => self.update(),
            Verb::Patch => self.patch(),
            Verb::Delete => self.delete(),
            Verb::DeleteCollection => self.delete_collection(),
        }
    }

    fn is_allowed(&self, verb: Verb) -> bool {
        let verbs = match &self.path.subresource {
            None => Some(&self.resource.info.verbs),
            Some(name) => {
                let mut parts = self.resource.info.subresources.iter();
                parts
                    .find(|part| part.name == *name)
                    .map(|part| &part.verbs)
            }
        };
        // Objects in namespaces are created, and deleted together, in one namespace only.
        let has_scope = self.path.namespace.is_some() == self.resource.info.namespaced;
        let placed = !matches!(verb, Verb::Create | Verb::DeleteCollection) || has_scope;
        placed && verbs.is_some_and(|verbs| verbs.iter().any(|allowed| allowed == verb.name()))
    }

    async fn get(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(false)?;
        self.check_export()?;
        self.wait_for(read_version(self.query.get("resourceVersion"))?)
            .await?;
        self.check_name()?;
        let key = self.key();
        let object = self
            .service
            .shared
            .read(|cluster| cluster.get(&self.resource, &key).cloned())?;
        self.object(StatusCode::OK, &object, format)
    }

    async fn list(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(true)?;
        let options = ListOptions::parse(&self.query)?;
        selector(&self.resource, &options)?;
        if options.continue_token.is_empty() {
            self.wait_for(read_version(&options.resource_version)?)
                .await?;
        }
        let namespace = self.path.namespace.as_deref();
        let page = self
            .service
            .shared
            .read(|cluster| cluster.list(&self.resource, namespace, &options))?;
        self.page(&page, format)
    }

    /// Waits until the server has reached `version`.
    async fn wait_for(&self, version: Option<u64>) -> Result<(), Status> {
        let Some(version) = version else {
            return Ok(());
        };
        self.service.shared.reach(version).await;
        let current = self.service.shared.read(|cluster| cluster.store.revision());
        if version > current {
            return Err(Status::too_large_resource_version(version, current));
        }
        Ok(())
    }

    pub(super) fn object(
        &self,
        code: StatusCode,
        object: &Stored,
        format: Format,
    ) -> Result<Response<ResponseBody>, Status> {
        check_include_object(format, &self.query)?;
        let now = self.service.shared.now();
        let encoded = encode::object(&self.resource, object, format, now)?;
        Ok(reply::encoded(code, encoded))
    }

    fn page(&self, page: &Page, format: Format) -> Result<Response<ResponseBody>, Status> {
        check_include_object(format, &self.query)?;
        let now = self.service.shared.now();
        let encoded = encode::list(&self.resource, page, format, now)?;
        Ok(reply::encoded(StatusCode::OK, encoded))
    }

    /// Selects the format of a response with one object or a list.
    pub(super) fn format(&self, list: bool) -> Result<Format, Status> {
        let typed = encode::has_protobuf(&self.resource);
        self.call.accept.format(&self.query, list, typed)
    }

    pub(super) fn key(&self) -> Key {
        let namespace = self.path.namespace.as_deref().unwrap_or_default();
        Key::new(namespace, self.path.name.as_deref().unwrap_or_default())
    }

    /// Rejects an option of older servers.
    fn check_export(&self) -> Result<(), Status> {
        if self.query.flag("export") == Some(true) {
            return Err(Status::bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported",
            ));
        }
        Ok(())
    }

    /// Rejects a name in the URL that no object can have.
    fn check_name(&self) -> Result<(), Status> {
        let name = self.path.name.as_deref().unwrap_or_default();
        let why = match name {
            "." => "may not be '.'",
            ".." => "may not be '..'",
            name if name.contains('%') => "may not contain '%'",
            _ => return Ok(()),
        };
        Err(Status::bad_request(format!(
            "Name parameter invalid: {name:?}: {why}"
        )))
    }

    pub(super) fn content_type(&self) -> &str {
        content_type(self.call)
    }

    /// Decodes the body of a create or update, and adds its duplicate fields to `options`.
    pub(super) fn body(&self, options: &mut WriteOptions) -> Result<Value, Status> {
        self.read_body(&self.resource, options)
    }

    /// Decodes the body as an object of `resource`, and adds its duplicate fields and their order to
    /// `options`.
    pub(super) fn read_body(
        &self,
        resource: &Resource,
        options: &mut WriteOptions,
    ) -> Result<Value, Status> {
        let expected = Expected::object_of(resource);
        let essence = body::supported(self.content_type(), &expected)?;
        let body = body::read(self.content_type(), &self.call.body, &expected)?;
        options.duplicates = body.duplicates;
        options.field_order = FieldOrder::of(&essence, &self.call.body);
        Ok(body.value)
    }
}

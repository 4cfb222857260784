//! The verbs that write: create, update, patch, delete, and the scale.

use std::sync::Arc;

use http::header::USER_AGENT;
use http::{Response, StatusCode};
use serde_json::Value;

use super::super::body::{self, Expected};
use super::super::verb::Verb;
use super::super::{ResponseBody, permission, reply};
use super::ResourceRequest;
use crate::cluster::{Cluster, Deleted, Part, ScaleChange, Upsert, Written, decode_new, selector};
use crate::encode;
use crate::patch::Patch;
use crate::registry::{self, Resource};
use crate::status::Status;
use crate::wire::{
    DeleteOptions, Format, ListOptions, WriteKind, WriteOptions, check_include_object, read_version,
};

impl ResourceRequest<'_> {
    pub(super) fn create(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(false)?;
        body::supported(self.content_type(), &Expected::object_of(&self.resource))?;
        let mut options = self.write_options(WriteKind::Create)?;
        let body = self.body(&mut options)?;
        let namespace = self.path.namespace.as_deref();
        let written = if self.resource.info.custom {
            // Its schema can change before the lock is acquired.
            self.write(|cluster, resource, now| {
                cluster.create(resource, namespace, body, &options, now)
            })?
        } else {
            let (shared, now) = (&self.service.shared, self.service.shared.time());
            let decoded = decode_new(&self.resource, namespace, body, &options, &now)?;
            shared.write_at(&now, |cluster| {
                cluster.add(&self.resource, namespace, decoded, &options, &now)
            })?
        };
        self.written(StatusCode::CREATED, &written, format)
    }

    pub(super) fn update(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(false)?;
        let mut options = self.write_options(WriteKind::Update)?;
        let (key, part) = (self.key(), self.part());
        let body = self.body(&mut options)?;
        let written = self.upsert(body, &options, |cluster, resource, body, options, now| {
            cluster.update(resource, &key, part, body, options, now)
        })?;
        self.upserted(&written, format)
    }

    /// Changes the cluster, with the resource as it is served now.
    ///
    /// # Errors
    ///
    /// 404 if it is not served any more.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&mut Cluster, &Resource, &str) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.service.shared.write(|cluster, now| {
            let resource = cluster.served(&self.resource)?;
            change(cluster, &resource, now)
        })
    }

    /// Executes a write that creates a missing object, if the client may create it.
    fn upsert(
        &self,
        mut body: Value,
        options: &WriteOptions,
        write: impl Fn(&mut Cluster, &Resource, Value, &WriteOptions, &str) -> Result<Upsert, Status>,
    ) -> Result<Upsert, Status> {
        let is_authorized = !self.service.shared.authorizes();
        let key = self.key();
        let trial = WriteOptions {
            dry_run: true,
            ..options.clone()
        };
        let written = self.write(|cluster, resource, now| {
            // The authorizer is not called under the lock and, as on the real server, only if
            // everything else is valid.
            if is_authorized || cluster.get(resource, &key).is_ok() {
                write(cluster, resource, body.take(), options, now).map(Some)
            } else {
                write(cluster, resource, body.clone(), &trial, now).map(|_| None)
            }
        })?;
        if let Some(written) = written {
            return Ok(written);
        }
        permission::check(
            self.service,
            &self.call.user,
            Verb::Create,
            &self.path,
            &self.query,
        )?;
        self.write(|cluster, resource, now| write(cluster, resource, body, options, now))
    }

    fn upserted(&self, written: &Upsert, format: Format) -> Result<Response<ResponseBody>, Status> {
        match written {
            Upsert::Created(written) => self.written(StatusCode::CREATED, written, format),
            Upsert::Updated(written) => self.written(StatusCode::OK, written, format),
        }
    }

    pub(super) fn patch(&self) -> Result<Response<ResponseBody>, Status> {
        let custom = self.resource.info.custom;
        Patch::check_media_type(self.content_type(), custom)?;
        let format = self.format(false)?;
        let (patch, options) = self.parse_patch(custom)?;
        self.check_name()?;
        let (key, part) = (self.key(), self.part());
        if let Patch::Apply(config) = patch {
            let written = self.upsert(
                config,
                &options,
                |cluster, resource, config, options, now| {
                    cluster.apply(resource, &key, part, config, options, now)
                },
            )?;
            return self.upserted(&written, format);
        }
        let written = self.write(|cluster, resource, now| {
            cluster.patch(resource, &key, part, &patch, &options, now)
        })?;
        self.written(StatusCode::OK, &written, format)
    }

    /// Reads or changes the scale of an object.
    pub(super) fn scale(&self, verb: Verb) -> Result<Response<ResponseBody>, Status> {
        let scale = registry::scale();
        if verb == Verb::Patch {
            Patch::check_media_type(self.content_type(), self.resource.info.custom)?;
        }
        let typed = encode::has_protobuf(scale);
        let format = self.call.accept.format(&self.query, false, typed)?;
        let (key, shared) = (self.key(), &self.service.shared);
        let (object, warnings) = match verb {
            Verb::Update => {
                let mut options = self.write_options(WriteKind::Update)?;
                let change = ScaleChange::Update(self.read_body(scale, &mut options)?);
                let written = self.write(|cluster, resource, now| {
                    cluster.change_scale(resource, &key, change, &options, now)
                })?;
                (written.object, written.warnings)
            }
            Verb::Patch => {
                let (patch, options) = self.parse_patch(false)?;
                let change = match patch {
                    Patch::Apply(config) => {
                        options.check_duplicates()?;
                        ScaleChange::Apply(config)
                    }
                    patch => ScaleChange::Patch(patch),
                };
                let written = self.write(|cluster, resource, now| {
                    cluster.change_scale(resource, &key, change, &options, now)
                })?;
                (written.object, written.warnings)
            }
            _ => {
                self.check_export()?;
                read_version(self.query.get("resourceVersion"))?;
                let object = shared.read(|cluster| cluster.scale(&self.resource, &key))?;
                (Arc::new(object), Vec::new())
            }
        };
        check_include_object(format, &self.query)?;
        let encoded = encode::object(scale, &object, format, shared.now())?;
        let mut response = reply::encoded(StatusCode::OK, encoded);
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    pub(in super::super) fn write_options(&self, kind: WriteKind) -> Result<WriteOptions, Status> {
        let header = self.call.parts.headers.get(USER_AGENT);
        let agent = header.and_then(|value| value.to_str().ok());
        let mut options = WriteOptions::parse(&self.query, kind, agent.unwrap_or_default())?;
        if self.resource.info.kind == "CertificateSigningRequest" {
            options.user = self.call.user.to_fields();
        }
        Ok(options)
    }

    /// Parses the options and then the body of a patch.
    fn parse_patch(&self, custom: bool) -> Result<(Patch, WriteOptions), Status> {
        let content_type = self.content_type();
        let is_apply = Patch::is_apply(content_type);
        let kind = if is_apply {
            WriteKind::Apply
        } else {
            WriteKind::Patch
        };
        let mut options = self.write_options(kind)?;
        match Patch::parse(content_type, &self.call.body, custom) {
            Ok((patch, duplicates)) => {
                options.duplicates = duplicates;
                Ok((patch, options))
            }
            // A missing object is reported first, except by an apply, which can create it.
            Err(status) if !is_apply => Ok((Patch::Inapplicable(status), options)),
            Err(status) => Err(status),
        }
    }

    pub(super) fn delete(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(false)?;
        let options = self.delete_options()?;
        let key = self.key();
        let warnings = self.deletion_warnings(&options);
        self.check_name()
            .map_err(|status| status.with_warnings(warnings.clone()))?;
        let deleted = self
            .write(|cluster, resource, now| cluster.delete(resource, &key, &options, now))
            .map_err(|status| status.with_warnings(warnings.clone()))?;
        let waits = matches!(deleted, Deleted::Dying(_));
        let mut response = match deleted {
            Deleted::Gone(object) if !self.resource.rules.returns_deleted => {
                let about = self.resource.about(&key.name);
                reply::refusal(&Status::deleted(&about, object.uid()))
            }
            Deleted::Gone(object) | Deleted::Dying(object) => {
                // A deletion that has to wait has this code if the deprecated option was used.
                let code = if options.is_legacy_delete && waits {
                    StatusCode::ACCEPTED
                } else {
                    StatusCode::OK
                };
                self.object(code, &object, format)?
            }
        };
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    /// The warnings of a deletion, also of one that fails.
    fn deletion_warnings(&self, options: &DeleteOptions) -> Vec<String> {
        let warning = self.resource.rules.deletion_warning;
        let warning = warning.filter(|_| options.propagation.is_none());
        warning.map(str::to_owned).into_iter().collect()
    }

    pub(super) fn delete_collection(&self) -> Result<Response<ResponseBody>, Status> {
        let format = self.format(true)?;
        let list = ListOptions::parse(&self.query)?;
        selector(&self.resource, &list)?;
        let options = self.delete_options()?;
        let namespace = self.path.namespace.as_deref();
        let warnings = self.deletion_warnings(&options);
        let page = self
            .write(|cluster, resource, now| {
                cluster.delete_collection(resource, namespace, &list, &options, now)
            })
            .map_err(|status| status.with_warnings(warnings.clone()))?;
        let mut response = self.page(&page, format)?;
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    fn written(
        &self,
        code: StatusCode,
        written: &Written,
        format: Format,
    ) -> Result<Response<ResponseBody>, Status> {
        let mut response = self.object(code, &written.object, format)?;
        reply::warn(&mut response, &written.warnings);
        Ok(response)
    }

    fn part(&self) -> Part {
        match self.path.subresource.as_deref() {
            Some("status") => Part::Status,
            Some("finalize") => Part::Finalize,
            Some("ephemeralcontainers") => Part::EphemeralContainers,
            Some("resize") => Part::Resize,
            Some("approval") => Part::Approval,
            _ => Part::Main,
        }
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        if self.call.body.is_empty() {
            return DeleteOptions::parse(&self.query, None);
        }
        let options = body::delete_options(self.content_type(), &self.call.body)?;
        DeleteOptions::parse(&self.query, Some(&options))
    }
}

//! A handler in our own form.

use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_composite::{
    CompositeHandler, FinalizeResponse, SyncRequest as Request, SyncResponse as Response,
};

use windlass_controller::children::managed_by;

use super::{
    config::OperatorConfig,
    error::Error,
    handler::{Handler, SyncRequest},
    resource::K8sResource,
};

/// A [`Handler`] as a [`CompositeHandler`].
pub(super) struct Adapter<H> {
    handler: H,
    tracking_label: String,
    ownership_label: String,
    /// The value of the ownership label.
    name: String,
}

// === impl Adapter ===

impl<H> Adapter<H> {
    pub(super) fn new(handler: H, config: &OperatorConfig) -> Self {
        Self {
            handler,
            tracking_label: config.tracking_label_name.clone(),
            ownership_label: config.ownership_label_name.clone(),
            name: managed_by(&config.operator_name),
        }
    }

    /// Adds the labels of roperator to a child. A child that is no map is refused later.
    fn labelled(&self, mut child: Value, uid: &str) -> Value {
        let metadata = child.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else {
            return child;
        };
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if labels.is_null() {
            *labels = json!({});
        }
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(self.tracking_label.clone(), uid.into());
            labels.insert(self.ownership_label.clone(), self.name.clone().into());
        }
        child
    }
}

impl<H: Handler> CompositeHandler for Adapter<H> {
    fn sync(&self, request: &Request) -> Result<Response, Error> {
        let response = self.handler.sync(&converted(request)?)?;
        let keeps_children = response.keeps_children();
        let mut answer = Response::new(response.status);
        if let Some(delay) = response.resync {
            answer.resync_after(delay);
        }
        if keeps_children {
            return Ok(answer.keep_children());
        }
        for child in response.children {
            answer.add_child(self.labelled(child, request.uid()))?;
        }
        Ok(answer)
    }

    fn finalize(&self, request: &Request) -> Result<FinalizeResponse, Error> {
        let response = self.handler.finalize(&converted(request)?)?;
        Ok(match response.retry {
            None => FinalizeResponse::finished(),
            Some(delay) => FinalizeResponse::retry_after(delay).status(response.status),
        })
    }
}

fn converted(request: &Request) -> Result<SyncRequest, Error> {
    let json = |object: &DynamicObject| object.serialize(serde_json::value::Serializer);
    let children = request.children().iter();
    let children = children.map(|child| -> Result<_, Error> { Ok(K8sResource(json(child)?)) });
    Ok(SyncRequest {
        parent: K8sResource(json(request.parent())?),
        children: children.collect::<Result<_, Error>>()?,
    })
}

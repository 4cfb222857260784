//! The embedded API server, filled with objects.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};

use crate::{
    Result,
    contender::Object,
    objects::{FIRST_VERSION, Kind, Template},
};

/// Creates `count` objects.
pub(crate) async fn fill(client: &Client, kind: Kind, count: usize) -> Result<()> {
    match kind {
        Kind::Configmap => create::<ConfigMap>(client, kind, count).await,
        Kind::Pod => create::<Pod>(client, kind, count).await,
    }
}

async fn create<K: Object>(client: &Client, kind: Kind, count: usize) -> Result<()> {
    let namespace: k8s_openapi::api::core::v1::Namespace =
        serde_json::from_str(r#"{"metadata":{"name":"shop"}}"#)?;
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    let template = Template::whole(kind);
    let api = Api::<K>::namespaced(client.clone(), "shop");
    let mut json = Vec::new();
    for index in 0..count {
        json.clear();
        template.render(index, FIRST_VERSION, 0, &mut json);
        let mut object: K = serde_json::from_slice(&json)?;
        object.meta_mut().resource_version = None;
        object.meta_mut().uid = None;
        object.meta_mut().generate_name = None;
        // The server garbage-collects objects whose owners do not exist.
        object.meta_mut().owner_references = None;
        api.create(&PostParams::default(), &object).await?;
    }
    let stored = api.list_metadata(&ListParams::default()).await?.items.len();
    if stored != count {
        return Err(format!("the server stored only {stored} of {count} objects").into());
    }
    Ok(())
}

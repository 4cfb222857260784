//! The floor: the same bytes read, each object decoded once, straight into what is kept and
//! without managed fields, and nothing else done.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{Request, header::ACCEPT};
use http_body_util::BodyExt as _;
use k8s_openapi::{
    api::core::v1::{PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::{Client, client::Body};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

use super::{Keeps, Lists};
use crate::{
    Result,
    objects::{Kind, index_of},
};

/// Everything that is kept.
pub(crate) struct Kept<T> {
    objects: Vec<Arc<T>>,
    watch: Body,
    rest: Vec<u8>,
}

/// An object without its managed fields.
pub(crate) trait Bare: DeserializeOwned + Send + Sync + 'static {
    fn name(&self) -> &str;
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is kept, and not looked at")]
pub(crate) struct BarePod {
    metadata: BareMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is kept, and not looked at")]
pub(crate) struct BareConfigMap {
    metadata: BareMeta,
    data: Option<BTreeMap<String, String>>,
    immutable: Option<bool>,
}

/// Any object of which only metadata is asked for.
#[derive(Deserialize)]
pub(crate) struct BareObject {
    metadata: BareMeta,
}

/// Any object, as its bytes: whom it concerns is read, and nothing else.
pub(crate) struct BareText {
    name: String,
    _json: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is kept, and not looked at")]
struct BareMeta {
    name: String,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMeta,
    #[serde(bound = "T: DeserializeOwned")]
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue", default)]
    token: String,
}

#[derive(Deserialize)]
struct Event<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

/// Whom an object on a page concerns, which is all that a relist of unchanged objects needs.
#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read, and not looked at")]
struct IdentityMeta {
    name: String,
    uid: Option<String>,
    resource_version: String,
}

// === impl Kept ===

impl<T: Bare> Kept<T> {
    /// Reads everything there is, and opens a watch.
    pub(crate) async fn read(
        client: &Client,
        kind: Kind,
        lists: Lists,
        keeps: Keeps,
        count: usize,
    ) -> Result<Self> {
        let path = kind.path();
        let mut objects = Vec::with_capacity(count);
        let version = match lists {
            Lists::Paged => {
                pages::<T>(client, kind, keeps, |object| objects.push(Arc::new(object))).await?
            }
            Lists::Streamed => String::new(),
        };
        let watch = match lists {
            Lists::Paged => format!("{path}?watch=true&resourceVersion={version}"),
            Lists::Streamed => format!(
                "{path}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            ),
        };
        let watch = Request::get(watch).header(ACCEPT, accept(keeps, ""));
        let watch = client.send(watch.body(Body::empty())?).await?;
        let mut kept = Self {
            objects,
            watch: watch.into_body(),
            rest: Vec::new(),
        };
        if lists == Lists::Streamed {
            kept.follow(count).await?;
        }
        Ok(kept)
    }

    /// Reads `events` events.
    pub(crate) async fn follow(&mut self, mut events: usize) -> Result<()> {
        while events > 0 {
            let chunk = next_chunk(&mut self.watch).await?;
            if self.rest.is_empty() && chunk.ends_with(b"\n") {
                events = events.saturating_sub(self.lines(&chunk)?);
            } else {
                self.rest.extend_from_slice(&chunk);
                if self.rest.ends_with(b"\n") {
                    let rest = std::mem::take(&mut self.rest);
                    events = events.saturating_sub(self.lines(&rest)?);
                }
            }
        }
        Ok(())
    }

    fn lines(&mut self, text: &[u8]) -> Result<usize> {
        let mut events = 0;
        for line in text.split(|byte| *byte == b'\n') {
            if line.is_empty() || line.starts_with(br#"{"type":"BOOKMARK""#) {
                continue;
            }
            let Event { kind, object } = serde_json::from_slice::<Event<T>>(line)?;
            let object = Arc::new(object);
            match index_of(object.name()) {
                Some(index) if kind == "MODIFIED" => self.objects[index] = object,
                _ => self.objects.push(object),
            }
            events += 1;
        }
        Ok(events)
    }
}

/// Reads all pages, of each object only whom it concerns.
pub(crate) async fn identities(client: &Client, kind: Kind, keeps: Keeps) -> Result<()> {
    let mut read = 0_usize;
    pages::<Identity>(client, kind, keeps, |_| read += 1).await?;
    Ok(())
}

async fn pages<T: DeserializeOwned>(
    client: &Client,
    kind: Kind,
    keeps: Keeps,
    mut each: impl FnMut(T),
) -> Result<String> {
    let mut token = String::new();
    loop {
        let url = format!("{}?limit=500&continue={token}", kind.path());
        let request = Request::get(url).header(ACCEPT, accept(keeps, "List"));
        let answer = client.send(request.body(Body::empty())?).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        let page: Page<T> = serde_json::from_slice(&body)?;
        page.items.into_iter().for_each(&mut each);
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(page.metadata.resource_version);
        }
    }
}

/// What is asked for: the objects, or of each only the metadata.
fn accept(keeps: Keeps, list: &str) -> String {
    match keeps {
        Keeps::Metadata => {
            format!("application/json;as=PartialObjectMetadata{list};v=v1;g=meta.k8s.io")
        }
        _ => "application/json".to_owned(),
    }
}

async fn next_chunk(body: &mut Body) -> Result<Bytes> {
    loop {
        let frame = body.frame().await.ok_or("the watch ended")??;
        if let Ok(chunk) = frame.into_data() {
            return Ok(chunk);
        }
    }
}

impl Bare for BarePod {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Bare for BareConfigMap {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Bare for BareObject {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Bare for BareText {
    fn name(&self) -> &str {
        &self.name
    }
}

impl<'de> Deserialize<'de> for BareText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(from)?;
        let identity: Identity = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        Ok(Self {
            name: identity.metadata.name,
            _json: json,
        })
    }
}

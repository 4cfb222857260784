//! The floor: reads the same bytes, and decodes each object once into the kept form, without managed
//! fields.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{Request, header::ACCEPT};
use http_body_util::BodyExt as _;
use k8s_openapi::{
    api::core::v1::{PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::{Client, client::Body};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Keeps, Lists};
use crate::{
    Result,
    objects::{Kind, index_of},
};

/// The kept objects.
pub(crate) struct Kept<T> {
    objects: Vec<Arc<T>>,
    watch: Body,
    rest: Vec<u8>,
}

/// The kept form of an object.
pub(crate) trait Bare: Send + Sync + Sized + 'static {
    fn name(&self) -> &str;

    /// Reads a page, and calls a function for each object.
    fn page(text: &[u8], each: impl FnMut(Self)) -> Result<PageMeta>;

    /// Reads the line of an event: its type and its object.
    fn event(line: &[u8]) -> Result<(String, Self)>;
}

/// A decoded object without managed fields.
pub(super) trait Decoded: DeserializeOwned + Send + Sync + 'static {
    fn name(&self) -> &str;
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only kept in memory")]
pub(crate) struct BarePod {
    metadata: BareMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only kept in memory")]
pub(crate) struct BareConfigMap {
    metadata: BareMeta,
    data: Option<BTreeMap<String, String>>,
    immutable: Option<bool>,
}

/// An object of which only metadata is requested.
#[derive(Deserialize)]
pub(crate) struct BareObject {
    metadata: BareMeta,
}

/// An object as bytes: only its identity is decoded.
pub(crate) struct BareText {
    name: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "only kept in memory"))]
    json: Box<[u8]>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only kept in memory")]
pub(super) struct BareMeta {
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
pub(crate) struct PageMeta {
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

/// The identity of an object on a page, which is sufficient for a relist without changes.
#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only read")]
struct IdentityMeta {
    name: String,
    uid: Option<String>,
    resource_version: String,
}

// === impl Kept ===

impl<T: Bare> Kept<T> {
    /// Lists all objects, and opens a watch.
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
            let (kind, object) = T::event(line)?;
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

/// Reads all pages, and decodes only the identities.
pub(crate) async fn identities(client: &Client, kind: Kind, keeps: Keeps) -> Result<()> {
    let mut read = 0_usize;
    pages::<Identity>(client, kind, keeps, |_| read += 1).await?;
    Ok(())
}

async fn pages<T: Bare>(
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
        let metadata = T::page(&body, &mut each)?;
        token = metadata.token;
        if token.is_empty() {
            return Ok(metadata.resource_version);
        }
    }
}

/// The request: complete objects, or only metadata.
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

// === impl Bare ===

impl<T: Decoded> Bare for T {
    fn name(&self) -> &str {
        Decoded::name(self)
    }

    fn page(text: &[u8], each: impl FnMut(Self)) -> Result<PageMeta> {
        let page: Page<T> = serde_json::from_slice(text)?;
        page.items.into_iter().for_each(each);
        Ok(page.metadata)
    }

    fn event(line: &[u8]) -> Result<(String, Self)> {
        let Event { kind, object } = serde_json::from_slice::<Event<T>>(line)?;
        Ok((kind, object))
    }
}

impl Bare for BareText {
    fn name(&self) -> &str {
        &self.name
    }

    /// Reads identities and finds the ends of objects in one pass.
    fn page(text: &[u8], mut each: impl FnMut(Self)) -> Result<PageMeta> {
        let metadata = after(text, b"\"metadata\":")?;
        let metadata = serde_json::Deserializer::from_slice(metadata).into_iter();
        let metadata = metadata.flatten().next().ok_or("a page has metadata")?;
        let mut items = after(text, b"\"items\":[")?;
        while !items.starts_with(b"]") {
            let length = Self::read(items, &mut each)?;
            items = &items[length..];
            items = items.strip_prefix(b",").unwrap_or(items);
        }
        Ok(metadata)
    }

    fn event(line: &[u8]) -> Result<(String, Self)> {
        let mut read = None;
        Self::read(after(line, b"\"object\":")?, |object| read = Some(object))?;
        let kind = after(line, b"\"type\":\"")?.split(|byte| *byte == b'"');
        let kind = String::from_utf8(kind.take(1).flatten().copied().collect())?;
        Ok((kind, read.ok_or("an event has an object")?))
    }
}

impl BareText {
    /// Reads the object at the start of `text`, and returns its length.
    fn read(text: &[u8], mut each: impl FnMut(Self)) -> Result<usize> {
        let mut objects = serde_json::Deserializer::from_slice(text).into_iter::<Identity>();
        let identity = objects.next().ok_or("the object is missing")??;
        let length = objects.byte_offset();
        each(Self {
            name: identity.metadata.name,
            json: Box::from(&text[..length]),
        });
        Ok(length)
    }
}

fn after<'t>(text: &'t [u8], what: &[u8]) -> Result<&'t [u8]> {
    let place = text.windows(what.len()).position(|it| it == what);
    let place = place.ok_or("unexpected format of the server")?;
    Ok(&text[place + what.len()..])
}

impl BareMeta {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Decoded for BarePod {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Decoded for BareConfigMap {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Decoded for BareObject {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Decoded for Identity {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

#[cfg(test)]
mod tests {
    use super::{Bare, BareText};

    const OBJECTS: [&str; 2] = [
        r#"{"metadata":{"name":"web-1","resourceVersion":"1"},"spec":{"a":[1]}}"#,
        r#"{"metadata":{"name":"web-2","resourceVersion":"2"}}"#,
    ];

    #[test]
    fn undecoded_objects_are_kept_as_received() {
        let [one, other] = OBJECTS;
        let page = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9","continue":"7"}},"items":[{one},{other}]}}"#
        );
        let mut kept = Vec::new();
        let page = BareText::page(page.as_bytes(), |object| kept.push(object)).expect("reads");
        assert_eq!((&*page.resource_version, &*page.token), ("9", "7"));
        check(&kept[0], "web-1", one);
        check(&kept[1], "web-2", other);

        let line = format!(r#"{{"type":"MODIFIED","object":{one}}}"#);
        let (kind, object) = BareText::event(line.as_bytes()).expect("reads");
        assert_eq!(kind, "MODIFIED");
        check(&object, "web-1", one);
    }

    #[track_caller]
    fn check(kept: &BareText, name: &str, json: &str) {
        assert_eq!(kept.name(), name);
        assert_eq!(&*kept.json, json.as_bytes());
    }
}

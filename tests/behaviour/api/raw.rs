//! A client that sends raw requests and checks raw responses.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// Speaks to the server of one test without believing anything about kinds.
pub(super) struct Raw {
    client: Client,
    pub(super) namespace: String,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) content_type: String,
    /// How the text is compressed; empty if it is not.
    pub(super) encoding: String,
    /// The header `Retry-After`; empty if there is none.
    pub(super) retry_after: String,
    pub(super) headers: http::HeaderMap,
    /// The first warning.
    pub(super) warning: String,
    pub(super) warnings: Vec<String>,
    pub(super) text: String,
    /// The text as JSON; `null` if it is none.
    pub(super) body: Value,
}

/// The events of a watch, as they come.
pub(super) struct Events {
    pub(super) content_type: String,
    body: Body,
    read: Vec<u8>,
}

/// An object of which only the name matters.
pub(super) fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// The resource version of an object or a list.
#[track_caller]
pub(super) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    let version = version.unwrap_or_else(|| panic!("no version: {object}"));
    version.parse().expect("a number")
}

/// The names in a list, in their order.
pub(super) fn names(list: &Value) -> String {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    names.collect::<Vec<_>>().join(" ")
}

// === impl Raw ===

impl Raw {
    pub(super) async fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.plain().await,
            namespace: cluster.namespace().to_owned(),
        }
    }

    /// The same for another server, in a namespace that it has.
    pub(super) fn of(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    /// Where the config maps of the test's namespace are.
    pub(super) fn maps(&self) -> String {
        self.at("/api/v1", "configmaps")
    }

    /// Where a resource of a group and version is, in the test's namespace.
    pub(super) fn at(&self, version: &str, resource: &str) -> String {
        format!("{version}/namespaces/{}/{resource}", self.namespace)
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    /// Reads, in the form that `accept` names.
    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.ask(Method::POST, path, &json, &body.to_string()).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.ask(Method::PUT, path, &json, &body.to_string()).await
    }

    /// Sends a merge patch.
    pub(super) async fn merge(&self, path: &str, change: &Value) -> Answer {
        self.patch(path, "merge", &change.to_string()).await
    }

    /// Sends a patch of the kind `merge`, `json` or `strategic-merge`.
    pub(super) async fn patch(&self, path: &str, kind: &str, change: &str) -> Answer {
        let content_type = format!("application/{kind}-patch+json");
        let headers = [("content-type", content_type.as_str())];
        self.ask(Method::PATCH, path, &headers, change).await
    }

    /// Applies a configuration as `manager`; `path` may end in further options.
    pub(super) async fn apply(&self, path: &str, manager: &str, config: &Value) -> Answer {
        let (path, options) = path.split_once('?').unwrap_or((path, ""));
        let path = format!("{path}?fieldManager={manager}&{options}");
        let headers = [("content-type", "application/apply-patch+yaml")];
        self.ask(Method::PATCH, &path, &headers, &config.to_string())
            .await
    }

    /// Sends a patch of any media type.
    pub(super) async fn patch_as(&self, path: &str, content_type: &str, change: &Value) -> Answer {
        let headers = [("content-type", content_type)];
        let change = change.to_string();
        self.ask(Method::PATCH, path, &headers, &change).await
    }

    /// The status code of a read; nothing if there is no response.
    pub(super) async fn try_get(&self, path: &str) -> Option<u16> {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = self.client.send(request).await.ok()?;
        Some(response.status().as_u16())
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], "").await
    }

    /// Deletes, with options in the body.
    pub(super) async fn delete_so(&self, path: &str, options: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        let options = options.to_string();
        self.ask(Method::DELETE, path, &json, &options).await
    }

    /// Reads again and again until the answer is the wanted one: the real server learns of
    /// new kinds by watching itself.
    pub(super) async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Value {
        loop {
            let answer = self.get(path).await;
            if wanted(&answer) {
                return answer.body;
            }
            pause().await;
        }
    }

    /// Sends a request as it is said.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = self.try_ask(method, path, headers, body).await;
        answer.expect("an answer")
    }

    /// Sends a request as it is said; an error if the server closes the connection.
    pub(super) async fn try_ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, kube::Error> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.as_bytes().to_vec()));
        let response = self.client.send(request.expect("a request")).await?;
        Ok(Answer::read(response).await)
    }

    /// Starts a watch; `path` has its query.
    pub(super) async fn watch(&self, path: &str) -> Events {
        self.watch_as(path, "application/json").await
    }

    /// Starts a watch, in the form that `accept` names.
    pub(super) async fn watch_as(&self, path: &str, accept: &str) -> Events {
        match self.try_watch(path, accept).await {
            Ok(events) => events,
            Err(answer) => panic!("{path}: {answer:?}"),
        }
    }

    /// Starts a watch, or returns the answer that rejects it.
    pub(super) async fn try_watch(&self, path: &str, accept: &str) -> Result<Events, Box<Answer>> {
        let request = Request::get(path).header("accept", accept);
        let request = request.body(Body::empty()).expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        if response.status() != 200 {
            return Err(Box::new(Answer::read(response).await));
        }
        Ok(Events {
            content_type: header(response.headers(), "content-type"),
            body: response.into_body(),
            read: Vec::new(),
        })
    }
}

fn header(headers: &http::HeaderMap, name: &str) -> String {
    let value = headers.get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or_default().to_owned()
}

// === impl Answer ===

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let warnings: Vec<_> = warnings.collect();
        Self {
            code: parts.status.as_u16(),
            content_type: header(&parts.headers, "content-type"),
            encoding: header(&parts.headers, "content-encoding"),
            retry_after: header(&parts.headers, "retry-after"),
            headers: parts.headers,
            warning: warnings.first().cloned().unwrap_or_default(),
            warnings,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    /// The body of an answer that is as it was hoped for.
    #[track_caller]
    pub(super) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{self:?}");
        self.body
    }

    /// The message of a refusal, which is a `Status` with this code and reason.
    #[track_caller]
    pub(super) fn refused(self, code: u16, reason: &str) -> String {
        let is = (self.code, self.body["reason"].as_str().unwrap_or_default());
        assert_eq!(is, (code, reason), "{}", self.text);
        assert_eq!(self.body["kind"], "Status", "{}", self.text);
        assert_eq!(self.body["status"], "Failure", "{}", self.text);
        assert_eq!(self.body["code"], code, "{}", self.text);
        self.body["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// Waits between two looks at a server that other tests share.
pub(super) async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

// === impl Events ===

impl Events {
    /// The next event; nothing if the watch has ended.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line is JSON"));
            }
            let frame = self.body.frame().await?.expect("a watch ends cleanly");
            if let Ok(bytes) = frame.into_data() {
                self.read.extend_from_slice(&bytes);
            }
        }
    }

    /// The next event that there must be.
    pub(super) async fn event(&mut self) -> Value {
        self.next().await.expect("one more event")
    }

    /// The next event in short: `ADDED a`, `BOOKMARK`, `ERROR 410`, `end`.
    pub(super) async fn next_line(&mut self) -> String {
        let Some(event) = self.next().await else {
            return "end".to_owned();
        };
        let kind = event["type"].as_str().expect("a type");
        let object = &event["object"];
        match kind {
            "BOOKMARK" => kind.to_owned(),
            "ERROR" => format!("{kind} {}", object["code"]),
            _ => format!(
                "{kind} {}",
                object["metadata"]["name"].as_str().expect("a name")
            ),
        }
    }
}

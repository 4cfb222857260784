//! Makes random requests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::json;

use super::options::{
    ACCEPTS, APPLY, CONTENT_TYPES, DELETE_OPTIONS, DOCUMENTS, IMPERSONATIONS, JSON_PATCH, MERGE,
    READ_OPTIONS, STRATEGIC, UNKNOWN_OPTIONS, WRITE_OPTIONS,
};
use super::target::{FREQUENT, Target};

/// What there is before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// Objects that no request changes.
    Read,
    /// An object of the request's own.
    Object,
    /// An object of the request's own, with a finalizer.
    Held,
    /// No object.
    Absent,
    /// One object in a namespace whose collections are deleted.
    Collection,
}

/// One request. Its texts contain `@NAME@`, `@NAMESPACE@`, `@VERSION@` and `@UID@` for those of the
/// object on each server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) target: Target,
    pub(super) setup: Setup,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: String,
    /// Whether the path is that of a document, such as those of discovery.
    pub(super) is_document: bool,
}

/// Makes one request.
pub(super) struct Generator<'a> {
    pub(super) random: StdRng,
    pub(super) targets: &'a [Target],
    pub(super) namespace: &'a str,
}

/// The form of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Collection,
    Object,
    Subresource,
    Strange,
    Document,
}

// === impl Request ===

impl Request {
    /// The path and query.
    pub(super) fn uri(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in &self.query {
            query.append_pair(key, value);
        }
        let query = query.finish().replace("%40", "@");
        match query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }

    pub(super) fn option(&self, key: &str) -> Option<&str> {
        let mut options = self.query.iter();
        options
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Whether the request is a watch, if it is about a collection.
    pub(super) fn is_watch(&self) -> bool {
        self.method == Method::GET
            && self
                .option("watch")
                .is_some_and(|it| !["false", "0"].contains(&it.to_lowercase().as_str()))
    }

    /// The name of its object in one of its runs. No name contains another one.
    pub(super) fn name(&self, number: u64, run: u32, namespace: &str) -> String {
        match self.setup {
            Setup::Read => format!("r-{namespace}"),
            _ => format!("q{number}-{run}-{namespace}"),
        }
    }

    /// The request without one of its parts each.
    pub(super) fn shorter(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.query.len() {
            // Without it, a watch would not end.
            if self.query[at].0 == "timeoutSeconds" && self.option("watch").is_some() {
                continue;
            }
            let mut shorter = self.clone();
            shorter.query.remove(at);
            all.push(shorter);
        }
        for at in 0..self.headers.len() {
            let mut shorter = self.clone();
            shorter.headers.remove(at);
            all.push(shorter);
        }
        if !self.body.is_empty() {
            let mut shorter = self.clone();
            shorter.body.clear();
            all.push(shorter);
        }
        if self.setup == Setup::Held {
            let mut shorter = self.clone();
            shorter.setup = Setup::Object;
            all.push(shorter);
        }
        all
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            setup,
            headers,
            body,
            ..
        } = self;
        write!(
            f,
            "\n  {setup:?}: {method} {} {headers:?} {body}",
            self.uri()
        )
    }
}

// === impl Generator ===

impl Generator<'_> {
    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices
            .choose(&mut self.random)
            .expect("there are some")
            .clone()
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one part of a request after the other"
    )]
    pub(super) fn request(mut self) -> Request {
        let is_frequent = self.chance(0.7);
        let is_candidate = |it: &&Target| !is_frequent || FREQUENT.contains(&it.kind());
        let candidates: Vec<_> = self.targets.iter().filter(is_candidate).collect();
        let target = self.pick(&candidates).clone();
        let form = match self.random.random_range(0..100) {
            0..34 => Form::Collection,
            34..66 => Form::Object,
            66..82 => Form::Subresource,
            82..92 => Form::Strange,
            _ => Form::Document,
        };
        let (path, subresource) = self.path(&target, form);
        let mut method = match self.random.random_range(0..100) {
            0..30 => Method::GET,
            30..52 => Method::POST,
            52..65 => Method::PUT,
            65..82 => Method::PATCH,
            _ => Method::DELETE,
        };
        // Mostly one that the path has.
        if self.chance(0.7) {
            method = match (form, method) {
                (Form::Collection, Method::PUT | Method::PATCH) => Method::POST,
                (Form::Object, Method::POST) => Method::PATCH,
                (Form::Document, _) => Method::GET,
                (Form::Subresource, Method::GET | Method::PUT | Method::PATCH)
                    if ["binding", "eviction", "token"].contains(&subresource.as_str()) =>
                {
                    Method::POST
                }
                (_, method) => method,
            };
        }
        if !target.stored && self.chance(0.7) {
            method = Method::POST;
        }
        let is_collection = !path.contains("@NAME@");
        // Other tests have cluster-scoped objects.
        if method == Method::DELETE && is_collection && !target.namespaced && form != Form::Document
        {
            method = Method::GET;
        }
        let setup = match method {
            Method::GET => Setup::Read,
            _ if form == Form::Document || !target.stored => Setup::Read,
            Method::DELETE if is_collection => Setup::Collection,
            Method::POST if is_collection && self.chance(0.9) => Setup::Absent,
            _ if self.chance(0.07) => Setup::Absent,
            Method::DELETE if self.chance(0.2) => Setup::Held,
            _ => Setup::Object,
        };
        let query = self.query(&method, &target, is_collection);
        let mut headers = Vec::new();
        if self.chance(0.4) {
            headers.push(("accept", self.pick(ACCEPTS)));
        }
        let has_body = method != Method::GET;
        let (content_type, body) = if has_body {
            self.body(&method, &target, form, &subresource)
        } else {
            ("", String::new())
        };
        if has_body && !content_type.is_empty() && !self.chance(0.03) {
            headers.push(("content-type", content_type));
        }
        if self.chance(0.04) {
            headers.extend_from_slice(self.pick(IMPERSONATIONS));
        }
        let mut request = Request {
            target,
            setup,
            method,
            path,
            query,
            headers,
            body,
            is_document: form == Form::Document,
        };
        if request.method == Method::GET && request.option("watch").is_some() {
            let ends = |(key, value): &(&str, String)| {
                *key == "timeoutSeconds"
                    && !["0", "2", "2147483648", "01", "+1"].contains(&value.as_str())
            };
            request
                .query
                .retain(|it| it.0 != "timeoutSeconds" || ends(it));
            if request.option("timeoutSeconds").is_none() {
                request.query.push(("timeoutSeconds", "1".to_owned()));
            }
        }
        request
    }

    /// A path, and the subresource in it.
    fn path(&mut self, target: &Target, form: Form) -> (String, String) {
        let collection = target.collection("@NAMESPACE@");
        let none = String::new();
        let (root, plural) = (&target.root, &target.plural);
        match form {
            Form::Collection if target.namespaced && self.chance(0.2) => {
                (format!("{root}/{plural}"), none)
            }
            Form::Collection => (collection, none),
            Form::Object if self.chance(0.04) => (format!("{collection}/absent"), none),
            Form::Object => (format!("{collection}/@NAME@"), none),
            Form::Subresource => {
                let others = [
                    "status", "scale", "log", "finalize", "token", "eviction", "binding",
                    "unknown", "approval",
                ];
                let others = others.map(str::to_owned);
                let own = target.subresources.clone();
                // A stream does not end.
                let own: Vec<_> = own
                    .into_iter()
                    .filter(|it| !["exec", "attach", "portforward", "proxy"].contains(&it.as_str()))
                    .collect();
                let part = if own.is_empty() || self.chance(0.15) {
                    self.pick(&others)
                } else {
                    self.pick(&own)
                };
                (format!("{collection}/@NAME@/{part}"), part)
            }
            Form::Strange => {
                let (bare, one) = (format!("{root}/{plural}"), format!("{collection}/@NAME@"));
                let choices = [
                    format!("{bare}/@NAME@"),
                    format!("{bare}/@NAME@/status"),
                    format!("{root}/namespaces/@NAMESPACE@/{plural}"),
                    format!("{root}/namespaces/@NAMESPACE@/{plural}/@NAME@"),
                    format!("{root}/namespaces/absent/{plural}/@NAME@"),
                    format!("{root}/namespaces/absent/{plural}"),
                    format!("{collection}/"),
                    format!("{one}/"),
                    format!("{one}//"),
                    format!("{one}/status/"),
                    format!("{one}/status/x"),
                    format!("{one}/x/y/z"),
                    format!("{root}//{plural}"),
                    format!("{root}/namespaces//{plural}"),
                    format!("{root}/namespaces/@NAMESPACE@"),
                    format!("{root}/namespaces/@NAMESPACE@/"),
                    format!("{root}/{}", target.kind()),
                    format!("{root}/{}s", target.kind().to_lowercase() + "x"),
                    format!("{root}x/{plural}"),
                    format!("{}/{plural}", root.replace("v1", "v9")),
                    format!("{collection}/A_B"),
                    format!("{collection}/a%20b"),
                    format!("{collection}/a%2Fb"),
                    format!("{collection}/%25"),
                ];
                // The path of the namespaces themselves is that of another kind.
                let choices: Vec<_> = choices
                    .into_iter()
                    .filter(|it| {
                        !(root == "/api/v1"
                            && it.contains("namespaces/@NAMESPACE@")
                            && !it.contains(plural.as_str()))
                    })
                    .collect();
                (self.pick(&choices), none)
            }
            Form::Document => {
                let group = format!("{}.windlass.dev", self.namespace);
                (self.pick(DOCUMENTS).replace("@GROUP@", &group), none)
            }
        }
    }

    fn query(
        &mut self,
        method: &Method,
        target: &Target,
        is_collection: bool,
    ) -> Vec<(&'static str, String)> {
        let own: &[&[_]] = match *method {
            Method::GET => &[READ_OPTIONS],
            Method::DELETE if is_collection => &[DELETE_OPTIONS, READ_OPTIONS],
            Method::DELETE => &[DELETE_OPTIONS],
            _ => &[WRITE_OPTIONS],
        };
        let count = self.pick(&[0, 0, 1, 1, 1, 2, 3, 4]);
        let mut query: Vec<(&'static str, String)> = Vec::new();
        for _ in 0..count {
            let options: Vec<_> = if self.chance(0.85) {
                own.concat()
            } else {
                [READ_OPTIONS, WRITE_OPTIONS, DELETE_OPTIONS, UNKNOWN_OPTIONS].concat()
            };
            let (key, values) = self.pick(&options);
            let mut value = self.pick(values).to_owned();
            if value == "@TOKEN@" {
                value = self.token();
            }
            if query.iter().any(|it| it.0 == key) {
                continue;
            }
            query.push((key, value));
            if self.chance(0.05) && key != "dryRun" {
                query.push((key, self.pick(values).replace("@TOKEN@", "x")));
            }
        }
        // Half of the lists of collections are watches.
        let may_watch = *method == Method::GET && is_collection;
        if may_watch && query.iter().all(|it| it.0 != "watch") && self.chance(0.3) {
            query.push(("watch", self.pick(&["true", "1"]).to_owned()));
        }
        // The number of objects of other tests is not known.
        if !target.namespaced || is_collection {
            let is_wide = !target.namespaced;
            query.retain(|(key, _)| !is_wide || *key != "limit");
        }
        query
    }

    /// A token for a part of a list.
    fn token(&mut self) -> String {
        let token = match self.random.random_range(0..7) {
            0 => json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": "a\0" }),
            1 => json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": "" }),
            2 => json!({ "v": "meta.k8s.io/v1", "rv": 0, "start": "a\0" }),
            3 => json!({ "v": "v1", "rv": -1, "start": "a\0" }),
            4 => json!({ "v": "meta.k8s.io/v1", "rv": "x", "start": "a\0" }),
            5 => json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": "../a\0" }),
            _ => json!({}),
        };
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// The media type and the text of a body.
    fn body(
        &mut self,
        method: &Method,
        target: &Target,
        form: Form,
        subresource: &str,
    ) -> (&'static str, String) {
        let mut object = target.object.clone();
        object["metadata"]["name"] = "@NAME@".into();
        if !target.stored {
            object["metadata"] = json!({});
        }
        if form == Form::Subresource {
            object = self.part(object, subresource);
        }
        let mut content_type = if self.chance(0.85) {
            "application/json"
        } else {
            self.pick(CONTENT_TYPES)
        };
        let body = match *method {
            Method::DELETE => {
                if self.chance(0.5) {
                    return ("", String::new());
                }
                self.deletion()
            }
            Method::PATCH => {
                let kind = self.pick(&[MERGE, MERGE, JSON_PATCH, STRATEGIC, APPLY]);
                if self.chance(0.85) {
                    content_type = kind;
                }
                self.patch(kind, object)
            }
            _ if !target.stored => {
                // `reviews_return_the_user_and_its_permissions` compares their metadata.
                let body = self.mutated(object.clone());
                let has_metadata = body.contains("\"metadata\":{\"");
                if has_metadata {
                    object.to_string()
                } else {
                    body
                }
            }
            _ => self.mutated(object),
        };
        (content_type, body)
    }
}

//! Makes random requests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

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

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const INTEGERS: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "2",
    "x",
    "1.5",
    "99999999999999999999",
    "2147483648",
    "+1",
    " 1",
    "01",
];
const BOOLEANS: &[&str] = &["true", "false", "", "1", "0", "True", "x", "t", "f", "no"];
const VERSIONS: &[&str] = &[
    "",
    "0",
    "@VERSION@",
    "@VERSION@",
    "x",
    "-1",
    "1.5",
    "0x1",
    "99999999999999999999",
    "+1",
];
const DRY_RUNS: &[&str] = &["All", "All", "", "all", "None", "true"];
const VALIDATIONS: &[&str] = &["Strict", "Warn", "Ignore", "", "strict", "x"];
const MANAGERS: &[&str] = &["m1", "m1", "", "a b", "a\nb", "x%", "é"];

/// The options of reads.
const READ_OPTIONS: &[(&str, &[&str])] = &[
    ("resourceVersion", VERSIONS),
    (
        "resourceVersionMatch",
        &["Exact", "NotOlderThan", "", "exact", "x"],
    ),
    ("limit", INTEGERS),
    (
        "timeoutSeconds",
        &["1", "-1", "x", "1.5", "99999999999999999999", ""],
    ),
    ("sendInitialEvents", BOOLEANS),
    ("allowWatchBookmarks", BOOLEANS),
    ("watch", BOOLEANS),
    (
        "labelSelector",
        &[
            "",
            "a=b",
            "a",
            "!a",
            "a in (b,c)",
            "a==b",
            "a!=b",
            "a in ()",
            "a>1",
            "a>x",
            "=b",
            "a b",
            "a,",
            ",",
            "a=b=c",
            "a/b/c=d",
            "A_B=c",
            "a=é",
            "a notin (b",
            "app",
            "app=web",
        ],
    ),
    (
        "fieldSelector",
        &[
            "",
            "metadata.name=@NAME@",
            "metadata.name!=@NAME@",
            "metadata.name=absent",
            "metadata.namespace=@NAMESPACE@",
            "spec.nodeName=",
            "status.phase=Running",
            "x=y",
            "x",
            "metadata.name",
            "metadata.name==@NAME@",
            "metadata.uid=x",
            "=",
            ",",
            "metadata.name=a,metadata.name=b",
            "metadata.name=A_B",
            "type=x",
            "spec.x=y",
            "metadata.name=",
            "metadata.labels.a=b",
        ],
    ),
    (
        "includeObject",
        &["None", "Metadata", "Object", "", "x", "none"],
    ),
    ("pretty", &["false", "0", ""]),
    ("timeout", &["1s", "", "x", "0", "-1s", "1", "1h", "10m5s"]),
    ("shardSelector", &["", "x"]),
    ("continue", &["", "x", "@TOKEN@"]),
];

/// The options of writes.
const WRITE_OPTIONS: &[(&str, &[&str])] = &[
    ("dryRun", DRY_RUNS),
    ("fieldManager", MANAGERS),
    ("fieldValidation", VALIDATIONS),
    ("force", BOOLEANS),
    ("pretty", &["false", "0", ""]),
    ("timeout", &["1s", "", "x", "0", "-1s", "1", "1h"]),
];

/// The options of deletions.
const DELETE_OPTIONS: &[(&str, &[&str])] = &[
    ("dryRun", DRY_RUNS),
    ("gracePeriodSeconds", INTEGERS),
    (
        "propagationPolicy",
        &[
            "Background",
            "Foreground",
            "Orphan",
            "",
            "nil",
            "background",
            "x",
        ],
    ),
    ("orphanDependents", BOOLEANS),
    ("uid", &["@UID@", "", "x"]),
    ("preconditions", &["x", ""]),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        &["true", "false", "", "x"],
    ),
];

/// Options that no server knows.
const UNKNOWN_OPTIONS: &[(&str, &[&str])] = &[
    ("unknown", &["x", ""]),
    ("", &["x", ""]),
    ("apiVersion", &["v1", "x"]),
    ("kind", &["x"]),
    ("exact", &["true"]),
    ("export", &["true"]),
    ("name", &["x"]),
    ("stream", &["x"]),
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Unknown;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table",
    "application/json; charset=utf-8",
    "application/json;q=0.1, application/yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
    "application/cbor",
    "application/xml",
    "text/html",
    "",
    "x",
    "text/html, application/json",
    "APPLICATION/JSON",
];

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json; charset=utf-8",
    "application/yaml",
    "",
    "*/*",
    "application/xml",
    "text/plain",
    "x",
    "APPLICATION/JSON",
    "application/json,application/yaml",
    "application/cbor",
    "application/x-www-form-urlencoded",
    MERGE,
    JSON_PATCH,
    STRATEGIC,
    APPLY,
    "application/apply-patch+json",
    "application/patch+json",
    "application/merge-patch+json; charset=utf-8",
];

const IMPERSONATIONS: &[&[(&str, &str)]] = &[
    &[
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
    ],
    &[
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    ],
    &[("impersonate-group", "system:masters")],
    &[("impersonate-uid", "x")],
    &[("impersonate-extra-scopes", "x")],
    &[("impersonate-user", "")],
    &[
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "1"),
    ],
];

/// Paths of documents.
const DOCUMENTS: &[&str] = &[
    "/api",
    "/apis",
    "/api/",
    "/apis/",
    "/api/v1",
    "/api/v1/",
    "/apis/apps",
    "/apis/apps/",
    "/apis/apps/v1",
    "/apis/apps/v1/",
    "/apis/apps/v2",
    "/apis/unknown",
    "/apis/unknown/",
    "/apis/unknown/v1",
    "/apis/unknown/v1/",
    "/version",
    "/version/",
    "/version/x",
    "/healthz",
    "/livez",
    "/readyz",
    "/healthz/ping",
    "/healthz/unknown",
    "/livez/etcd",
    "/readyz/",
    "/openapi",
    "/openapi/",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v3/apis/apps/v2",
    "/openapi/v3/apis/unknown/v1",
    "/openapi/v1",
    "/openapi/v3/x",
    "/api/v2",
    "/api/v2/",
    "/api/v1/unknown",
    "/api/v1/unknown/x",
    "/api/v1/unknown/x/status",
    "/unknown",
    "/unknown/x",
    "/apis/apps/v1/unknown",
    "/apis/apps/v1/unknown/x",
    "/apis/apps/v1/namespaces/x/unknown",
    "/apis/apps/v2/deployments",
    "/api/v1/namespaces/x/unknown",
    "/apis/unknown/v1/x",
    "/apis/unknown/v1/namespaces/a/x/b",
    "/api/v1/namespaces/x/pods/a/b/c",
    "/swagger.json",
    "/api/x",
    "/api/V1",
    "/APIS",
    "/apis/authorization.k8s.io/v1",
    "/apis/authorization.k8s.io/v1beta1",
    "/apis/autoscaling/v1",
    "/apis/autoscaling",
    "/apis/events.k8s.io",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/apis/@GROUP@",
    "/apis/@GROUP@/",
    "/apis/@GROUP@/v1",
    "/apis/@GROUP@/v1/",
    "/apis/@GROUP@/v2",
    "/apis/@GROUP@/v1/unknown",
    "/apis/@GROUP@/v1/widgets/x/y/z",
    "/apis/@GROUP@/v2/widgets",
    "/openapi/v3/apis/@GROUP@/v1",
    "/openapi/v3/apis/@GROUP@/v2",
];

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

    fn option(&self, key: &str) -> Option<&str> {
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
    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices
            .choose(&mut self.random)
            .expect("there are some")
            .clone()
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

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
            object = self.part(target, object, subresource);
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

    /// The object that a subresource takes.
    fn part(&mut self, target: &Target, object: Value, subresource: &str) -> Value {
        let metadata = json!({ "name": "@NAME@" });
        match subresource {
            "scale" => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
                "spec": { "replicas": self.pick(&[json!(2), json!(0), json!(-1), json!("x"), Value::Null]) },
            }),
            "binding" => json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
                "target": self.pick(&[json!({ "kind": "Node", "name": "n" }), json!({ "name": "n" }), json!({}), json!({ "kind": "Pod", "name": "n" })]),
            }),
            "eviction" => json!({
                "apiVersion": self.pick(&["policy/v1", "policy/v1", "policy/v1beta1", "v1"]), "kind": "Eviction", "metadata": metadata,
                "deleteOptions": self.pick(&[Value::Null, json!({}), json!({ "gracePeriodSeconds": 0 }), json!({ "dryRun": ["All"] }), json!({ "dryRun": ["x"] }), json!({ "propagationPolicy": "x" })]),
            }),
            "token" => json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": self.pick(&[json!({}), metadata.clone(), json!({ "name": "x" })]),
                "spec": self.pick(&[json!({}), json!({ "audiences": ["a"] }), json!({ "expirationSeconds": 600 }), json!({ "expirationSeconds": 1 }), json!({ "audiences": [""] })]),
            }),
            "status" => {
                let mut object = object;
                object["status"] = self.pick(&[
                    json!({}),
                    Value::Null,
                    json!({ "replicas": 1 }),
                    json!({ "phase": "Running" }),
                    json!([]),
                    json!("x"),
                    json!({ "unknown": 1 }),
                    json!({ "conditions": [] }),
                ]);
                object
            }
            "approval" => {
                let mut object = object;
                object["status"] = json!({ "conditions": [{
                    "type": self.pick(&["Approved", "Denied", "Failed", "x", ""]),
                    "status": self.pick(&["True", "False", "x", ""]),
                }] });
                object
            }
            "ephemeralcontainers" => {
                let mut object = object;
                object["spec"]["ephemeralContainers"] = self.pick(&[
                    json!([{ "name": "debug", "image": "a" }]),
                    json!([]),
                    json!([{ "name": "" }]),
                    json!([{ "name": "debug" }]),
                    Value::Null,
                ]);
                object
            }
            "finalize" => {
                let mut object = object;
                object["spec"]["finalizers"] = self.pick(&[
                    json!(["kubernetes"]),
                    json!([]),
                    json!(["x"]),
                    json!(["x.io/y"]),
                    Value::Null,
                ]);
                object
            }
            _ => {
                let _ = target;
                object
            }
        }
    }

    /// The options of a deletion as a body.
    fn deletion(&mut self) -> String {
        let choices = [
            r#"{}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#,
            "null",
            "[]",
            "1",
            "\"x\"",
            "{",
            "",
            "x: y",
            " ",
            r#"{"gracePeriodSeconds":0}"#,
            r#"{"gracePeriodSeconds":-1}"#,
            r#"{"gracePeriodSeconds":"1"}"#,
            r#"{"gracePeriodSeconds":1.5}"#,
            r#"{"gracePeriodSeconds":null}"#,
            r#"{"propagationPolicy":"Foreground"}"#,
            r#"{"propagationPolicy":"Orphan"}"#,
            r#"{"propagationPolicy":"x"}"#,
            r#"{"propagationPolicy":""}"#,
            r#"{"propagationPolicy":null}"#,
            r#"{"orphanDependents":true}"#,
            r#"{"orphanDependents":false}"#,
            r#"{"orphanDependents":true,"propagationPolicy":"Background"}"#,
            r#"{"orphanDependents":"x"}"#,
            r#"{"dryRun":["All"]}"#,
            r#"{"dryRun":[]}"#,
            r#"{"dryRun":["x"]}"#,
            r#"{"dryRun":["All","All"]}"#,
            r#"{"dryRun":"All"}"#,
            r#"{"dryRun":[""]}"#,
            r#"{"dryRun":[1]}"#,
            r#"{"preconditions":{"uid":"@UID@"}}"#,
            r#"{"preconditions":{"uid":"x"}}"#,
            r#"{"preconditions":{"resourceVersion":"@VERSION@"}}"#,
            r#"{"preconditions":{"resourceVersion":"1"}}"#,
            r#"{"preconditions":{"resourceVersion":"x"}}"#,
            r#"{"preconditions":{}}"#,
            r#"{"preconditions":null}"#,
            r#"{"preconditions":[]}"#,
            r#"{"preconditions":{"uid":""}}"#,
            r#"{"preconditions":{"unknown":1}}"#,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            r#"{"kind":"DeleteOptions"}"#,
            r#"{"apiVersion":"x/y/z"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"x"}"#,
            r#"{"kind":1}"#,
            r#"{"kind":"x"}"#,
            r#"{"kind":"Status","apiVersion":"v1"}"#,
            r#"{"unknown":1}"#,
            r#"{"gracePeriodSeconds":0,"gracePeriodSeconds":5}"#,
            r#"{"GracePeriodSeconds":0}"#,
            r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"v1","metadata":{"name":"x"}}"#,
        ];
        self.pick(&choices).to_owned()
    }

    /// A patch of the media type `kind`, for an object or the object of a subresource.
    fn patch(&mut self, kind: &str, object: Value) -> String {
        let metadata =
            |name: &str, value: Value| json!({ "metadata": { name: value } }).to_string();
        if kind == JSON_PATCH {
            let choices = [
                r#"[{"op":"add","path":"/metadata/labels","value":{"k":"v"}}]"#,
                r#"[{"op":"test","path":"/metadata/name","value":"x"}]"#,
                r#"[{"op":"test","path":"/metadata/name","value":"@NAME@"}]"#,
                r#"[{"op":"remove","path":"/metadata/absent"}]"#,
                r#"[{"op":"replace","path":"/metadata/annotations","value":{"a":"b"}}]"#,
                r#"[{"op":"copy","from":"/metadata/name","path":"/metadata/annotations/a"}]"#,
                r#"[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]"#,
                r#"[{"op":"x","path":"/metadata/name"}]"#,
                r#"[{"path":"/metadata/name"}]"#,
                r#"[{"op":"add","path":"metadata","value":1}]"#,
                r#"[{"op":"add","path":"/metadata/labels"}]"#,
                r#"[{"op":"add","path":"","value":{}}]"#,
                r#"[{"op":"replace","path":"/metadata","value":null}]"#,
                r#"[{"op":"remove","path":"/metadata"}]"#,
                r#"[{"op":"remove","path":"/metadata/name"}]"#,
                r#"[{"op":"remove","path":"/kind"}]"#,
                r#"[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]"#,
                r#"[{"op":"replace","path":"/metadata/uid","value":"x"}]"#,
                r#"[{"op":"replace","path":"/spec","value":null}]"#,
                r#"[{"op":"add","path":"/spec/replicas","value":3}]"#,
                r#"[{"op":"add","path":"/unknown","value":3}]"#,
                r#"[{"op":"add","path":"/status","value":{}}]"#,
                "[]",
                "{}",
                "null",
                "1",
                "\"x\"",
                "[1]",
                "[null]",
                "[{}]",
                "[",
                "",
                "[[]]",
                r#"[{"op":1}]"#,
                r#"[{"op":"add","path":1,"value":1}]"#,
                r#"{"op":"add","path":"/metadata/labels","value":{}}"#,
            ];
            return self.pick(&choices).to_owned();
        }
        if kind == APPLY && self.chance(0.7) {
            return self.mutated(object);
        }
        let choices = [
            metadata("labels", json!({ "k": "v" })),
            metadata("labels", json!({ "k": null })),
            metadata("labels", Value::Null),
            metadata("labels", json!([])),
            metadata("labels", json!({ "k": 1 })),
            metadata("annotations", json!({ "k": "v" })),
            metadata("name", json!("other")),
            metadata("name", Value::Null),
            metadata("namespace", json!("other")),
            metadata("namespace", Value::Null),
            metadata("uid", json!("other")),
            metadata("uid", json!("@UID@")),
            metadata("resourceVersion", json!("1")),
            metadata("resourceVersion", json!("@VERSION@")),
            metadata("resourceVersion", json!("x")),
            metadata("resourceVersion", json!("")),
            metadata("resourceVersion", json!("0")),
            metadata("resourceVersion", Value::Null),
            metadata("generation", json!(7)),
            metadata("creationTimestamp", Value::Null),
            metadata("creationTimestamp", json!("2020-01-01T00:00:00Z")),
            metadata("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            metadata("finalizers", json!(["a.io/b"])),
            metadata("finalizers", json!(["a"])),
            metadata("ownerReferences", json!([{}])),
            metadata("managedFields", json!([])),
            metadata("managedFields", json!([{}])),
            metadata("managedFields", Value::Null),
            metadata("unknown", json!(1)),
            metadata("generateName", json!("x")),
            metadata("selfLink", json!("x")),
            r#"{"metadata":null}"#.into(),
            r#"{"metadata":[]}"#.into(),
            r#"{"kind":"Other"}"#.into(),
            r#"{"apiVersion":"v9"}"#.into(),
            r#"{"kind":1}"#.into(),
            r#"{"unknown":{"a":1}}"#.into(),
            r#"{"spec":null}"#.into(),
            r#"{"spec":{}}"#.into(),
            r#"{"spec":[]}"#.into(),
            r#"{"spec":"x"}"#.into(),
            r#"{"spec":{"unknown":1}}"#.into(),
            r#"{"spec":{"replicas":2}}"#.into(),
            r#"{"spec":{"replicas":-1}}"#.into(),
            r#"{"spec":{"replicas":"2"}}"#.into(),
            r#"{"status":{}}"#.into(),
            r#"{"status":null}"#.into(),
            r#"{"status":{"unknown":1}}"#.into(),
            r#"{"status":[]}"#.into(),
            r#"{"$patch":"replace"}"#.into(),
            r#"{"$patch":"delete"}"#.into(),
            r#"{"$patch":"x"}"#.into(),
            r#"{"metadata":{"$patch":"replace"}}"#.into(),
            r#"{"data":{"k":"v"}}"#.into(),
            r#"{"data":{"k":1}}"#.into(),
            r#"{"data":null}"#.into(),
            "{}".into(),
            "null".into(),
            "[]".into(),
            "1".into(),
            "\"x\"".into(),
            "{".into(),
            String::new(),
            "a: b".into(),
            "x".into(),
            "true".into(),
            r#"{"metadata":{"labels":{"a":"b","a":"c"}}}"#.into(),
            object.to_string(),
        ];
        self.pick(&choices)
    }

    /// The text of an object, mostly with a fault.
    fn mutated(&mut self, mut object: Value) -> String {
        let mut set = |pointer: &str, value: Value| {
            let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
            if let Some(parent) = object.pointer_mut(parent)
                && parent.is_object()
            {
                parent[last] = value;
            }
        };
        match self.random.random_range(0..90) {
            0 => set("/kind", json!("Other")),
            1 => set("/kind", Value::Null),
            2 => set("/kind", json!("")),
            3 => set("/kind", json!(1)),
            4 => set("/apiVersion", json!("v9")),
            5 => set("/apiVersion", Value::Null),
            6 => set("/apiVersion", json!("a/b/c")),
            7 => set("/apiVersion", json!("apps/v1")),
            8 => set("/metadata/name", json!("other-@NAME@")),
            9 => set("/metadata/name", json!("")),
            10 => set("/metadata/name", Value::Null),
            11 => set("/metadata/name", json!("A_B")),
            12 => set("/metadata/name", json!(1)),
            13 => set("/metadata/namespace", json!("other")),
            14 => set("/metadata/namespace", json!("")),
            15 => set("/metadata/namespace", json!("A_B")),
            16 => set("/metadata/namespace", json!("@NAMESPACE@")),
            17 => set("/metadata/namespace", json!(1)),
            18 => set("/metadata/resourceVersion", json!("1")),
            19 => set("/metadata/resourceVersion", json!("@VERSION@")),
            20 => set("/metadata/resourceVersion", json!("x")),
            21 => set("/metadata/resourceVersion", json!("0")),
            22 => set("/metadata/uid", json!("x")),
            23 => set("/metadata/uid", json!("@UID@")),
            24 => set("/metadata/labels", json!({ "a": 1 })),
            25 => set("/metadata/labels", json!({ "A B": "x" })),
            26 => set("/metadata/labels", json!([])),
            27 => set("/metadata/annotations", json!({ "A B": "x" })),
            28 => set("/metadata/finalizers", json!(["x"])),
            29 => set("/metadata/finalizers", json!("x")),
            30 => set("/metadata/ownerReferences", json!([{}])),
            31 => set(
                "/metadata/ownerReferences",
                json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1" }]),
            ),
            32 => set("/metadata/generateName", json!("x-")),
            33 => set("/metadata/creationTimestamp", json!("x")),
            34 => set("/metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            35 => set("/metadata/managedFields", json!([{}])),
            36 => set(
                "/metadata/managedFields",
                json!([{ "manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {} }]),
            ),
            37 => set("/metadata/unknown", json!(1)),
            38 => set("/metadata/generation", json!(5)),
            39 => set("/metadata/selfLink", json!("x")),
            40 => set("/metadata", Value::Null),
            41 => set("/metadata", json!([])),
            42 => set("/metadata", json!({})),
            43 => set("/unknown", json!({ "a": 1 })),
            44 => set("/spec", Value::Null),
            45 => set("/spec", json!([])),
            46 => set("/spec", json!({})),
            47 => set("/spec/unknown", json!(1)),
            48 => set("/status", json!("x")),
            49 => set("/status", json!({ "unknown": 1 })),
            50 => set("/data", json!({ "k": 1 })),
            51 => set("/spec/replicas", json!("1")),
            52 => set("/metadata/annotations", json!({ "a": "b" })),
            53 => set("/metadata/deletionGracePeriodSeconds", json!(5)),
            54 => return "null".to_owned(),
            55 => return "[]".to_owned(),
            56 => return "{}".to_owned(),
            57 => return String::new(),
            58 => return "x".to_owned(),
            59 => return "1".to_owned(),
            60 => return "\"x\"".to_owned(),
            61 => {
                let text = object.to_string();
                return text[..text.len() / 2].to_owned();
            }
            62 => return format!("{object}{object}"),
            63 => return format!("{object} x"),
            64 => return json!([object]).to_string(),
            65 => {
                return json!({ "apiVersion": "v1", "kind": "List", "items": [object] })
                    .to_string();
            }
            66 => return object.to_string().replacen('{', r#"{"kind":"Other","#, 1),
            67 => {
                return object
                    .to_string()
                    .replacen('{', r#"{"unknown":1,"unknown":2,"#, 1);
            }
            68 => {
                return object.to_string().replacen(
                    "\"metadata\":{",
                    r#""metadata":{"name":"other","#,
                    1,
                );
            }
            69 => {
                return object.to_string().replacen(
                    "\"metadata\":{",
                    r#""metadata":{"labels":{"a":"b","a":"c"},"labels":{"a":"d"},"#,
                    1,
                );
            }
            70 => return object.to_string().replace("\"kind\"", "\"Kind\""),
            71 => return object.to_string().replace("\"metadata\"", "\"Metadata\""),
            72 => return serde_yaml_ng::to_string(&object).expect("YAML"),
            73 => return json!({ "kind": "Status", "apiVersion": "v1" }).to_string(),
            74 => return json!({ "kind": "DeleteOptions", "apiVersion": "v1" }).to_string(),
            75 => return "{\"metadata\":".to_owned(),
            76 => return "\u{feff}{}".to_owned(),
            _ => {}
        }
        object.to_string()
    }
}

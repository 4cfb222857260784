//! Subresources of pods and service accounts, and reviews of users.

use http::Method;
use serde_json::{Value, json};

use super::raw::{Answer, Raw, named};

/// Sends a body with further headers.
async fn post_as(raw: &Raw, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    raw.ask(Method::POST, path, &all, &body.to_string()).await
}

/// Creates a pod with the label `app`, and gives its path.
async fn pod(raw: &Raw, name: &str) -> String {
    let pods = raw.at("/api/v1", "pods");
    let mut pod = named(name);
    pod["metadata"]["labels"] = json!({ "app": name });
    pod["spec"] = json!({
        "containers": [{
            "name": "main",
            "image": "registry.example/web:1",
            "resources": { "requests": { "cpu": "1" } },
        }],
    });
    raw.post(&pods, &pod).await.ok();
    format!("{pods}/{name}")
}

/// Binds a pod to a node.
async fn bind(raw: &Raw, path: &str, name: &str, node: &str) -> Answer {
    let mut binding = named(name);
    binding["target"] = json!({ "kind": "Node", "name": node });
    raw.post(&format!("{path}/binding"), &binding).await
}

/// The fields of the metadata that say how long a dying pod has.
fn grace(pod: &Value) -> (bool, Option<i64>) {
    let metadata = &pod["metadata"];
    let is_dying = metadata["deletionTimestamp"].is_string();
    (is_dying, metadata["deletionGracePeriodSeconds"].as_i64())
}

on_both_servers! {
    /// docs/apiserver.md: "Subresources".
    async fn a_pod_is_bound_to_one_node(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = pod(&raw, "a").await;
        assert_eq!(bind(&raw, &path, "a", "n1").await.ok()["status"], "Success");
        let bound = raw.get(&path).await.ok();
        assert_eq!(bound["spec"]["nodeName"], "n1");
        assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
        let why = bind(&raw, &path, "a", "n2").await.refused(409, "Conflict");
        let expected = "Operation cannot be fulfilled on pods/binding \"a\": \
                        pod a is already assigned to node \"n1\"";
        assert_eq!(why, expected);
        let why = bind(&raw, &path, "b", "n2").await.refused(400, "BadRequest");
        assert_eq!(why, "name in URL does not match name in Binding object");
        let nowhere = bind(&raw, &raw.at("/api/v1", "pods/none"), "none", "n1").await;
        nowhere.refused(404, "NotFound");

        let mut gated = named("gated");
        gated["spec"] = json!({
            "containers": [{ "name": "main", "image": "registry.example/web:1" }],
            "schedulingGates": [{ "name": "ex.io/gate" }],
        });
        let pods = raw.at("/api/v1", "pods");
        raw.post(&pods, &gated).await.ok();
        let why = bind(&raw, &format!("{pods}/gated"), "gated", "n1").await;
        let why = why.refused(409, "Conflict");
        assert!(why.ends_with("pod gated has non-empty .spec.schedulingGates"), "{why}");
    }

    /// docs/apiserver.md: row 93.
    async fn a_pod_on_a_node_has_time_to_stop(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = pod(&raw, "a").await;
        let deleted = raw.delete(&path).await.ok();
        assert_eq!(deleted["kind"], "Pod");
        assert_eq!(raw.get(&path).await.code, 404, "it runs nowhere");

        let path = pod(&raw, "b").await;
        bind(&raw, &path, "b", "n1").await.ok();
        assert_eq!(grace(&raw.delete(&path).await.ok()), (true, Some(30)));
        let shorter = raw.delete(&format!("{path}?gracePeriodSeconds=5")).await.ok();
        assert_eq!(grace(&shorter), (true, Some(5)));
        let longer = raw.delete(&format!("{path}?gracePeriodSeconds=50")).await.ok();
        assert_eq!(grace(&longer), (true, Some(5)), "time is never added");
        let generation = |pod: &Value| pod["metadata"]["generation"].as_i64();
        assert_eq!(generation(&longer), Some(2), "{longer}");
        let why = bind(&raw, &path, "b", "n2").await.refused(409, "Conflict");
        assert!(why.ends_with("pod b is being deleted, cannot be assigned to a host"), "{why}");
        let negative = raw.delete(&format!("{path}?gracePeriodSeconds=-1")).await.ok();
        assert_eq!(grace(&negative), (true, Some(1)));
        raw.merge(&path, &json!({ "metadata": { "labels": { "x": "y" } } })).await.ok();
        raw.delete_so(&path, &json!({ "gracePeriodSeconds": 0 })).await.ok();
        assert_eq!(raw.get(&path).await.code, 404);

        let path = pod(&raw, "c").await;
        bind(&raw, &path, "c", "n1").await.ok();
        let done = json!({ "status": { "phase": "Succeeded" } });
        raw.merge(&format!("{path}/status"), &done).await.ok();
        raw.delete(&path).await.ok();
        assert_eq!(raw.get(&path).await.code, 404, "it has stopped");
    }

    /// docs/apiserver.md: "Subresources".
    async fn a_budget_decides_which_evictions_are_allowed(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = pod(&raw, "a").await;
        bind(&raw, &path, "a", "n1").await.ok();
        let running = json!({
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        raw.merge(&format!("{path}/status"), &running).await.ok();
        let budgets = raw.at("/apis/policy/v1", "poddisruptionbudgets");
        let mut budget = named("budget");
        let selector = json!({ "matchLabels": { "app": "a" } });
        budget["spec"] = json!({ "minAvailable": 1, "selector": selector });
        raw.post(&budgets, &budget).await.ok();
        let budget = format!("{budgets}/budget");
        let eviction = format!("{path}/eviction");
        let mut evict = named("a");
        evict["apiVersion"] = "policy/v1".into();
        evict["kind"] = "Eviction".into();

        let early = raw.post(&eviction, &evict).await;
        let cause = early.body["details"]["causes"][0]["message"].clone();
        let retry = early.body["details"]["retryAfterSeconds"].clone();
        let why = early.refused(429, "TooManyRequests");
        assert_eq!(why, "Cannot evict pod as it would violate the pod's disruption budget.");
        assert_eq!(cause, "The disruption budget budget is still being processed by the server.");
        assert_eq!(retry, 10);
        let mut status = json!({
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1,
        });
        let change = json!({ "status": status });
        raw.merge(&format!("{budget}/status"), &change).await.ok();
        let refused = raw.post(&eviction, &evict).await;
        let cause = &refused.body["details"]["causes"][0]["message"];
        assert_eq!(cause, "The disruption budget budget needs 1 healthy pods and has 1 currently");
        refused.refused(429, "TooManyRequests");
        status["disruptionsAllowed"] = 1.into();
        let change = json!({ "status": status });
        raw.merge(&format!("{budget}/status"), &change).await.ok();
        raw.post(&format!("{eviction}?dryRun=All"), &evict).await.ok();
        assert_eq!(grace(&raw.get(&path).await.ok()), (false, None));
        assert_eq!(raw.post(&eviction, &evict).await.ok()["status"], "Success");
        let evicted = raw.get(&path).await.ok();
        assert_eq!(grace(&evicted), (true, Some(30)));
        let conditions = evicted["status"]["conditions"].as_array().expect("a list");
        assert!(conditions.iter().any(|it| it["type"] == "DisruptionTarget"), "{evicted}");
        let spent = raw.get(&budget).await.ok();
        assert_eq!(spent["status"]["disruptionsAllowed"], 0);
        assert!(spent["status"]["disruptedPods"]["a"].is_string(), "{spent}");
        let mut malformed = evict.clone();
        malformed["deleteOptions"] = json!({ "dryRun": "All" });
        let why = raw.post(&eviction, &malformed).await.refused(400, "BadRequest");
        assert_eq!(why, "Eviction in version \"v1\" cannot be handled as a Eviction: json: cannot unmarshal string \
            into Go struct field DeleteOptions.deleteOptions.dryRun of type []string");
        let other = raw.post(&eviction, &named("b")).await.refused(400, "BadRequest");
        assert_eq!(other, "name in URL does not match name in Eviction object");
        raw.delete(&format!("{path}?gracePeriodSeconds=0")).await.ok();
    }

    /// docs/apiserver.md: "Subresources".
    async fn containers_are_resized_and_added(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = pod(&raw, "a").await;
        let added = json!({
            "metadata": { "labels": { "x": "y" } },
            "spec": { "ephemeralContainers": [{ "name": "e", "image": "i" }], "priority": 7 },
        });
        let ephemeral = format!("{path}/ephemeralcontainers");
        let changed = raw.patch(&ephemeral, "strategic-merge", &added.to_string()).await.ok();
        let spec = &changed["spec"];
        assert_eq!(spec["ephemeralContainers"][0]["imagePullPolicy"], "Always");
        assert_eq!(spec["priority"], 0, "nothing else of the spec changes");
        assert_eq!(changed["metadata"]["labels"], json!({ "app": "a" }), "nor the metadata");
        assert_eq!(changed["metadata"]["generation"], 2);
        let other = json!({ "spec": { "ephemeralContainers": [{ "name": "e", "image": "j" }] } });
        let why = raw.patch(&ephemeral, "strategic-merge", &other.to_string()).await;
        let why = why.refused(422, "Invalid");
        assert!(why.contains("existing ephemeral containers \"e\" may not be changed"), "{why}");

        let resize = format!("{path}/resize");
        let resources = json!({ "requests": { "cpu": "2" } });
        let container = json!({ "name": "main", "image": "j", "resources": resources });
        let change = json!({ "spec": { "containers": [container] } }).to_string();
        let changed = raw.patch(&resize, "strategic-merge", &change).await.ok();
        assert_eq!(changed["spec"]["containers"][0]["resources"], resources);
        assert_eq!(changed["spec"]["containers"][0]["image"], "registry.example/web:1");
        let container = json!({ "name": "main", "resources": { "requests": null } });
        let change = json!({ "spec": { "containers": [container] } }).to_string();
        let why = raw.patch(&resize, "strategic-merge", &change).await.refused(422, "Invalid");
        for part in [
            "Pod QOS Class may not change as a result of resizing",
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ] {
            assert!(why.contains(part), "{why}");
        }
    }

    /// docs/apiserver.md: "Subresources".
    async fn a_pod_without_a_node_has_no_log_and_no_connections(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let path = pod(&raw, "a").await;
        let log = raw.get(&format!("{path}/log")).await;
        assert_eq!((log.code, log.text.as_str()), (204, ""));
        let why = raw.get(&format!("{path}/log?container=none")).await.refused(400, "BadRequest");
        assert_eq!(why, "container none is not valid for pod a");
        for part in ["exec?command=true", "attach", "portforward"] {
            let why = raw.get(&format!("{path}/{part}")).await.refused(400, "BadRequest");
            assert_eq!(why, "pod a does not have a host assigned");
        }
        let mut pair = named("pair");
        let container = |name: &str| json!({ "name": name, "image": "i:1" });
        pair["spec"] = json!({
            "containers": [container("x"), container("y")], "initContainers": [container("z")],
        });
        raw.post(&raw.at("/api/v1", "pods"), &pair).await.ok();
        for part in ["log", "exec?command=true", "attach"] {
            let path = raw.at("/api/v1", &format!("pods/pair/{part}"));
            let why = raw.get(&path).await.refused(400, "BadRequest");
            let expected = "a container name must be specified for pod pair, choose one of: [z x y]";
            assert_eq!(why, expected);
        }
        let nowhere = raw.at("/api/v1", "pods/none/log");
        raw.get(&nowhere).await.refused(404, "NotFound");
    }

    /// docs/apiserver.md: rows 104, 124.
    async fn a_token_authenticates_its_service_account(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let accounts = raw.at("/api/v1", "serviceaccounts");
        let uid = raw.post(&accounts, &named("robot")).await.ok()["metadata"]["uid"].clone();
        let tokens = format!("{accounts}/robot/token");
        let issued = raw.post(&tokens, &json!({ "spec": { "expirationSeconds": 600 } })).await.ok();
        assert_eq!(issued["kind"], "TokenRequest");
        assert_eq!(issued["spec"]["expirationSeconds"], 600);
        assert!(issued["status"]["expirationTimestamp"].is_string());
        let token = issued["status"]["token"].as_str().expect("a token").to_owned();

        let default = raw.post(&tokens, &json!({ "spec": { "audiences": [] } })).await.ok();
        let audiences = default["spec"]["audiences"].as_array().map(Vec::len);
        assert_eq!(audiences, Some(1), "an empty list means the server itself: {default}");
        let one = raw.post(&tokens, &json!({ "spec": { "audiences": ["ex.io"] } })).await.ok();
        assert_eq!(one["spec"]["audiences"], json!(["ex.io"]));

        let why = raw.post(&tokens, &json!({ "spec": { "expirationSeconds": 60 } })).await;
        let why = why.refused(422, "Invalid");
        assert!(why.ends_with("60: may not specify a duration less than 10 minutes"), "{why}");
        raw.post(&format!("{accounts}/none/token"), &json!({})).await.refused(404, "NotFound");
        let other = json!({ "metadata": { "name": "other" } });
        let why = raw.post(&tokens, &other).await.refused(422, "Invalid");
        assert_eq!(why, "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \
            \"other\": must match the service account name if specified");
        let elsewhere = json!({ "metadata": { "namespace": "other" } });
        raw.post(&tokens, &elsewhere).await.refused(400, "BadRequest");

        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = raw.post(reviews, &json!({ "spec": { "token": token } })).await.ok();
        assert_eq!(review["status"]["authenticated"], true, "{review}");
        let user = &review["status"]["user"];
        let name = format!("system:serviceaccount:{}:robot", raw.namespace);
        assert_eq!(user["username"], name.as_str());
        assert_eq!(user["uid"], uid);
        let groups = json!([
            "system:serviceaccounts",
            format!("system:serviceaccounts:{}", raw.namespace),
            "system:authenticated",
        ]);
        assert_eq!(user["groups"], groups);
        for wrong in [format!("{token}x"), "wrong".to_owned()] {
            let review = raw.post(reviews, &json!({ "spec": { "token": wrong } })).await.ok();
            assert!(review["status"]["error"].is_string(), "{review}");
        }
        raw.delete(&format!("{accounts}/robot")).await.ok();
        // The real server remembers for ten seconds that a token was good.
        if cluster.is_embedded() {
            let review = raw.post(reviews, &json!({ "spec": { "token": token } })).await.ok();
            assert!(review["status"].get("authenticated").is_none(), "the account was deleted: {review}");
        }
        // The client of the real server sends a token of its own.
        if !cluster.is_embedded() {
            return;
        }
        let bearer = format!("Bearer {token}x");
        let headers = [("authorization", bearer.as_str())];
        let refused = raw.ask(Method::GET, "/api/v1/namespaces", &headers, "").await;
        assert_eq!(refused.refused(401, "Unauthorized"), "Unauthorized");
    }

    /// docs/apiserver.md: rows 104, 126.
    #[expect(clippy::too_many_lines, reason = "one review after the other")]
    async fn reviews_return_the_user_and_its_permissions(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let selves = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let headers = [
            ("impersonate-user", "bob"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-scopes", "x"),
        ];
        let bob = post_as(&raw, selves, &headers, &json!({})).await.ok();
        let info = &bob["status"]["userInfo"];
        let expected = json!({
            "username": "bob", "uid": "7", "groups": ["a", "b", "system:authenticated"],
            "extra": { "scopes": ["x"] },
        });
        assert_eq!(*info, expected);
        let account = [("impersonate-user", "system:serviceaccount:n:s")];
        let account = post_as(&raw, selves, &account, &json!({})).await.ok();
        let groups = json!([
            "system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated",
        ]);
        assert_eq!(account["status"]["userInfo"]["groups"], groups);
        let empty = [("impersonate-user", "")];
        let own = post_as(&raw, selves, &empty, &json!({})).await.ok();
        assert_eq!(own["status"], raw.post(selves, &json!({})).await.ok()["status"], "no impersonation");
        let nameless = post_as(&raw, selves, &[("impersonate-group", "a")], &json!({})).await;
        // Kubernetes 1.34 answers 500.
        if cluster.has_the_default_version() {
            nameless.refused(400, "BadRequest");
        }

        let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let attributes = json!({ "verb": "get", "resource": "pods", "namespace": raw.namespace });
        let question = json!({ "spec": { "resourceAttributes": attributes } });
        let review = raw.post(access, &question).await.ok();
        assert_eq!(review["status"]["allowed"], true, "{review}");
        assert_eq!(review["spec"]["resourceAttributes"], attributes);
        let why = raw.post(access, &json!({ "spec": {} })).await.refused(422, "Invalid");
        assert!(why.ends_with(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        ), "{why}");
        let local = raw.at("/apis/authorization.k8s.io/v1", "localsubjectaccessreviews");
        let elsewhere = json!({ "verb": "get", "resource": "pods" });
        let spec = json!({ "user": "bob", "resourceAttributes": elsewhere });
        let why = raw.post(&local, &json!({ "spec": spec })).await.refused(422, "Invalid");
        assert!(why.ends_with("Invalid value: \"\": must match metadata.namespace"), "{why}");
        let own = raw.at("/apis/authorization.k8s.io/v1", "localsubjectaccessreviews");
        let subject = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let wanted = json!({ "verb": "get", "resource": "pods" });
        let other = json!({ "path": "/x", "verb": "get" });
        let shown = "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}";
        let needs_one = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
            resourceAttributes must be specified";
        let needs_user = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        for (path, spec, errors) in [
            (subject, json!({}), format!("[{needs_one}, {needs_user}]")),
            (access, json!({ "resourceAttributes": wanted, "nonResourceAttributes": other }), format!(
                "{shown}: cannot be specified in combination with resourceAttributes"
            )),
            (&own, json!({ "user": "bob", "nonResourceAttributes": other }), format!(
                "{shown}: disallowed on this kind of request"
            )),
        ] {
            let why = raw.post(path, &json!({ "spec": spec })).await.refused(422, "Invalid");
            assert_eq!(why, format!(".authorization.k8s.io \"\" is invalid: {errors}"));
        }
        let spec = json!({ "user": "bob", "resourceAttributes": attributes });
        for (path, why) in [(access, "must be empty"), (subject, "must be empty"), (&own, "must be empty except for namespace")] {
            let mut spec = spec.clone();
            if path == access {
                spec.as_object_mut().expect("a spec").remove("user");
            }
            let named = json!({ "metadata": { "name": "x" }, "spec": spec });
            let refusal = raw.post(path, &named).await.refused(422, "Invalid");
            assert!(refusal.contains("metadata: Invalid value: {\"") && refusal.ends_with(why), "{refusal}");
        }
        let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let why = raw.post(rules, &json!({ "spec": {} })).await.refused(400, "BadRequest");
        assert_eq!(why, "no namespace on request");
        let rules = raw.post(rules, &json!({ "spec": { "namespace": raw.namespace } })).await.ok();
        let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
        let found = rules["status"]["resourceRules"].as_array().expect("a list");
        assert!(found.contains(&all), "{rules}");
        raw.get(access).await.refused(405, "MethodNotAllowed");
    }

    /// docs/apiserver.md: rows 20, 104.
    async fn every_fault_of_an_access_review_is_reported(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let group = "/apis/authorization.k8s.io/v1";
        let (selves, all) = (format!("{group}/selfsubjectaccessreviews"), format!("{group}/subjectaccessreviews"));
        let local = raw.at(group, "localsubjectaccessreviews");
        let user = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        let none = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
            resourceAttributes must be specified";
        let url = |why: &str| format!(
            "spec.nonResourceAttributes: Invalid value: {{\"Path\":\"/x\",\"Verb\":\"get\"}}: {why}"
        );
        let both = url("cannot be specified in combination with resourceAttributes");
        let pods = json!({ "verb": "get", "resource": "pods" });
        let path = json!({ "verb": "get", "path": "/x" });
        let namespace = "spec.resourceAttributes.namespace: Invalid value: \"\": must match metadata.namespace";
        for (reviews, spec, errors) in [
            (&selves, json!({ "resourceAttributes": pods, "nonResourceAttributes": path }), both.clone()),
            (&all, json!({}), format!("[{none}, {user}]")),
            (&local, json!({}), format!("[{none}, {user}]")),
            (
                &local,
                json!({ "resourceAttributes": pods, "nonResourceAttributes": path }),
                format!("[{both}, {user}, {namespace}, {}]", url("disallowed on this kind of request")),
            ),
            (
                &local,
                json!({ "user": "jane", "nonResourceAttributes": path }),
                url("disallowed on this kind of request"),
            ),
        ] {
            let message = raw.post(reviews, &json!({ "spec": spec })).await.refused(422, "Invalid");
            assert_eq!(message, format!(".authorization.k8s.io \"\" is invalid: {errors}"));
        }
        let review = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "resourceAttributes": pods } });
        let message = raw.post(&selves, &review).await.refused(422, "Invalid");
        let begin = ".authorization.k8s.io \"\" is invalid: metadata: Invalid value: {";
        assert!(message.starts_with(begin) && message.ends_with("}: must be empty"), "{message}");
        let unknown = raw.post(&selves, &json!({ "spec": { "user": "jane" } })).await;
        assert_eq!((unknown.code, unknown.warnings.len()), (422, 1));
        let rules = format!("{group}/selfsubjectrulesreviews");
        let message = raw.post(&rules, &json!({ "spec": {} })).await.refused(400, "BadRequest");
        assert_eq!(message, "no namespace on request");
    }

    /// docs/apiserver.md: "Subresources".
    async fn the_bodies_of_subresources_are_decoded_by_their_types(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let accounts = raw.at("/api/v1", "serviceaccounts");
        raw.post(&accounts, &named("robot")).await.ok();
        let path = pod(&raw, "a").await;
        let tokens = format!("{accounts}/robot/token");
        let (binding, eviction) = (format!("{path}/binding"), format!("{path}/eviction"));
        for (path, body, why) in [
            (&tokens, json!({ "spec": { "expirationSeconds": "x" } }), "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: json: cannot unmarshal string"),
            (&tokens, json!({ "metadata": { "namespace": "other" } }), "the namespace of the provided object does not match the namespace sent on the request"),
            (&binding, json!({ "kind": "Pod", "metadata": { "name": "a" } }), "Pod in version \"v1\" cannot be handled as a Binding"),
            (&eviction, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }), ""),
            (&eviction, json!({ "metadata": { "name": "a" }, "deleteOptions": 1 }), "Eviction in version \"v1\" cannot be handled as a Eviction: json: cannot unmarshal number"),
        ] {
            let message = raw.post(path, &body).await.refused(400, "BadRequest");
            assert!(message.starts_with(why), "{message}");
        }
        let message = raw.post(&tokens, &named("other")).await.refused(422, "Invalid");
        assert!(message.ends_with("metadata.name: Invalid value: \"other\": must match the service account name if specified"), "{message}");
        let mut to_pod = named("a");
        to_pod["target"] = json!({ "kind": "Pod", "name": "n1" });
        let message = raw.post(&binding, &to_pod).await.refused(500, "");
        assert_eq!(message, "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"");
        let mut evict = named("a");
        evict["apiVersion"] = "policy/v1beta1".into();
        evict["kind"] = "Eviction".into();
        evict["other"] = 1.into();
        let evicted = raw.post(&format!("{eviction}?dryRun=All"), &evict).await;
        assert_eq!((evicted.code, evicted.warning.as_str()), (201, "299 - \"unknown field \\\"other\\\"\""));
    }
}

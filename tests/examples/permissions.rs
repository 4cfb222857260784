//! The verbs of `docs/deploying.md`: an operator with these, and no others, can do all that it does.

use std::{collections::BTreeSet, future::Future, time::Duration};

use k8s_openapi::api::{
    apps::v1::StatefulSet, authentication::v1::TokenRequest, core::v1::Secret,
    core::v1::ServiceAccount, events::v1::Event,
};
use kube::{
    Api, Client, Config, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::ApiResource,
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::crds::install_crds;
use windlass_apiserver::{ApiServer, Listening};

#[path = "../behaviour/forms/database.rs"]
mod database;
#[path = "../behaviour/forms/windlass.rs"]
mod operator;

use self::database::{Database, DatabaseSpec, Dns};

const PAGE: &str = include_str!("../../docs/deploying.md");

/// The timeout of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// The verbs of the feature whose row begins with `feature`.
fn verbs(feature: &str) -> BTreeSet<&'static str> {
    let begin = format!("| {feature} (`");
    let row = PAGE.lines().find(|line| line.starts_with(&begin));
    let row = row.unwrap_or_else(|| panic!("the page has no row for {feature}"));
    let last = row.rsplit('|').nth(1).expect("a column");
    let known = [
        "list", "watch", "get", "create", "patch", "update", "delete",
    ];
    let words = last.split('`').skip(1).step_by(2);
    words.filter(|word| known.contains(word)).collect()
}

/// The rules of the operator.
fn rules() -> Value {
    let database = &verbs("informer") | &verbs("finalizers");
    json!([
        { "apiGroups": ["forms.windlass.dev"], "resources": ["databases"], "verbs": database },
        { "apiGroups": ["forms.windlass.dev"], "resources": ["databases/status"], "verbs": verbs("status") },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": verbs("informer") },
        { "apiGroups": [""], "resources": ["configmaps", "services"], "verbs": verbs("children") },
        { "apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": verbs("children") },
        { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": verbs("Events") },
    ])
}

#[tokio::test]
async fn the_verbs_of_the_page_suffice_for_each_feature() {
    let server = ApiServer::builder().rbac(true).start();
    let crd = Database::crd();
    let installed = install_crds(&server.client(), [crd], LIMIT).await;
    installed.expect("a definition");
    let (client, _port) = account(&server, &rules()).await;

    let dns = Dns::default();
    run(&client, &dns, incomplete(server.client())).await;
    // The same Event is counted, also after a restart.
    let complete = Box::pin(complete(server.client(), &dns));
    run(&client, &dns, complete).await;
}

/// Runs the operator until the end of `scenario`.
async fn run(client: &Client, dns: &Dns, scenario: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let operator = operator::operator(client.clone(), "default", dns.clone());
    let operator = operator.expect("good settings");
    let scenario = async {
        let ended = tokio::time::timeout(LIMIT, scenario).await;
        stop.cancel();
        ended.expect("the operator reaches each state");
    };
    let (ended, ()) = futures::join!(operator.run_until(stop.clone()), scenario);
    ended.expect("no error");
}

/// A database without its Secret.
async fn incomplete(client: Client) {
    let databases = Api::<Database>::default_namespaced(client.clone());
    let spec = DatabaseSpec {
        replicas: 1,
        password_secret: "password".to_owned(),
    };
    let database = Database::new("db", spec);
    let created = databases.create(&PostParams::default(), &database).await;
    created.expect("new");
    event(client, 1).await;
}

/// The database without its Secret, complete, ready, and deleted.
async fn complete(client: Client, dns: &Dns) {
    let params = PostParams::default();
    let databases = Api::<Database>::default_namespaced(client.clone());
    let has = |reason: &'static str| {
        move |database: Option<&Database>| {
            let status = database.and_then(|it| it.status.as_ref());
            let conditions = status.map(|it| it.conditions.as_slice());
            let mut conditions = conditions.unwrap_or_default().iter();
            conditions.any(|it| it.reason == reason)
        }
    };
    let reached = async |reason| {
        let reached = await_condition(databases.clone(), "db", has(reason)).await;
        reached.expect("a watch");
    };
    reached("SecretMissing").await;
    event(client.clone(), 2).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("password".to_owned());
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    secrets.create(&params, &secret).await.expect("new");
    reached("PodsNotReady").await;
    let status = Patch::Merge(json!({ "status": { "replicas": 1, "readyReplicas": 1 } }));
    let sets = Api::<StatefulSet>::default_namespaced(client);
    let params = PatchParams::default();
    let patched = sets.patch_status("db", &params, &status).await;
    patched.expect("it exists");
    reached("AllPodsReady").await;
    assert_eq!(dns.names(), ["db"]);
    let deleted = databases.delete("db", &DeleteParams::default()).await;
    deleted.expect("it exists");
    let is_deleted = |database: Option<&Database>| database.is_none();
    let gone = await_condition(databases, "db", is_deleted).await;
    gone.expect("a watch");
    assert!(dns.names().is_empty());
}

/// Waits until the only Event, about the missing Secret, has at least this count.
async fn event(client: Client, count: i32) {
    let events = Api::<Event>::default_namespaced(client);
    // Ends: the caller has a timeout.
    loop {
        let listed = events.list(&ListParams::default()).await.expect("a list");
        let found = (listed.items.iter())
            .map(|event| event.series.as_ref().map_or(1, |series| series.count));
        let found: Vec<_> = found.collect();
        assert!(found.len() <= 1, "{found:?}");
        if found.first().is_some_and(|found| *found >= count) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The client of a service account with these rules.
async fn account(server: &ApiServer, rules: &Value) -> (Client, Listening) {
    let admin = server.client();
    let params = PostParams::default();
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("operator".to_owned());
    let accounts = Api::<ServiceAccount>::default_namespaced(admin.clone());
    let account = accounts.create(&params, &account).await.expect("new");
    for (kind, plural, content) in [
        ("Role", "roles", json!({ "rules": rules })),
        (
            "RoleBinding",
            "rolebindings",
            json!({
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator",
                },
                "subjects": [{
                    "kind": "ServiceAccount", "name": "operator", "namespace": "default",
                }],
            }),
        ),
    ] {
        let resource = ApiResource {
            group: "rbac.authorization.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let mut object = DynamicObject::new("operator", &resource).data(content);
        object.metadata.namespace = Some("default".to_owned());
        let api = Api::<DynamicObject>::default_namespaced_with(admin.clone(), &resource);
        api.create(&params, &object).await.expect("new");
    }
    let token = accounts
        .create_token_request(&account.name_any(), &params, &TokenRequest::default())
        .await
        .expect("a token");
    let token = token.status.expect("a status").token;
    let listening = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "a", "cluster": { "server": listening.url() } }],
        "users": [{ "name": "a", "user": { "token": token } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "current-context": "a",
    });
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = Client::try_from(config.expect("a config"));
    (client.expect("a client"), listening)
}

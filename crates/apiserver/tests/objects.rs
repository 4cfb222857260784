//! Create, get, list, update, patch and delete, through kube's client.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use windlass_apiserver::ApiServer;

mod support;

use support::{client, refusal, register, widget, widget_definition, widgets};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn configmap(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "data": { "key": value },
    }))
    .expect("it is a ConfigMap")
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_read_updated_and_deleted() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));

    let created = maps
        .create(&PostParams::default(), &configmap("a", "1"))
        .await?;
    assert_eq!(created.namespace().as_deref(), Some("default"));
    assert!(created.uid().is_some_and(|uid| uid.len() == 36));
    assert!(created.creation_timestamp().is_some());
    assert_eq!(created.metadata.generation, None);
    let created_at = server.resource_version().to_string();
    assert_eq!(created.resource_version(), Some(created_at));

    assert_eq!(maps.get("a").await?, created);
    let list = maps.list(&ListParams::default()).await?;
    assert_eq!(list.items.len(), 1);
    assert_eq!(list.metadata.resource_version, created.resource_version());

    let mut changed = created.clone();
    changed.data = Some([("key".to_owned(), "2".to_owned())].into());
    let updated = maps.replace("a", &PostParams::default(), &changed).await?;
    assert_ne!(updated.resource_version(), created.resource_version());
    let (code, reason, message) =
        refusal(maps.replace("a", &PostParams::default(), &changed).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again"
    );

    let again = maps.replace("a", &PostParams::default(), &updated).await?;
    assert_eq!(
        again.resource_version(),
        updated.resource_version(),
        "nothing changed"
    );

    let deleted = maps.delete("a", &DeleteParams::default()).await?;
    assert!(deleted.is_right(), "a configmap goes at once");
    let (code, reason, message) = refusal(maps.get("a").await);
    assert_eq!(
        (code, reason.as_str(), message.as_str()),
        (404, "NotFound", "configmaps \"a\" not found")
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn invalid_objects_are_not_created() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let post = PostParams::default();

    maps.create(&post, &configmap("a", "1")).await?;
    let (code, reason, message) = refusal(maps.create(&post, &configmap("a", "1")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"a\" already exists");

    let (code, _, message) = refusal(maps.create(&post, &ConfigMap::default()).await);
    assert_eq!(code, 422);
    assert!(
        message.ends_with("metadata.name: Required value: name or generateName is required"),
        "{message}"
    );
    let (code, _, _) = refusal(maps.create(&post, &configmap("No_Good", "1")).await);
    assert_eq!(code, 422);

    let nowhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    let (code, _, message) = refusal(nowhere.create(&post, &configmap("a", "1")).await);
    assert_eq!(
        (code, message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );

    let mut versioned = configmap("b", "1");
    versioned.metadata.resource_version = Some("1".to_owned());
    let (code, reason, message) = refusal(maps.create(&post, &versioned).await);
    assert_eq!((code, reason.as_str()), (500, ""));
    assert_eq!(
        message,
        "resourceVersion should not be set on objects to be created"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_is_generated_from_its_prefix() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut map = configmap("a", "1");
    map.metadata.name = None;
    map.metadata.generate_name = Some("map-".to_owned());
    let first = maps.create(&PostParams::default(), &map).await?.name_any();
    let second = maps.create(&PostParams::default(), &map).await?.name_any();
    assert!(first.starts_with("map-") && first.len() == 9, "{first}");
    assert_ne!(first, second);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn patches_change_the_named_fields() -> TestResult {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    maps.create(&PostParams::default(), &configmap("a", "1"))
        .await?;
    let params = PatchParams::default();

    let merge = json!({ "data": { "key": null, "other": "2" } });
    let patched = maps.patch("a", &params, &Patch::Merge(&merge)).await?;
    assert_eq!(
        patched.data,
        Some([("other".to_owned(), "2".to_owned())].into())
    );

    let operations = json!([{ "op": "test", "path": "/data/other", "value": "3" }]);
    let failing: json_patch::Patch = serde_json::from_value(operations)?;
    let (code, reason, _) = refusal(
        maps.patch("a", &params, &Patch::<ConfigMap>::Json(failing))
            .await,
    );
    assert_eq!((code, reason.as_str()), (422, "Invalid"));

    let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": {} });
    let (code, _, _) = refusal(maps.patch("a", &params, &Patch::Merge(&stale)).await);
    assert_eq!(code, 409);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_immediately_and_its_schema_is_enforced() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    let widgets = widgets(&client);
    let post = PostParams::default();

    let missing = refusal(widgets.list(&ListParams::default()).await);
    assert_eq!(missing.0, 404);
    register(&client, widget_definition()).await?;

    let (code, _, message) = refusal(widgets.create(&post, &widget("w", &json!({}))).await);
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "Widget.ex.io \"w\" is invalid: spec.size: Required value"
    );

    let spec = json!({ "size": 1, "weight": 9 });
    let created = widgets.create(&post, &widget("w", &spec)).await?;
    assert_eq!(created.data["spec"], json!({ "size": 1, "color": "grey" }));
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(
        created.types.as_ref().map(|types| types.kind.as_str()),
        Some("Widget")
    );

    let status = json!({ "status": { "ready": true }, "spec": { "size": 7 } });
    let params = PatchParams::default();
    let ready = widgets
        .patch_status("w", &params, &Patch::Merge(&status))
        .await?;
    assert_eq!(ready.data["status"]["ready"], true);
    assert_eq!(
        ready.data["spec"]["size"], 1,
        "the spec is not a part of the status"
    );
    assert_eq!(ready.metadata.generation, Some(1));

    let both = json!({ "status": { "ready": false }, "spec": { "size": 7 } });
    let sized = widgets.patch("w", &params, &Patch::Merge(&both)).await?;
    assert_eq!(
        sized.data["status"]["ready"], true,
        "the status has a URL of its own"
    );
    assert_eq!(sized.metadata.generation, Some(2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_removed_after_its_contents() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    let post = PostParams::default();

    let team = serde_json::from_value(json!({ "metadata": { "name": "team" } }))?;
    namespaces.create(&post, &team).await?;
    let mut map = configmap("a", "1");
    map.metadata.finalizers = Some(vec!["ex.io/clean".to_owned()]);
    maps.create(&post, &map).await?;
    maps.create(&post, &configmap("b", "1")).await?;

    let dying = namespaces.delete("team", &DeleteParams::default()).await?;
    let phase = dying.left().and_then(|namespace| namespace.status?.phase);
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let (code, _, message) = refusal(maps.create(&post, &configmap("c", "1")).await);
    assert_eq!(code, 403);
    assert!(
        message.ends_with("because it is being terminated"),
        "{message}"
    );
    let left: Vec<_> = maps
        .list(&ListParams::default())
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(left, ["a"]);

    let free = json!({ "metadata": { "finalizers": null } });
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&free))
        .await?;
    assert_eq!(namespaces.get_opt("team").await?, None);

    let (code, _, _) = refusal(namespaces.delete("default", &DeleteParams::default()).await);
    assert_eq!(code, 403);
    Ok(())
}

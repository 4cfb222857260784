//! Requests for children and a status that the API server refuses in the middle of a call.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::{
    ControllerBuilder, Failure, Watch,
    composite::{ChildConfig, CompositeController, SyncRequest, SyncResponse},
    kit::{self, Kit, KitOperator},
};

use crate::support::{Scripted, Site, child, desired, site};

type Lines = Arc<Mutex<Vec<String>>>;

/// A client some of whose requests get the code and body that `answer` returns.
fn answered(
    through: Client,
    answer: impl Fn(&Request<Body>) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> Client {
    let namespace = through.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (through, answer) = (through.clone(), answer(&request));
        async move {
            let Some((code, body)) = answer else {
                return through.send(request).await;
            };
            let response = Response::builder()
                .status(code)
                .header("content-type", "application/json")
                .body(Body::from(body.to_string().into_bytes()));
            Ok(response.expect("a response"))
        }
    });
    Client::new(service, namespace)
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message,
    });
    (code, status)
}

/// The refusal of a request for which a permission is missing.
fn forbidden(verb: &str, resource: &str) -> (u16, Value) {
    let message = format!(
        r#"{resource} "blog" is forbidden: User "u" cannot {verb} resource "{resource}" in API group """#
    );
    failure(403, "Forbidden", &message)
}

fn named_404() -> (u16, Value) {
    failure(404, "NotFound", r#"sites "blog" not found"#)
}

/// Starts a controller of `handler` whose requests `answer` answers. Returns its reports of errors.
fn start(
    kit: &Kit,
    handler: &Scripted,
    config: ChildConfig,
    configure: fn(ControllerBuilder<Site>) -> ControllerBuilder<Site>,
    answer: impl Fn(&Request<Body>) -> Option<(u16, Value)> + Clone + Send + Sync + 'static,
) -> (KitOperator, Lines) {
    let (handler, reports) = (handler.clone(), Lines::default());
    let log = Arc::clone(&reports);
    let operator = kit.start(move |client, stop| {
        let log = Arc::clone(&log);
        let client = answered(client, answer.clone());
        let controller = CompositeController::builder(client, "sites", Watch::all())
            .child::<ConfigMap>(config.clone())
            .with_controller(|it| {
                configure(it.longest_interval(None))
                    .on_error(move |report| log.lock().push(report.to_string()))
            })
            .build(handler.clone())
            .expect("good settings");
        async move { controller.run(stop).await }
    });
    (operator, reports)
}

/// The program that wrote the status before, as this manager.
async fn earlier(
    client: Client,
    params: PatchParams,
    patch: Patch<Value>,
    stop: CancellationToken,
) -> Result<(), kube::Error> {
    let sites = Api::<Site>::default_namespaced(client);
    sites.patch_status("blog", &params, &patch).await?;
    stop.cancelled().await;
    Ok(())
}

fn is_status(request: &Request<Body>) -> bool {
    request.uri().path().ends_with("/status")
}

fn is_of_site(request: &Request<Body>) -> bool {
    request.uri().path().ends_with("/sites/blog")
}

/// A handler whose status is constant.
fn constant() -> Scripted {
    Scripted::new(|_| Ok(SyncResponse::new(json!({ "children": 7 }))))
}

#[test]
fn a_refused_take_over_of_a_status_names_the_kind_and_not_its_status() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        kit.create(&site("blog", "dark")).await;
        kit.start(|client, stop| {
            let params = PatchParams {
                field_manager: Some("earlier".to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Merge(json!({ "status": { "children": 1 } }));
            earlier(client, params, patch, stop)
        });
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;
        let configure = |it: ControllerBuilder<Site>| it.migrate_status_from("earlier");
        let is_merge = |request: &Request<Body>| {
            let content_type = request.headers().get("content-type");
            is_of_site(request)
                && *request.method() == Method::PATCH
                && content_type.is_some_and(|it| it == "application/merge-patch+json")
                && request
                    .uri()
                    .query()
                    .is_some_and(|it| it.contains("fieldManager=sites"))
        };
        let (_, reports) = start(
            &kit,
            &constant(),
            ChildConfig::apply(),
            configure,
            move |it| is_merge(it).then(|| forbidden("patch", "sites")),
        );
        kit.advance(Duration::from_secs(5)).await;
        let reports = reports.lock().clone();
        let last = reports.last().expect("a report");
        assert!(
            last.contains("`patch` on sites.composite.windlass.dev"),
            "{last}"
        );
        assert!(!last.contains("/status"), "{last}");
    });
}

/// The reports of a controller that gets these answers to its PATCH of the status and to the GET of
/// the site.
fn reports_of(patch: (u16, Value), get: (u16, Value)) -> Vec<String> {
    let all = Lines::default();
    let log = Arc::clone(&all);
    kit::run(async move |kit: Kit| {
        kit.install(&Site::crd()).await;
        kit.create(&site("blog", "dark")).await;
        let configure = |it: ControllerBuilder<Site>| it;
        let (operator, reports) = start(
            &kit,
            &constant(),
            ChildConfig::apply(),
            configure,
            move |it| {
                if is_status(it) {
                    Some(patch.clone())
                } else if is_of_site(it) && *it.method() == Method::GET {
                    Some(get.clone())
                } else {
                    None
                }
            },
        );
        kit.advance(Duration::from_secs(5)).await;
        log.lock().extend(reports.lock().clone());
        operator.crash();
    });
    let all = all.lock();
    all.clone()
}

#[test]
fn a_status_of_an_object_that_was_just_deleted_is_no_error() {
    let successor = json!({
        "apiVersion": "composite.windlass.dev/v1", "kind": "Site",
        "metadata": { "name": "blog", "namespace": "default", "uid": "another" },
    });
    // Without the permission to read it, and after another was created.
    for get in [forbidden("get", "sites"), (200, successor)] {
        assert_eq!(reports_of(named_404(), get), [""; 0]);
    }
    let without_name = failure(404, "", "404 page not found");
    let reports = reports_of(without_name, forbidden("get", "sites"));
    let last = reports.last().expect("a report");
    assert!(
        last.contains("`get` on sites.composite.windlass.dev"),
        "{last}"
    );
    assert!(!last.contains("/status"), "{last}");
}

/// Rows: RO-11, RO-25
#[test]
fn a_changed_child_is_replaced_although_its_comparison_failed_at_first() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        let failures = Arc::new(Mutex::new(0));
        let count = Arc::clone(&failures);
        let configure = |it: ControllerBuilder<Site>| it;
        let (operator, _) = start(
            &kit,
            &handler,
            ChildConfig::recreate(),
            configure,
            move |it| {
                let query = it.uri().query().unwrap_or_default();
                let finds = query.contains("dryRun=All") && !query.contains("force=true");
                if !finds || *it.method() != Method::PATCH || *count.lock() > 0 {
                    return None;
                }
                *count.lock() += 1;
                Some(failure(500, "InternalError", "etcd has no leader"))
            },
        );
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        operator.crash();
        let before = kit.get::<ConfigMap>("blog").await.expect("it exists");
        kit.edit::<ConfigMap>("blog", |it| {
            let data = it.data.get_or_insert_default();
            data.insert("theme".to_owned(), "rewritten".to_owned());
        })
        .await;
        operator.restart();
        kit.advance(Duration::from_secs(60)).await;
        assert_eq!(*failures.lock(), 1);
        let after = kit.get::<ConfigMap>("blog").await.expect("it exists");
        assert_ne!(after.uid(), before.uid());
        assert_eq!(after.data.expect("data")["theme"], "dark");
    });
}

/// Rows: RO-10
#[test]
fn a_missing_permission_to_delete_is_asked_for_once_in_each_call() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request: &SyncRequest<Site>| {
            let mut response = SyncResponse::without_status();
            if request.parent().spec.theme == "dark" {
                for name in ["a", "b", "c"] {
                    response.add_child(child(name, "dark"))?;
                }
            }
            Ok::<_, Failure>(response)
        });
        let deletes = Lines::default();
        let log = Arc::clone(&deletes);
        let configure = |it: ControllerBuilder<Site>| it;
        start(&kit, &handler, ChildConfig::apply(), configure, move |it| {
            let path = it.uri().path();
            if *it.method() != Method::DELETE || !path.contains("/configmaps/") {
                return None;
            }
            log.lock().push(path.to_owned());
            Some(forbidden("delete", "configmaps"))
        });
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        let calls = handler.syncs.lock().len();
        kit.edit::<Site>("blog", |it| it.spec.theme = "none".to_owned())
            .await;
        kit.advance(Duration::from_secs(10)).await;
        let calls = handler.syncs.lock().len() - calls;
        assert!(calls > 0);
        assert_eq!(deletes.lock().len(), calls);
    });
}

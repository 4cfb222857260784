//! Requests for children and a status that the API server refuses in the middle of a call.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResourceExt as _, ResourceExt as _, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
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

//! Children that are refused: by the API server, by another owner, or by the configuration.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    events::v1::Event,
    rbac::v1::ClusterRole,
};
use kube::{CustomResourceExt as _, ResourceExt as _};
use serde_json::{Value, json};
use windlass::{
    Watch,
    composite::{ChildConfig, CompositeBuilder, CompositeController, SyncResponse},
    kit::{self, Kit, KitOperator, Verb},
};

use crate::support::{Scripted, Site, child, desired, site};

fn start(
    kit: &Kit,
    handler: &Scripted,
    configure: fn(CompositeBuilder<Site>) -> CompositeBuilder<Site>,
) -> KitOperator {
    let handler = handler.clone();
    kit.start(move |client, stop| {
        let builder = CompositeController::builder(client, "sites", Watch::all());
        let controller = configure(builder.with_controller(|it| it.longest_interval(None)))
            .build(handler.clone())
            .expect("good settings");
        async move { controller.run(stop).await }
    })
}

/// The notes of the Events about children that were not written.
async fn notes(kit: &Kit) -> Vec<String> {
    let events = kit.list::<Event>().await.into_iter();
    let ours = events.filter(|it| it.reason.as_deref() == Some("NotWritten"));
    ours.filter_map(|it| it.note).collect()
}

/// Rows: RO-12
#[test]
fn children_that_the_api_server_refuses_are_shown_in_an_event() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        start(&kit, &handler, |it| {
            it.child::<ConfigMap>(ChildConfig::apply())
        });
        // By a webhook, for example: no permission is missing.
        kit.refuse_next(Verb::Patch, "configmaps", 403);
        kit.create(&site("blog", "dark")).await;
        kit.expect::<ConfigMap>("blog")
            .matches(json!({ "data": { "theme": "dark" } }))
            .await;
        kit.quiet().await;
        let notes = notes(&kit).await;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("cannot patch configmaps default/blog"),
            "{notes:?}"
        );
        assert!(!notes[0].contains("Role"), "{notes:?}");
    });
}

/// Rows: RO-10
#[test]
fn a_refused_deletion_of_a_child_does_not_prevent_others() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request| {
            let mut response = SyncResponse::without_status();
            if request.parent().spec.theme == "dark" {
                response.add_child(child("a", "dark"))?;
                response.add_child(child("b", "dark"))?;
            }
            Ok(response)
        });
        start(&kit, &handler, |it| {
            it.child::<ConfigMap>(ChildConfig::apply())
        });
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        let since = kit.mark();
        kit.refuse_next(Verb::Delete, "configmaps", 403);
        kit.edit::<Site>("blog", |it| it.spec.theme = "none".to_owned())
            .await;
        kit.quiet().await;
        let writes = kit.writes(since).into_iter();
        let deletes: Vec<_> = writes.filter(|it| it.verb == "delete").collect();
        let tried: Vec<_> = deletes.iter().map(|it| (&*it.object, it.code)).collect();
        let expected = [("default/a", 403), ("default/b", 200), ("default/a", 200)];
        assert_eq!(tried, expected);
    });
}

fn with_a_role(request: &windlass::composite::SyncRequest<Site>) -> SyncResponse {
    let mut response = SyncResponse::without_status();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "blog", "annotations": { "theme": request.parent().spec.theme } },
        "rules": [],
    });
    response.add_child(role).expect("JSON");
    response
}

/// Rows: RO-33
#[test]
fn a_child_of_an_earlier_parent_of_the_same_name_can_be_taken_over() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request| Ok(with_a_role(request)));
        let first = start(&kit, &handler, |it| {
            it.child::<ClusterRole>(ChildConfig::apply().elsewhere())
        });
        kit.create(&site("blog", "dark")).await;
        kit.quiet().await;
        // Without its clean-up.
        first.crash();
        kit.edit::<Site>("blog", |it| it.finalizers_mut().clear())
            .await;
        kit.delete::<Site>("blog").await;
        kit.create(&site("blog", "light")).await;
        let second = start(&kit, &handler, |it| {
            it.child::<ClusterRole>(ChildConfig::apply().elsewhere())
        });
        kit.advance(Duration::from_secs(60)).await;
        let notes = notes(&kit).await;
        assert_eq!(notes.len(), 1, "{notes:?}");
        for part in [
            "clusterroles.rbac.authorization.k8s.io blog",
            "an earlier parent",
            "`ChildConfig::adopt`",
        ] {
            assert!(notes[0].contains(part), "no {part} in {notes:?}");
        }
        second.crash();
        start(&kit, &handler, |it| {
            it.child::<ClusterRole>(ChildConfig::apply().elsewhere().adopt())
        });
        kit.advance(Duration::from_secs(60)).await;
        let uid = kit.get::<Site>("blog").await.and_then(|it| it.uid());
        let role = kit.get::<ClusterRole>("blog").await.expect("it exists");
        assert_eq!(role.annotations()["theme"], "light");
        assert_eq!(role.labels().get("windlass.dev/parent-uid"), uid.as_ref());
        kit.delete::<Site>("blog").await;
        kit.expect_gone::<ClusterRole>("blog").await;
    });
}

fn with_a_port(theme: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "blog" },
        "spec": {
            "type": "NodePort", "selector": { "theme": theme },
            "ports": [{ "port": 80, "nodePort": 30080 }],
        },
    })
}

/// Rows: RO-25
#[test]
fn a_child_is_replaced_although_it_has_what_the_new_one_needs() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(|request| {
            let mut response = SyncResponse::without_status();
            response.add_child(with_a_port(&request.parent().spec.theme))?;
            Ok(response)
        });
        start(&kit, &handler, |it| {
            it.child::<Service>(ChildConfig::recreate())
        });
        kit.create(&site("blog", "dark")).await;
        kit.expect::<Service>("blog")
            .matches(json!({ "spec": { "selector": { "theme": "dark" } } }))
            .await;
        kit.quiet().await;
        kit.edit::<Site>("blog", |it| it.spec.theme = "light".to_owned())
            .await;
        kit.expect::<Service>("blog")
            .matches(json!({ "spec": { "selector": { "theme": "light" } } }))
            .await;
    });
}

fn with_ports(theme: &str) -> Value {
    let ports: Vec<_> = theme.split('-').collect();
    let ports = ports.into_iter().map(|port| {
        let port: i32 = port.parse().expect("a port");
        json!({ "name": format!("p{port}"), "port": port - 30000, "nodePort": port })
    });
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "blog" },
        "spec": { "type": "NodePort", "ports": ports.collect::<Vec<_>>() },
    })
}

/// Rows: RO-25
#[test]
fn a_child_is_not_deleted_for_one_whose_port_another_object_has() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let mut foreign = with_ports("30081");
        foreign["metadata"]["name"] = "foreign".into();
        let foreign: Service = serde_json::from_value(foreign).expect("a service");
        kit.create(&foreign).await;
        let handler = Scripted::new(|request| {
            let mut response = SyncResponse::without_status();
            response.add_child(with_ports(&request.parent().spec.theme))?;
            Ok(response)
        });
        start(&kit, &handler, |it| {
            it.child::<Service>(ChildConfig::recreate())
        });
        kit.create(&site("blog", "30080")).await;
        kit.quiet().await;
        let before = kit.get::<Service>("blog").await.expect("created");
        for theme in ["30081", "30080-30081"] {
            kit.edit::<Site>("blog", |it| it.spec.theme = theme.to_owned())
                .await;
            kit.advance(Duration::from_secs(60)).await;
            let after = kit.get::<Service>("blog").await;
            let after = after.unwrap_or_else(|| panic!("deleted for {theme}"));
            assert_eq!(after.uid(), before.uid(), "{theme}");
        }
        kit.edit::<Site>("blog", |it| it.spec.theme = "30080-30082".to_owned())
            .await;
        kit.advance(Duration::from_secs(60)).await;
        let after = kit.get::<Service>("blog").await.expect("created again");
        assert_ne!(after.uid(), before.uid());
    });
}

/// Rows: BO-16
#[test]
fn parents_without_a_finalizer_have_only_children_that_kubernetes_deletes() {
    kit::run(async |kit: Kit| {
        kit.install(&Site::crd()).await;
        let handler = Scripted::new(desired);
        start(&kit, &handler, |it| {
            it.child::<ConfigMap>(ChildConfig::apply())
                .without_finalizer()
        });
        kit.create(&site("blog", "dark")).await;
        kit.expect::<Site>("blog")
            .matches(json!({ "status": { "children": 1 } }))
            .await;
        let parent = kit.get::<Site>("blog").await.expect("it exists");
        assert_eq!(parent.finalizers(), [""; 0]);

        // The finalizer of another program keeps it.
        kit.edit::<Site>("blog", |it| {
            it.finalizers_mut().push("example.io/other".to_owned());
        })
        .await;
        kit.quiet().await;
        let calls = handler.syncs.lock().len();
        kit.delete::<Site>("blog").await;
        kit.delete::<ConfigMap>("blog").await;
        kit.quiet().await;
        assert_eq!(handler.syncs.lock().len(), calls);
        assert!(kit.get::<ConfigMap>("blog").await.is_none());
        kit.edit::<Site>("blog", |it| it.finalizers_mut().clear())
            .await;
        kit.expect_gone::<Site>("blog").await;
        assert_eq!(handler.finalizes.lock().len(), 0);
    });
}

/// Rows: BO-16
#[test]
fn children_elsewhere_need_a_finalizer() {
    kit::run(async |kit: Kit| {
        let refused = kit.start(|client, _stop| async move {
            CompositeController::builder(client, "sites", Watch::<Site>::all())
                .child::<ConfigMap>(ChildConfig::apply().elsewhere())
                .without_finalizer()
                .build(Scripted::new(desired))
                .map(drop)
                .map_err(|error| error.to_string())
        });
        let error = refused.stop().await;
        for part in ["ConfigMap of v1", "`without_finalizer`"] {
            assert!(error.contains(part), "no {part} in {error}");
        }
    });
}

//! Mappers: added, removed, with a predicate, with a panic, and counted.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass_controller::{GenerationChanged, InformerController, Mapper, Role, SameName};
use windlass_informer::ObjectKey;

use super::themes::{THEMES, map, rig, sites, sorted, start, used_by};
use crate::support::{KIND, Log, Rig, config, generation, show};

#[test]
fn a_mapper_can_have_the_type_of_its_source_kind_or_be_generic() {
    let rig = Rig::new(InformerController::builder());
    let secrets = rig.controller.kind::<Secret>("secrets");
    let secrets = secrets.expect("a new kind");
    let added = rig.controller.add_mapper(&secrets, &rig.kind, SameName);
    assert_eq!(added.expect("of secrets").role(), Role::Mapper);
    let added = rig.controller.add_mapper(&secrets, &secrets, SameName);
    added.expect("to its own kind");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_is_added_and_removed_while_the_controller_runs() {
    let (rig, themes) = rig(InformerController::builder());
    rig.reconcile(rig.log.reconciler("r"));
    let running = start(rig, &themes).await;
    running.apply(config("site-1", 0)).await;
    running.logged().await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "", "no mapper has asked for it");

    let first = map(&running.rig, &themes.kind, used_by);
    themes.apply(config("light", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "r resynced site-1=0");

    let (controller, themes_kind) = (&running.rig.controller, themes.kind.clone());
    assert_eq!(controller.remove_all_mappers(&running.rig.kind), 0);
    assert_eq!(controller.remove_all_reconcilers(&themes_kind), 0);
    assert!(first.remove());
    assert!(!first.remove());
    themes.delete(config("light", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "");
    map(&running.rig, &themes.kind, used_by);
    map(&running.rig, &themes.kind, used_by);
    assert_eq!(controller.remove_all_mappers(&themes_kind), 2);
    assert_eq!(controller.remove_all_mappers(&themes_kind), 0);
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_mapper_can_have_a_predicate() {
    let used_by = Mapper::filter(used_by, GenerationChanged);
    let (running, themes) = sites(InformerController::builder(), used_by).await;
    themes.apply(config("dark", 1)).await.expect("it runs");
    assert_eq!(running.logged().await, "r resynced site-1=0");
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(running.logged().await, "", "its generation is the same");
    let changed = generation(config("dark", 3), 2);
    themes.apply(changed).await.expect("it runs");
    assert_eq!(sorted(&running.logged().await), [2, 3]);
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_mapper_is_reported_and_affects_only_its_own_result() {
    let reports = Log::default();
    let log = reports.clone();
    let builder = InformerController::builder().on_error(move |report| {
        assert_eq!(report.role, Role::Mapper);
        log.say(report);
    });
    let (running, themes) = sites(builder, |theme: &ConfigMap| {
        assert_ne!(show(theme), "dark=1", "not this one");
        used_by(theme)
    })
    .await;
    map(&running.rig, &themes.kind, |_: &ConfigMap| {
        Some(ObjectKey::new("site-3").within("shop"))
    });
    themes.apply(config("dark", 1)).await.expect("it runs");
    // Another mapper is still called.
    assert_eq!(sorted(&running.logged().await), [3]);
    let report = reports.take().await;
    assert!(
        report.starts_with("mapper 1 (informer_controller::mapping::mapper::")
            && report.contains(") of themes shop/dark on CREATE: the handler panicked:"),
        "{report}"
    );
    // And what it says of the new object, where it panics for the old.
    themes.apply(config("dark", 2)).await.expect("it runs");
    assert_eq!(sorted(&running.logged().await), [2, 3]);
    assert!(reports.take().await.contains("on UPDATE"));
    running.stop().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn mapped_objects_are_counted_if_they_exist() {
    let builder = InformerController::builder().on_error(|_| {});
    let (running, themes) = sites(builder, used_by).await;
    for site in [1, 2, 9] {
        let theme = config(&format!("theme-{site}"), site);
        themes.apply(theme).await.expect("it runs");
    }
    running.logged().await;
    map(
        &running.rig,
        &themes.kind,
        |_: &ConfigMap| -> Option<ObjectKey> { panic!("no answer") },
    );
    themes.apply(config("theme-1", 1)).await.expect("it runs");
    themes.delete(config("theme-1", 1)).await.expect("it runs");
    running.logged().await;
    let counted = |name: &str, kind: &str| {
        let collectors = running.rig.controller.prometheus_collectors();
        let families = collectors.iter().flat_map(|it| it.collect());
        let mut metrics = families
            .filter(|family| family.name() == name)
            .flat_map(|family| family.get_metric().to_vec());
        let of_kind = metrics.find(|metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.name() == "kind" && label.value() == kind)
        });
        of_kind.map(|metric| metric.get_counter().get_value().to_string())
    };
    let three = Some("3".to_owned());
    assert_eq!(counted("mapped_objects_total", KIND), three);
    let panics = "controller_runtime_reconcile_panics_total";
    assert_eq!(counted(panics, THEMES).as_deref(), Some("1"));
    running.stop().await.expect("it stops");
}

//! One operator in each model of `docs/choosing.md`, with the same test for all.

#[path = "../../examples/apply_cleanup/operator.rs"]
mod apply_cleanup;
mod composite;
mod controller;
mod informer;
mod informer_controller;
#[path = "../../examples/keyed_resource/operator.rs"]
mod keyed_resource;
#[path = "../../examples/website/website.rs"]
mod website;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::{
    controller::Runnable,
    kit::{self, Kit},
};

use self::website::{Dns, Website, WebsiteSpec};

/// What the models do differently. The table of the page has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Differences {
    /// A deployment that another writer has changed is corrected.
    corrects_drift: bool,
    /// A call that failed is repeated.
    repeats_failures: bool,
    /// The record of a website that was deleted while no operator ran is removed.
    misses_no_delete: bool,
}

const ALL: Differences = Differences {
    corrects_drift: true,
    repeats_failures: true,
    misses_no_delete: true,
};

#[test]
fn an_informer_repeats_nothing_and_misses_deletes() {
    let differences = Differences {
        corrects_drift: false,
        repeats_failures: false,
        misses_no_delete: false,
    };
    check(informer::run, differences);
}

#[test]
fn an_informer_controller_corrects_repeats_and_cleans_up() {
    check(
        async |client, dns, stop| -> Ended {
            let websites = informer_controller::websites(client, dns)?;
            Ok(websites.run(stop).await?)
        },
        ALL,
    );
}

#[test]
fn a_controller_corrects_repeats_and_cleans_up() {
    check(
        async |client, dns, stop| -> Ended { run(controller::websites(client, dns)?, stop).await },
        ALL,
    );
}

#[test]
fn a_composite_handler_corrects_repeats_and_cleans_up() {
    check(
        async |client, dns, stop| -> Ended { run(composite::websites(client, dns)?, stop).await },
        ALL,
    );
}

#[test]
fn an_apply_cleanup_corrects_repeats_and_cleans_up() {
    check(
        async |client, dns, stop| -> Ended {
            run(apply_cleanup::websites(client, dns), stop).await
        },
        ALL,
    );
}

#[test]
fn a_keyed_resource_repeats_and_cleans_up_in_its_background() {
    let differences = Differences {
        corrects_drift: false,
        ..ALL
    };
    check(
        async |client, dns, stop| -> Ended {
            run(keyed_resource::websites(client, dns), stop).await
        },
        differences,
    );
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn run<C>(controller: C, stop: CancellationToken) -> Ended
where
    C: Runnable<Error: std::error::Error + Send + Sync + 'static>,
{
    Ok(controller.run(stop).await?)
}

fn website(name: &str, address: &str) -> Website {
    let address = address.to_owned();
    Website::new(
        name,
        WebsiteSpec {
            address,
            replicas: 1,
        },
    )
}

/// Runs an operator through changes, drift, failures, a crash and deletes.
#[track_caller]
fn check<F, Fut>(operator: F, expected: Differences)
where
    F: Fn(Client, Dns, CancellationToken) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    kit::run(async |kit: Kit| {
        let dns = Dns::default();
        let records = || dns.records().into_iter().collect::<Vec<_>>();
        let of = |address: &str| ("blog.default.example".to_owned(), address.to_owned());
        kit.install(&Website::crd()).await;
        let operator = kit.start({
            let dns = dns.clone();
            move |client, stop| operator(client, dns.clone(), stop)
        });

        // What all have in common: they follow the website.
        kit.create(&website("blog", "192.0.2.1")).await;
        kit.create(&website("short-lived", "192.0.2.9")).await;
        kit.quiet().await;
        assert_eq!(records().len(), 2);
        let replicas = |count: i32| json!({ "spec": { "replicas": count } });
        kit.expect::<Deployment>("blog").matches(replicas(1)).await;
        kit.edit::<Website>("blog", |site| {
            "192.0.2.2".clone_into(&mut site.spec.address);
            site.spec.replicas = 2;
        })
        .await;
        kit.delete::<Website>("short-lived").await;
        kit.quiet().await;
        assert_eq!(records(), [of("192.0.2.2")]);
        kit.expect::<Deployment>("blog").matches(replicas(2)).await;
        kit.expect_gone::<Website>("short-lived").await;
        kit.expect_gone::<Deployment>("short-lived").await;

        // Without a change they change nothing.
        let since = kit.mark();
        kit.advance(Duration::from_secs(3 * 3600)).await;
        let changes = kit.writes(since);
        assert!(
            changes.iter().all(|it| it.change == "nothing"),
            "{changes:?}"
        );

        kit.edit::<Deployment>("blog", |it| {
            it.spec.as_mut().expect("a spec").replicas = Some(0);
        })
        .await;
        kit.quiet().await;
        let deployment = kit.get::<Deployment>("blog").await.expect("it exists");
        let corrects_drift = deployment.spec.expect("a spec").replicas == Some(2);

        dns.fail_next();
        kit.edit::<Website>("blog", |site| {
            "192.0.2.3".clone_into(&mut site.spec.address);
        })
        .await;
        kit.quiet().await;
        let repeats_failures = records() == [of("192.0.2.3")];

        operator.crash();
        kit.delete::<Website>("blog").await;
        operator.restart();
        kit.expect_gone::<Website>("blog").await;
        kit.expect_gone::<Deployment>("blog").await;
        kit.quiet().await;
        let found = Differences {
            corrects_drift,
            repeats_failures,
            misses_no_delete: records().is_empty(),
        };
        assert_eq!(found, expected);
    });
}

/// Each block of Rust on the page is a part of one of these files.
#[test]
fn the_page_shows_the_tested_code() {
    let page = include_str!("../../docs/choosing.md");
    let files = [
        include_str!("informer.rs"),
        include_str!("informer_controller.rs"),
        include_str!("controller.rs"),
        include_str!("composite.rs"),
        include_str!("../../examples/apply_cleanup/operator.rs"),
        include_str!("../../examples/keyed_resource/operator.rs"),
    ];
    let blocks = page.split("```rust,ignore\n").skip(1);
    let blocks: Vec<_> = blocks.filter_map(|it| it.split("```").next()).collect();
    for file in files {
        let shown: usize = (blocks.iter())
            .filter(|block| file.contains(**block))
            .map(|block| block.lines().count())
            .sum();
        assert!(shown >= 20, "the page shows {shown} lines of\n{file}");
    }
    for block in blocks {
        assert!(files.iter().any(|file| file.contains(block)), "{block}");
    }
}

//! The example in docs/testing.md, as a test.

use kube::CustomResourceExt as _;

use crate::{
    operators::pages,
    site::{Site, site},
};

const PAGE: &str = include_str!("../../../../docs/testing.md");

// The code that the page shows begins here.
use serde_json::json;
use windlass_simulate::{Process, Simulation, Step};

#[test]
fn the_operator_survives_every_fault() {
    let page = |page: &str| json!({ "spec": { "page": page } });
    let simulation = Simulation::new("pages", |it: Process| pages(it.client(), it.stop()))
        .object(&Site::crd())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::merge::<Site>("default", "blog", page("goodbye")))
        .step(Step::delete::<Site>("default", "blog"))
        .oracle("no_page_is_left", |end| {
            match end.objects("configmaps").count() {
                0 => Ok(()),
                left => Err(format!("{left} pages are left")),
            }
        })
        .single_faults(40);
    simulation.run().unwrap_or_else(|it| panic!("{it}"));
}
// The code that the page shows ends here.

#[test]
fn the_page_shows_exactly_the_test_above_in_twenty_lines() {
    let (_, after) = PAGE.split_once("## Simulations\n").expect("a section");
    let (_, after) = after.split_once("```rust\n").expect("a block of Rust");
    let (shown, _) = after.split_once("```").expect("the end of the block");
    assert_eq!(shown.lines().count(), 20, "{shown}");
    // Users import the names from the facade, on which this crate does not depend.
    let shown = shown.replace("windlass::simulate", "windlass_simulate");
    assert!(include_str!("testing.rs").contains(&shown), "{shown}");
}

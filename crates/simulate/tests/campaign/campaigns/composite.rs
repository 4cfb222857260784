//! The campaign of a composite handler.

use serde_json::Value;

use super::{of_sites, passes, with_models_oracles};
use crate::operators;

#[test]
fn composite_handler() {
    let simulation = of_sites("composite handler", operators::composite_handler)
        .oracle("the_status_names_the_children", |end| {
            for site in end.objects("sites.simulate.windlass.dev") {
                let host = site["spec"]["host"].as_str().unwrap_or_default();
                let expected = operators::published(host, &["a page", "an address"]);
                let published = &site["status"]["published"];
                if *published != *expected {
                    return Err(format!("{published} is published"));
                }
            }
            Ok(())
        })
        .oracle("no_child_outlives_its_site", |end| {
            let name = |object: &Value| object["metadata"]["name"].clone();
            let sites: Vec<_> = end
                .objects("sites.simulate.windlass.dev")
                .map(name)
                .collect();
            let children = end.objects("configmaps").chain(end.objects("services"));
            let mut children = children
                .filter(|it| !it["metadata"]["annotations"]["windlass.dev/child"].is_null());
            match children.find(|it| !sites.contains(&name(it))) {
                None => Ok(()),
                Some(left) => Err(format!("{} {} is left", left["kind"], name(left))),
            }
        });
    passes(with_models_oracles(simulation));
}

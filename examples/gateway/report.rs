//! Printed tables of routes, gateways and loaded objects. *(pure)*

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::RouteKind,
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, find},
    judge::judge,
    load::{Inventory, chain},
    snapshot::Snapshot,
};

/// A table: rows of cells, the first row is the heading.
struct Table(Vec<Vec<String>>);

/// The routes of the kinds for which `of` returns true, with each of their existing parents.
pub(crate) fn routes(
    snapshot: &Snapshot,
    controller: &str,
    of: impl Fn(RouteKind) -> bool,
) -> String {
    let heading = [
        "route",
        "parent",
        "listener",
        "hostnames",
        ACCEPTED,
        RESOLVED_REFS,
    ];
    let mut table = Table::new(&heading);
    let judgement = judge(snapshot, controller);
    for (id, parents) in judgement.routes.iter().filter(|(id, _)| of(id.0)) {
        let status = snapshot.routes[id].status.as_ref();
        for judged in parents {
            let entry = status.and_then(|status| status.entry(&judged.parent, controller));
            let column = |about| describe(entry.and_then(|entry| find(&entry.conditions, about)));
            let bindings = judged.bindings.iter();
            let listeners: Vec<_> = bindings.map(|binding| &*binding.listener).collect();
            let hostnames = judged.bindings.iter().flat_map(|it| &it.hostnames);
            let mut hostnames: Vec<_> = hostnames.map(String::as_str).collect();
            hostnames.dedup();
            table.0.push(vec![
                id.1.to_string(),
                judged.parent.name.clone(),
                listeners.join(" "),
                hostnames.join(" "),
                column(ACCEPTED),
                column(RESOLVED_REFS),
            ]);
        }
    }
    table.print()
}

/// The gateways with their listeners, and the number of routes attached to each.
pub(crate) fn gateways(snapshot: &Snapshot) -> String {
    let heading = [
        "gateway",
        "class",
        "listener",
        "routes",
        ACCEPTED,
        PROGRAMMED,
        RESOLVED_REFS,
    ];
    let mut table = Table::new(&heading);
    for (key, gateway) in &snapshot.gateways {
        let class = &gateway.spec.gateway_class_name;
        for listener in gateway.status.iter().flat_map(|status| &status.listeners) {
            let column = |about| describe(find(&listener.conditions, about));
            table.0.push(vec![
                key.to_string(),
                class.clone(),
                listener.name.clone(),
                listener.attached_routes.to_string(),
                column(ACCEPTED),
                column(PROGRAMMED),
                column(RESOLVED_REFS),
            ]);
        }
    }
    table.print()
}

/// The loaded objects by kind, and the rejected ones.
pub(crate) fn inventory(inventory: &Inventory) -> String {
    let counts = |objects: &BTreeMap<String, usize>| {
        let counts = objects
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    let refused = inventory.refused.iter();
    let refused: Vec<_> = refused
        .map(|(manifest, why)| format!("{manifest}: {}", chain(why)))
        .collect();
    let list = |entries: &[String]| match entries {
        [] => "none".to_owned(),
        entries => entries.join("\n  "),
    };
    format!(
        "Loaded unchanged, each guide in a separate namespace:\n  {}\n\
         Generated, because the examples assume them:\n  {}\n\
         Manifests that replaced another one with the same name:\n  {}\n\
         Rejected manifests:\n  {}\n",
        counts(&inventory.upstream),
        counts(&inventory.assumed),
        list(&inventory.replaced),
        list(&refused),
    )
}

fn describe(condition: Option<&Condition>) -> String {
    match condition {
        None => "-".to_owned(),
        Some(condition) if condition.status == "True" => "yes".to_owned(),
        Some(condition) => format!("no: {}", condition.reason),
    }
}

// === impl Table ===

impl Table {
    fn new(heading: &[&str]) -> Self {
        Self(vec![heading.iter().map(|&word| word.to_owned()).collect()])
    }

    /// The table as text, with each column as wide as its widest cell.
    fn print(&self) -> String {
        let mut widths = vec![0; self.0[0].len()];
        for row in &self.0 {
            for (width, word) in widths.iter_mut().zip(row) {
                *width = (*width).max(word.len());
            }
        }
        let line = |row: &Vec<String>| {
            let words = row.iter().zip(&widths);
            let words = words.map(|(word, width)| format!("{word:width$}"));
            let line = words.collect::<Vec<_>>().join("  ");
            format!("  {}\n", line.trim_end())
        };
        self.0.iter().map(line).collect()
    }
}

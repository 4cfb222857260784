//! What people read: tables of routes and gateways, and what was loaded. *(pure)*

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::{ParentStatus, RouteKind},
    conditions::{ACCEPTED, PROGRAMMED, RESOLVED_REFS, find},
    judge::{ParentJudgement, judge},
    load::Loaded,
    snapshot::{RouteId, Snapshot},
};

/// Rows of words, the first of them a heading.
struct Table(Vec<Vec<String>>);

/// The routes of the kinds that `of` accepts, at each of their parents that is there.
pub(crate) fn routes(
    snapshot: &Snapshot,
    controller: &str,
    of: impl Fn(RouteKind) -> bool,
) -> String {
    let judgement = judge(snapshot, controller);
    let mut table = Table::new(&[
        "route",
        "parent",
        "listener",
        "hostnames",
        ACCEPTED,
        RESOLVED_REFS,
    ]);
    for (id, parents) in judgement.routes.iter().filter(|(id, _)| of(id.0)) {
        for judged in parents {
            table.route(id, judged, snapshot, controller);
        }
    }
    table.print()
}

/// The gateways with their listeners, and how many routes are at each.
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
            let say = |about| said(find(&listener.conditions, about));
            table.0.push(vec![
                key.to_string(),
                class.clone(),
                listener.name.clone(),
                listener.attached_routes.to_string(),
                say(ACCEPTED),
                say(PROGRAMMED),
                say(RESOLVED_REFS),
            ]);
        }
    }
    table.print()
}

/// What was loaded, by kind, and what was not.
pub(crate) fn loaded(loaded: &Loaded) -> String {
    let objects = loaded
        .objects
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"));
    let mut text = format!("  {}\n", objects.collect::<Vec<_>>().join(", "));
    for replaced in &loaded.replaced {
        text += &format!("  took the place of one with the same name: {replaced}\n");
    }
    for (refused, why) in &loaded.refused {
        text += &format!("  refused: {refused}\n           {why}\n");
    }
    text
}

/// How many routes there are, and how many of them are well.
pub(crate) fn summary(snapshot: &Snapshot, controller: &str) -> String {
    let judgement = judge(snapshot, controller);
    let http = || {
        judgement
            .routes
            .iter()
            .filter(|(id, _)| id.0 == RouteKind::Http)
    };
    let attached = http().filter(|(_, parents)| !parents.is_empty()).count();
    format!(
        "All {attached} HTTPRoutes whose parent is there are accepted; {} more name none, or one \
         that no manifest brings. {} gateways.",
        http().count() - attached,
        judgement.gateways.len(),
    )
}

/// What is not as the Gateway API asks, one sentence each: of every `HTTPRoute` at a gateway
/// that is there, that it is accepted and its references are judged, and all of it for its
/// present generation; of every gateway the same.
pub(crate) fn faults(snapshot: &Snapshot, controller: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let judgement = judge(snapshot, controller);
    for (id, parents) in judgement
        .routes
        .iter()
        .filter(|(id, _)| id.0 == RouteKind::Http)
    {
        let generation = snapshot.routes[id].metadata.generation;
        for judged in parents {
            let entry = entry(id, judged, snapshot, controller);
            let conditions = entry.map_or(&[][..], |entry| &entry.conditions);
            let place = format!("{} at {}", id.1, judged.parent.name);
            if find(conditions, ACCEPTED).is_none_or(|condition| condition.status != "True") {
                faults.push(format!("{place} is not accepted"));
            }
            faults.extend(unsaid(
                &[ACCEPTED, RESOLVED_REFS],
                conditions,
                generation,
                &place,
            ));
        }
    }
    for key in judgement.gateways.keys() {
        let gateway = &snapshot.gateways[key];
        let conditions = gateway
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.conditions);
        let generation = gateway.metadata.generation;
        faults.extend(unsaid(
            &[ACCEPTED, PROGRAMMED],
            conditions,
            generation,
            &key.to_string(),
        ));
    }
    faults
}

fn unsaid<'c>(
    abouts: &'c [&str],
    conditions: &'c [Condition],
    generation: Option<i64>,
    place: &'c str,
) -> impl Iterator<Item = String> + 'c {
    let unsaid = abouts.iter().filter(move |about| {
        find(conditions, about).is_none_or(|condition| condition.observed_generation != generation)
    });
    unsaid.map(move |about| format!("nothing is said of {about} for {place} as it is now"))
}

fn entry<'s>(
    id: &RouteId,
    judged: &ParentJudgement,
    snapshot: &'s Snapshot,
    controller: &str,
) -> Option<&'s ParentStatus> {
    let mut entries = snapshot.routes[id]
        .status
        .iter()
        .flat_map(|status| &status.parents);
    entries.find(|entry| entry.controller_name == controller && entry.parent_ref == judged.parent)
}

fn said(condition: Option<&Condition>) -> String {
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

    fn route(
        &mut self,
        id: &RouteId,
        judged: &ParentJudgement,
        snapshot: &Snapshot,
        controller: &str,
    ) {
        let entry = entry(id, judged, snapshot, controller);
        let say = |about| said(entry.and_then(|entry| find(&entry.conditions, about)));
        let listeners = judged
            .bindings
            .iter()
            .map(|binding| binding.listener.as_str());
        let mut hostnames: Vec<_> = judged
            .bindings
            .iter()
            .flat_map(|one| &one.hostnames)
            .collect();
        hostnames.dedup();
        let hostnames: Vec<_> = hostnames.into_iter().map(String::as_str).collect();
        self.0.push(vec![
            id.1.to_string(),
            judged.parent.name.clone(),
            listeners.collect::<Vec<_>>().join(" "),
            hostnames.join(" "),
            say(ACCEPTED),
            say(RESOLVED_REFS),
        ]);
    }

    /// The rows, with each column as wide as its widest word.
    fn print(&self) -> String {
        let mut widths = vec![0; self.0[0].len()];
        for row in &self.0 {
            for (width, word) in widths.iter_mut().zip(row) {
                *width = (*width).max(word.len());
            }
        }
        let line = |row: &Vec<String>| {
            let words = row
                .iter()
                .zip(&widths)
                .map(|(word, width)| format!("{word:width$}"));
            let line = words.collect::<Vec<_>>().join("  ");
            format!("  {}\n", line.trim_end())
        };
        self.0.iter().map(line).collect()
    }
}

//! Conditions of small sets of objects.

use super::*;
use crate::snapshot::tests::snapshot;

const CONTROLLER: &str = "example.io/ours";

/// A class of this controller, a class of another controller, and the objects that tests refer to.
const WORLD: &str = "
{kind: GatewayClass, apiVersion: g/v1, metadata: {name: ours}, spec: {controllerName: example.io/ours}}
---
{kind: GatewayClass, apiVersion: g/v1, metadata: {name: theirs}, spec: {controllerName: example.io/theirs}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: default, labels: {team: red}}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: other, labels: {team: blue}}}
---
{kind: Secret, apiVersion: v1, metadata: {name: cert}}
---
{kind: Secret, apiVersion: v1, metadata: {name: cert, namespace: other}}
---
{kind: Service, apiVersion: v1, metadata: {name: app}, spec: {ports: [{port: 80}]}}
---
";

#[test]
fn a_class_is_accepted_by_the_controller_that_it_names_and_by_no_other() {
    let judgement = judge(&snapshot(WORLD), CONTROLLER);
    let classes: Vec<_> = judgement.classes.keys().collect();
    assert_eq!(classes, [&ObjectKey::new("ours")]);
}

#[test]
fn a_route_attaches_to_every_listener_unless_it_selects_one_by_name_or_port() {
    let listeners = "[{name: a, port: 80, protocol: HTTP}, {name: b, port: 81, protocol: HTTP}]";
    route(
        listeners,
        "parentRefs: [{name: web}]",
        "Accepted ResolvedRefs a(*) b(*)",
    );
    route(
        listeners,
        "parentRefs: [{name: web, sectionName: b}]",
        "Accepted ResolvedRefs b(*)",
    );
    route(
        listeners,
        "parentRefs: [{name: web, port: 80}]",
        "Accepted ResolvedRefs a(*)",
    );
    let none = "NoMatchingParent ResolvedRefs";
    route(listeners, "parentRefs: [{name: web, sectionName: c}]", none);
    route(
        listeners,
        "parentRefs: [{name: web, sectionName: a, port: 81}]",
        none,
    );
}

#[test]
fn each_parent_has_its_own_conditions_and_only_our_gateways_are_considered() {
    let listeners = "[{name: a, port: 80, protocol: HTTP, hostname: a.io}]";
    let parents = "parentRefs: [{name: web}, {name: web, sectionName: b}, {name: none}, \
                   {name: web, kind: Service, group: ''}]";
    route(
        listeners,
        parents,
        "Accepted ResolvedRefs a(a.io); NoMatchingParent ResolvedRefs",
    );
    let theirs = world("ours", "[]").replace("gatewayClassName: ours", "gatewayClassName: theirs");
    let theirs = theirs + &http_route("parentRefs: [{name: web}]");
    let judgement = judge(&snapshot(&theirs), CONTROLLER);
    assert!(judgement.gateways.is_empty());
    assert!(judgement.routes.values().all(Vec::is_empty));
}

#[test]
fn hostnames_are_the_intersection_of_route_and_listener() {
    let listeners = "[{name: a, port: 80, protocol: HTTP, hostname: '*.a.io'}]";
    let accepted = "Accepted ResolvedRefs a(x.a.io)";
    route(
        listeners,
        "parentRefs: [{name: web}], hostnames: [x.a.io, b.io]",
        accepted,
    );
    let refused = "NoMatchingListenerHostname ResolvedRefs";
    route(
        listeners,
        "parentRefs: [{name: web}], hostnames: [b.io]",
        refused,
    );
}

#[test]
fn listeners_allow_namespaces() {
    for (allowed, expected) in [
        ("{}", "NotAllowedByListeners"),
        ("{from: Same}", "NotAllowedByListeners"),
        ("{from: All}", "Accepted"),
        (
            "{from: Selector, selector: {matchLabels: {team: blue}}}",
            "Accepted",
        ),
        (
            "{from: Selector, selector: {matchLabels: {team: red}}}",
            "NotAllowedByListeners",
        ),
        ("{from: Selector}", "NotAllowedByListeners"),
        (
            "{from: Selector, selector: {matchExpressions: [{key: team, operator: Like}]}}",
            "NotAllowedByListeners",
        ),
    ] {
        let listeners = format!(
            "[{{name: a, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {allowed}}}}}]"
        );
        let route = http_route("parentRefs: [{name: web, namespace: default}]").replace(
            "metadata: {name: r}",
            "metadata: {name: r, namespace: other}",
        );
        let judgement = judge(&snapshot(&(world("ours", &listeners) + &route)), CONTROLLER);
        assert_eq!(
            show_route(&judgement).split(' ').next(),
            Some(expected),
            "{allowed}"
        );
    }
}

#[test]
fn listeners_allow_kinds_of_routes() {
    let grpc_only =
        "[{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}}]";
    let refused = "NotAllowedByListeners ResolvedRefs";
    route(grpc_only, "parentRefs: [{name: web}]", refused);
    route(
        "[{name: a, port: 80, protocol: TCP}]",
        "parentRefs: [{name: web}]",
        refused,
    );
}

#[test]
fn a_route_with_a_missing_backend_is_accepted() {
    let listeners = "[{name: a, port: 80, protocol: HTTP}]";
    let rules = |backend: &str| {
        format!("parentRefs: [{{name: web}}], rules: [{{backendRefs: [{backend}]}}]")
    };
    route(
        listeners,
        &rules("{name: app, port: 80}"),
        "Accepted ResolvedRefs a(*)",
    );
    route(
        listeners,
        &rules("{name: app, port: 80}, {name: gone, port: 80}"),
        "Accepted BackendNotFound a(*)",
    );
}

#[test]
fn the_backend_of_a_mirror_filter_is_checked() {
    let mirror = "parentRefs: [{name: web}], rules: [{filters: [{type: RequestMirror, \
                  requestMirror: {backendRef: {name: gone, port: 80}}}]}]";
    route(
        "[{name: a, port: 80, protocol: HTTP}]",
        mirror,
        "Accepted BackendNotFound a(*)",
    );
}

#[test]
fn a_gateway_is_accepted_while_one_of_its_listeners_is_valid() {
    gateway(
        "[{name: a, port: 80, protocol: HTTP}, {name: b, port: 81, protocol: example.io/fax}]",
        "Accepted:ListenersNotValid Programmed \
         | a: HTTPRoute,GRPCRoute Accepted ResolvedRefs Programmed \
         | b:  !UnsupportedProtocol ResolvedRefs !Invalid",
    );
    gateway(
        "[{name: b, port: 81, protocol: example.io/fax}]",
        "!ListenersNotValid !Invalid | b:  !UnsupportedProtocol ResolvedRefs !Invalid",
    );
}

#[test]
fn a_route_kind_that_the_protocol_does_not_support_is_invalid() {
    gateway(
        "[{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: HTTPRoute}, {kind: TCPRoute}]}}]",
        "Accepted !Invalid | a: HTTPRoute Accepted !InvalidRouteKinds !Invalid",
    );
}

#[test]
fn a_certificate_must_be_an_existing_secret() {
    let https = |certificate: &str| {
        format!(
            "[{{name: a, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{certificate}]}}}}]"
        )
    };
    let bad = |reason: &str| {
        format!("Accepted !Invalid | a: HTTPRoute,GRPCRoute Accepted !{reason} !Invalid")
    };
    gateway(
        &https("{name: cert}"),
        "Accepted Programmed | a: HTTPRoute,GRPCRoute Accepted ResolvedRefs Programmed",
    );
    gateway(&https("{name: gone}"), &bad("InvalidCertificateRef"));
    gateway(
        &https("{name: cert, kind: ConfigMap}"),
        &bad("InvalidCertificateRef"),
    );
    gateway(
        &https("{name: cert, namespace: other}"),
        &bad("RefNotPermitted"),
    );
}

#[test]
fn a_passthrough_listener_needs_no_certificate() {
    gateway(
        "[{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough, certificateRefs: [{name: gone}]}}]",
        "Accepted Programmed | a: TLSRoute Accepted ResolvedRefs Programmed",
    );
}

#[test]
fn two_protocols_on_one_port_conflict() {
    gateway(
        "[{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: TCP}]",
        "!ListenersNotValid !Invalid \
         | a: HTTPRoute,GRPCRoute !ProtocolConflict ResolvedRefs !Invalid Conflicted:ProtocolConflict \
         | b: TCPRoute !ProtocolConflict ResolvedRefs !Invalid Conflicted:ProtocolConflict",
    );
    gateway(
        "[{name: a, port: 53, protocol: TCP}, {name: b, port: 53, protocol: UDP}]",
        "Accepted Programmed | a: TCPRoute Accepted ResolvedRefs Programmed \
         | b: UDPRoute Accepted ResolvedRefs Programmed",
    );
}

#[test]
fn two_listeners_with_the_same_hostname_and_port_conflict() {
    let conflict =
        "HTTPRoute,GRPCRoute !HostnameConflict ResolvedRefs !Invalid Conflicted:HostnameConflict";
    gateway(
        "[{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}]",
        &format!("!ListenersNotValid !Invalid | a: {conflict} | b: {conflict}"),
    );
}

#[test]
fn overlapping_https_listeners_are_reported_and_programmed() {
    let works = "HTTPRoute,GRPCRoute Accepted ResolvedRefs Programmed OverlappingTLSConfig:OverlappingHostnames";
    gateway(
        "[{name: a, port: 443, protocol: HTTPS, hostname: '*.a.io'}, \
          {name: b, port: 443, protocol: HTTPS, hostname: x.a.io}]",
        &format!("Accepted Programmed | a: {works} | b: {works}"),
    );
}

#[test]
fn a_listener_counts_each_accepted_route_once() {
    let listeners = "[{name: a, port: 80, protocol: HTTP}, {name: b, port: 81, protocol: HTTP}]";
    let manifests = world("ours", listeners)
        + &http_route("parentRefs: [{name: web, sectionName: a}, {name: web, port: 80}]")
        + &http_route("parentRefs: [{name: web}]").replace("name: r}", "name: s}")
        + &http_route("parentRefs: [{name: web, sectionName: c}]").replace("name: r}", "name: t}")
        + &http_route("parentRefs: [{name: web}]").replace("HTTPRoute", "GRPCRoute");
    let judgement = judge(&snapshot(&manifests), CONTROLLER);
    let attached: Vec<_> = (judgement.gateways.values())
        .flat_map(|gateway| gateway.listeners.iter().map(|listener| listener.attached))
        .collect();
    assert_eq!(attached, [3, 2]);
}

/// Checks the conditions of a route with `spec` at a gateway `web` with `listeners`.
#[track_caller]
fn route(listeners: &str, spec: &str, expected: &str) {
    let manifests = world("ours", listeners) + &http_route(spec);
    let judgement = judge(&snapshot(&manifests), CONTROLLER);
    assert_eq!(show_route(&judgement), expected, "{spec} at {listeners}");
}

/// Checks the conditions of a gateway with `listeners`.
#[track_caller]
fn gateway(listeners: &str, expected: &str) {
    let judgement = judge(&snapshot(&world("ours", listeners)), CONTROLLER);
    let gateway = judgement.gateways.values().next().expect("a gateway");
    let judged = gateway.listeners.iter().map(|listener| {
        let kinds: Vec<_> = listener.kinds.iter().map(|kind| kind.name()).collect();
        let verdicts = show(&listener.verdicts);
        format!(" | {}: {} {verdicts}", listener.name, kinds.join(","))
    });
    let shown = show(&gateway.verdicts) + &judged.collect::<String>();
    assert_eq!(shown, expected, "{listeners}");
}

fn world(class: &str, listeners: &str) -> String {
    format!(
        "{WORLD}{{kind: Gateway, apiVersion: g/v1, metadata: {{name: web}}, \
         spec: {{gatewayClassName: {class}, listeners: {listeners}}}}}\n---\n"
    )
}

fn http_route(spec: &str) -> String {
    format!("{{kind: HTTPRoute, apiVersion: g/v1, metadata: {{name: r}}, spec: {{{spec}}}}}\n---\n")
}

/// For each parent, its verdicts and the listeners of the route.
fn show_route(judgement: &Judgement) -> String {
    let parents = judgement.routes.values().flatten().map(|judged| {
        let bindings = judged.bindings.iter();
        let bindings = bindings.map(|at| format!(" {}({})", at.listener, at.hostnames.join(",")));
        let reasons: Vec<_> = judged
            .verdicts
            .iter()
            .map(|verdict| verdict.reason)
            .collect();
        reasons.join(" ") + &bindings.collect::<String>()
    });
    parents.collect::<Vec<_>>().join("; ")
}

/// A true condition is printed by its type, with the reason if it differs; a false one by `!` and the
/// reason. `NoConflicts` is not printed.
fn show(verdicts: &[Verdict]) -> String {
    let verdicts = verdicts
        .iter()
        .filter(|verdict| verdict.reason != "NoConflicts");
    let verdicts = verdicts.map(|verdict| match (verdict.holds, verdict.reason) {
        (true, reason) if reason == verdict.about => reason.to_owned(),
        (true, reason) => format!("{}:{reason}", verdict.about),
        (false, reason) => format!("!{reason}"),
    });
    verdicts.collect::<Vec<_>>().join(" ")
}

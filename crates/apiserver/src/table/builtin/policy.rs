//! The columns of webhook configurations, admission policies, quotas, flow schemas, and requests
//! for certificates.

use super::{
    super::{
        Column,
        cells::{self, admission, certificate, flow, quota},
    },
    age, column,
};

/// Returns the columns after the name; `None` if another module has them.
pub(super) fn columns(group: &str, plural: &str) -> Option<Vec<Column>> {
    Some(match (group, plural) {
        ("", "resourcequotas") => vec![
            column("Request", "string", quota::requests),
            column("Limit", "string", quota::limits),
            age(),
        ],
        ("admissionregistration.k8s.io", _) => admission(plural)?,
        ("certificates.k8s.io", "certificatesigningrequests") => certificate_requests(),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_schemas(),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => priority_levels(),
        _ => return None,
    })
}

fn admission(plural: &str) -> Option<Vec<Column>> {
    let param_kind = column("ParamKind", "string", admission::param_kind);
    Some(match plural {
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            vec![column("Webhooks", "integer", admission::webhooks), age()]
        }
        "mutatingadmissionpolicies" => vec![
            column("Mutations", "integer", admission::mutations),
            param_kind,
            age(),
        ],
        "validatingadmissionpolicies" => vec![
            column("Validations", "integer", admission::validations),
            param_kind,
            age(),
        ],
        "mutatingadmissionpolicybindings" | "validatingadmissionpolicybindings" => vec![
            column("PolicyName", "string", admission::policy_name),
            column("ParamRef", "string", admission::param_ref),
            age(),
        ],
        _ => return None,
    })
}

fn certificate_requests() -> Vec<Column> {
    vec![
        age(),
        column("SignerName", "string", |object, _| {
            cells::text(object, "/spec/signerName", "")
        }),
        column("Requestor", "string", |object, _| {
            cells::text(object, "/spec/username", "")
        }),
        column("RequestedDuration", "string", certificate::duration),
        column("Condition", "string", certificate::condition),
    ]
}

fn flow_schemas() -> Vec<Column> {
    vec![
        column("PriorityLevel", "string", |object, _| {
            cells::text(object, "/spec/priorityLevelConfiguration/name", "")
        }),
        column("MatchingPrecedence", "string", |object, _| {
            cells::count(object, "/spec/matchingPrecedence")
        }),
        column("DistinguisherMethod", "string", |object, _| {
            cells::text(object, "/spec/distinguisherMethod/type", cells::NONE)
        }),
        age(),
        column("MissingPL", "string", flow::missing_level),
    ]
}

fn priority_levels() -> Vec<Column> {
    vec![
        column("Type", "string", |object, _| {
            cells::text(object, "/spec/type", "")
        }),
        column("NominalConcurrencyShares", "string", |object, _| {
            flow::number(object, "/spec/limited/nominalConcurrencyShares")
        }),
        column("Queues", "string", |object, _| {
            flow::number(object, "/spec/limited/limitResponse/queuing/queues")
        }),
        column("HandSize", "string", |object, _| {
            flow::number(object, "/spec/limited/limitResponse/queuing/handSize")
        }),
        column("QueueLengthLimit", "string", |object, _| {
            flow::number(
                object,
                "/spec/limited/limitResponse/queuing/queueLengthLimit",
            )
        }),
        age(),
    ]
}

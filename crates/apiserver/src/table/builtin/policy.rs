//! The columns of webhook configurations, admission policies, quotas, flow schemas, and requests
//! for certificates.

use super::super::Cell::{Count, Read, Text};
use super::super::{
    Column,
    cells::{NONE, admission, certificate, flow, quota},
};
use super::{AGE, NAME, column};

const PARAM_KIND: Column = column("ParamKind", "string", Read(admission::param_kind));

pub(crate) const QUOTAS: &[Column] = &[
    NAME,
    column("Request", "string", Read(quota::requests)),
    column("Limit", "string", Read(quota::limits)),
    AGE,
];

pub(crate) const WEBHOOKS: &[Column] = &[
    NAME,
    column("Webhooks", "integer", Read(admission::webhooks)),
    AGE,
];

pub(crate) const MUTATING_POLICIES: &[Column] = &[
    NAME,
    column("Mutations", "integer", Read(admission::mutations)),
    PARAM_KIND,
    AGE,
];

pub(crate) const VALIDATING_POLICIES: &[Column] = &[
    NAME,
    column("Validations", "integer", Read(admission::validations)),
    PARAM_KIND,
    AGE,
];

pub(crate) const POLICY_BINDINGS: &[Column] = &[
    NAME,
    column("PolicyName", "string", Read(admission::policy_name)),
    column("ParamRef", "string", Read(admission::param_ref)),
    AGE,
];

pub(crate) const CERTIFICATE_REQUESTS: &[Column] = &[
    NAME,
    AGE,
    column("SignerName", "string", Text("/spec/signerName", "")),
    column("Requestor", "string", Text("/spec/username", "")),
    column("RequestedDuration", "string", Read(certificate::duration)),
    column("Condition", "string", Read(certificate::condition)),
];

pub(crate) const FLOW_SCHEMAS: &[Column] = &[
    NAME,
    column(
        "PriorityLevel",
        "string",
        Text("/spec/priorityLevelConfiguration/name", ""),
    ),
    column(
        "MatchingPrecedence",
        "string",
        Count("/spec/matchingPrecedence"),
    ),
    column(
        "DistinguisherMethod",
        "string",
        Text("/spec/distinguisherMethod/type", NONE),
    ),
    AGE,
    column("MissingPL", "string", Read(flow::missing_level)),
];

pub(crate) const PRIORITY_LEVELS: &[Column] = &[
    NAME,
    column("Type", "string", Text("/spec/type", "")),
    column(
        "NominalConcurrencyShares",
        "string",
        Read(|object, _| flow::number(object, "/spec/limited/nominalConcurrencyShares")),
    ),
    column(
        "Queues",
        "string",
        Read(|object, _| flow::number(object, "/spec/limited/limitResponse/queuing/queues")),
    ),
    column(
        "HandSize",
        "string",
        Read(|object, _| flow::number(object, "/spec/limited/limitResponse/queuing/handSize")),
    ),
    column(
        "QueueLengthLimit",
        "string",
        Read(|object, _| {
            flow::number(
                object,
                "/spec/limited/limitResponse/queuing/queueLengthLimit",
            )
        }),
    ),
    AGE,
];

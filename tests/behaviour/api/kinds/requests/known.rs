//! The differences between the servers that random requests meet, and that `docs/apiserver.md`
//! names.

use http::Method;
use serde_json::Value;

use super::generator::Request;

/// A difference that `docs/apiserver.md` names.
struct Rule {
    /// What `docs/apiserver.md` calls it.
    name: &'static str,
    /// Whether it is this difference.
    applies: fn(&Request, &Value, &Value) -> bool,
}

const RULES: [Rule; 24] = [
    Rule {
        name: "the message of 406",
        applies: |_, theirs, ours| theirs["code"] == 406 && ours["code"] == 406,
    },
    Rule {
        name: "`POST` to the path of a custom resource",
        applies: |request, _, ours| {
            request.method == Method::POST
                && request.target.custom
                && [404, 405].iter().any(|code| ours["code"] == *code)
        },
    },
    Rule {
        name: "documents of OpenAPI and OpenID",
        applies: |request, _, _| {
            ["/openapi", "/openid", "/.well-known"]
                .iter()
                .any(|it| request.path.starts_with(it))
        },
    },
    Rule {
        name: "the media type of a log",
        applies: |request, theirs, _| {
            request.path.ends_with("/log") && (theirs["code"] == 204 || theirs["code"] == 406)
        },
    },
    Rule {
        name: "the rules of a user",
        applies: |request, theirs, _| {
            request.target.kind() == "SelfSubjectRulesReview" && theirs["code"] == 201
        },
    },
    Rule {
        name: "a namespace is removed within the request",
        applies: |request, theirs, _| {
            request.target.kind() == "Namespace"
                && request.method == Method::DELETE
                && theirs["code"] == 200
        },
    },
    Rule {
        name: "406 for a form that does not fit, before other errors",
        applies: |request, theirs, ours| {
            let asks = |header: &(&str, &str)| header.0 == "accept" && header.1.contains("as=");
            ours["code"] == 406 && theirs["code"] != 406 && request.headers.iter().any(asks)
        },
    },
    Rule {
        name: "methods and media types of documents",
        applies: |request, theirs, _| {
            let is_protobuf = theirs["type"] == "application/vnd.kubernetes.protobuf";
            request.is_document
                && (request.method != Method::GET || theirs["code"] == 406 || is_protobuf)
        },
    },
    Rule {
        name: "a path with an empty namespace",
        applies: |request, _, _| request.path.contains("namespaces//"),
    },
    Rule {
        name: "a path below a subresource of a custom resource",
        applies: |request, _, ours| {
            let is_below = ["/x/y/z", "/status/x"]
                .iter()
                .any(|it| request.path.ends_with(it));
            request.target.custom && is_below && ours["code"] == 404
        },
    },
    Rule {
        name: "finalizers that protect claims, volumes and attributes classes",
        applies: |request, _, _| {
            let kinds = [
                "PersistentVolume",
                "PersistentVolumeClaim",
                "VolumeAttributesClass",
            ];
            kinds.contains(&request.target.kind()) && request.method == Method::DELETE
        },
    },
    Rule {
        name: "`managedFields` of a token",
        applies: |request, theirs, _| request.path.ends_with("/token") && theirs["code"] == 201,
    },
    Rule {
        name: "a service gets an address before it is validated",
        applies: |_, theirs, _| theirs.to_string().contains("failed to allocate IP"),
    },
    Rule {
        name: "the timeout of a watch that ends at once",
        applies: |_, theirs, _| theirs.to_string().contains("context deadline exceeded"),
    },
    Rule {
        name: "the message about a custom resource without `kind` or `apiVersion`",
        applies: |_, theirs, ours| {
            let is_missing = |it: &Value| {
                it["body"]["message"]
                    .as_str()
                    .is_some_and(|it| it.starts_with("Object '"))
            };
            (is_missing(theirs) || is_missing(ours)) && theirs["code"] == ours["code"]
        },
    },
    Rule {
        name: "the message about a strategic merge patch of the wrong type",
        applies: |_, theirs, ours| {
            theirs.to_string().contains(": cannot ") && ours["code"] == theirs["code"]
        },
    },
    Rule {
        name: "the message about a malformed scale of a custom resource",
        applies: |request, theirs, ours| {
            request.path.ends_with("/scale")
                && request.target.custom
                && ours["code"] == theirs["code"]
        },
    },
    Rule {
        name: "a `Status` as metadata in protobuf",
        applies: |request, theirs, _| {
            let is_protobuf = theirs["type"] == "application/vnd.kubernetes.protobuf";
            let asks = |header: &(&str, &str)| header.0 == "accept" && header.1.contains("as=");
            is_protobuf && request.headers.iter().any(asks)
        },
    },
    Rule {
        name: "entries of another version in a new custom resource",
        applies: |request, theirs, _| {
            let has_entries = request
                .body
                .contains("\"managedFields\":[{\"apiVersion\":\"v1\"");
            request.target.custom && has_entries && theirs["code"] == 201
        },
    },
    Rule {
        name: "a dry run of a create keeps a version that is not a number",
        applies: |request, theirs, _| {
            request.body.contains("\"resourceVersion\"")
                && theirs["code"] == 201
                && request.method == Method::POST
        },
    },
    Rule {
        name: "an update of `/status` does not create a service",
        applies: |request, _, ours| {
            request.target.kind() == "Service"
                && request.path.ends_with("/status")
                && ours["code"] == 404
        },
    },
    Rule {
        name: "`managedFields` after a write with a wrong status",
        applies: |request, theirs, ours| {
            let has_status = request.body.contains("\"status\":\"x\"");
            has_status && theirs["code"] == ours["code"]
        },
    },
    Rule {
        name: "annotations in the table of daemon sets, and the columns of scales",
        applies: |request, theirs, ours| {
            let asks =
                |header: &(&str, &str)| header.0 == "accept" && header.1.contains("as=Table");
            let is_theirs =
                request.target.kind() == "DaemonSet" || request.path.ends_with("/scale");
            is_theirs && theirs["code"] == ours["code"] && request.headers.iter().any(asks)
        },
    },
    Rule {
        name: "the uid of a job in its labels",
        applies: |request, theirs, ours| {
            request.target.kind() == "Job"
                && request.body.contains("uid")
                && theirs["code"] == ours["code"]
        },
    },
];

/// The known difference between two answers; nothing if there is none.
pub(super) fn rule(request: &Request, [theirs, ours]: &[Value; 2]) -> Option<&'static str> {
    let rule = RULES
        .iter()
        .find(|rule| (rule.applies)(request, theirs, ours));
    rule.map(|rule| rule.name)
}

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

const RULES: [Rule; 7] = [
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
        name: "the media type of an empty log",
        applies: |request, theirs, _| request.path.ends_with("/log") && theirs["code"] == 204,
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
        name: "a write whose response is not acceptable",
        applies: |request, theirs, ours| {
            request.method != Method::GET && ours["code"] == 406 && theirs["code"] != 406
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

//! The differences between the servers that random requests meet, and that `docs/apiserver.md`
//! names.

use serde_json::Value;

use super::generator::Request;

/// A difference that `docs/apiserver.md` names.
struct Rule {
    /// What `docs/apiserver.md` calls it.
    name: &'static str,
    /// Whether it is this difference.
    applies: fn(&Request, &Value, &Value) -> bool,
}

const RULES: [Rule; 1] = [Rule {
    name: "the message of 406",
    applies: |_, theirs, ours| theirs["code"] == 406 && ours["code"] == 406,
}];

/// The known difference between two answers; nothing if there is none.
pub(super) fn rule(request: &Request, [theirs, ours]: &[Value; 2]) -> Option<&'static str> {
    let rule = RULES
        .iter()
        .find(|rule| (rule.applies)(request, theirs, ours));
    rule.map(|rule| rule.name)
}

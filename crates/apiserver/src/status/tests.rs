//! Tests that the messages of error responses equal those of Kubernetes.

use super::{About, FieldError, Status};

const WIDGET: About<'_> = About {
    group: "ex.io",
    resource: "widgets",
    kind: "Widget",
    name: "w1",
};
const POD: About<'_> = About {
    group: "",
    resource: "pods",
    kind: "Pod",
    name: "x",
};

#[test]
fn messages_are_those_of_kubernetes() {
    let required = FieldError::required("spec.size", "");
    for (status, message) in [
        (
            Status::not_found(&WIDGET),
            r#"widgets.ex.io "w1" not found"#,
        ),
        (Status::not_found(&POD), r#"pods "x" not found"#),
        (
            Status::already_exists(&POD, false),
            r#"pods "x" already exists"#,
        ),
        (
            Status::already_exists(&POD, true),
            r#"object is being deleted: pods "x" already exists"#,
        ),
        (
            Status::modified(&WIDGET),
            r#"Operation cannot be fulfilled on widgets.ex.io "w1": the object has been modified; please apply your changes to the latest version and try again"#,
        ),
        (
            Status::invalid(&WIDGET, std::slice::from_ref(&required)),
            r#"Widget.ex.io "w1" is invalid: spec.size: Required value"#,
        ),
        (
            Status::invalid(
                &POD,
                &[required.clone(), FieldError::forbidden("spec", "no")],
            ),
            r#"Pod "x" is invalid: [spec.size: Required value, spec: Forbidden: no]"#,
        ),
        (
            Status::forbidden(&POD, "no"),
            r#"pods "x" is forbidden: no"#,
        ),
    ] {
        assert_eq!(status.message(), message);
    }
}

#[test]
fn details_name_the_resource_and_those_of_an_invalid_object_its_kind() {
    assert_eq!(
        Status::not_found(&WIDGET).to_value()["details"]["kind"],
        "widgets"
    );
    let invalid = Status::invalid(&WIDGET, &[FieldError::required("spec.size", "")]);
    let invalid = invalid.to_value();
    assert_eq!(invalid["details"]["kind"], "Widget");
    assert_eq!(
        invalid["details"]["causes"],
        serde_json::json!([{
            "reason": "FieldValueRequired",
            "message": "Required value",
            "field": "spec.size",
        }])
    );
}

//! Options that contradict each other are refused.

use serde_json::json;

use super::{DeleteOptions, ListOptions, Query, WriteKind, WriteOptions, resource_version};

#[test]
fn list_options_that_contradict_each_other_are_refused() {
    for (query, code) in [
        ("limit=x", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ("resourceVersionMatch=Newest&resourceVersion=1", 422),
        (
            "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
            422,
        ),
        ("sendInitialEvents=true", 422),
        ("watch=true&sendInitialEvents=true", 422),
        ("watch=true&resourceVersionMatch=NotOlderThan", 422),
        (
            "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
        ),
    ] {
        let status = ListOptions::parse(&Query::parse(query)).expect_err(query);
        assert_eq!(status.code(), code, "{query}");
    }
    for query in [
        "",
        "limit=500&resourceVersion=0",
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact&resourceVersion=1",
    ] {
        assert!(ListOptions::parse(&Query::parse(query)).is_ok(), "{query}");
    }
}

#[test]
fn options_of_writes_are_read_and_checked() {
    let write =
        |query: &str| WriteOptions::parse(&Query::parse(query), WriteKind::Create, "kube/1.0");
    assert_eq!(write("dryRun=All").map(|options| options.dry_run), Ok(true));
    assert_eq!(
        write("dryRun=Some").map_err(|status| status.code()),
        Err(422)
    );
    assert_eq!(
        write("fieldValidation=Loud").map_err(|status| status.code()),
        Err(422)
    );

    let query = Query::default();
    let body = json!({
        "preconditions": { "uid": "1" },
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    });
    let options = DeleteOptions::parse(&query, Some(&body)).expect("it makes sense");
    assert_eq!((options.uid.as_deref(), options.dry_run), (Some("1"), true));
    let body = json!({ "propagationPolicy": "Background", "orphanDependents": true });
    assert!(DeleteOptions::parse(&query, Some(&body)).is_err());
}

#[test]
fn a_write_has_a_manager_and_an_apply_must_state_it() {
    let parse = |kind, query: &str| WriteOptions::parse(&Query::parse(query), kind, "kubectl/v1.3");
    let manager = |options: WriteOptions| options.manager;
    assert_eq!(
        parse(WriteKind::Update, "").map(manager),
        Ok("kubectl".to_owned())
    );
    assert_eq!(
        parse(WriteKind::Patch, "fieldManager=me").map(manager),
        Ok("me".to_owned())
    );
    let missing = parse(WriteKind::Apply, "").expect_err("no manager");
    assert_eq!(
        missing.message(),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
         apply patch"
    );
    let forced = parse(WriteKind::Apply, "fieldManager=me&force=true");
    assert_eq!(forced.map(|options| options.force), Ok(true));
    for query in ["force=true", "fieldManager=a%07b"] {
        assert_eq!(
            parse(WriteKind::Patch, query).map_err(|status| status.code()),
            Err(422),
            "{query}"
        );
    }
    let long = format!("fieldManager={}", "x".repeat(129));
    assert!(parse(WriteKind::Apply, &long).is_err());
}

#[test]
fn a_resource_version_is_a_number_or_empty() {
    assert_eq!(resource_version(""), Ok(None));
    assert_eq!(resource_version("12"), Ok(Some(12)));
    assert_eq!(
        resource_version("abc"),
        Err(r#"strconv.ParseUint: parsing "abc": invalid syntax"#.to_owned())
    );
}

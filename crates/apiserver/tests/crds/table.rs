//! Tables with the columns of a definition.

use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{
    TestResult,
    gadget::{gadget, gadget_definition, gadgets},
    support::{client, register, widget_definition},
};

/// Rows of docs/apiserver.md: 53, 54.
#[tokio::test(start_paused = true)]
async fn a_table_has_the_columns_of_the_definition() -> TestResult {
    let server = ApiServer::new();
    let client = client(&server);
    register(&client, gadget_definition()).await?;
    register(&client, widget_definition()).await?;
    let spec = json!({ "replicas": 3, "ports": [{ "name": "http" }, { "name": "admin" }] });
    let created = gadgets(&client)
        .create(&PostParams::default(), &gadget("g", &spec))
        .await?;

    let table = table(&client, "/apis/ex.io/v1/namespaces/default/gadgets").await?;
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(
        names(&table),
        ["Name", "Replicas", "Admin", "Missing", "Age"]
    );
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let cells = table["rows"][0]["cells"]
        .as_array()
        .ok_or("there are cells")?;
    assert_eq!(
        cells[..4],
        [json!("g"), json!(3), json!("admin"), Value::Null]
    );
    assert!(
        cells[4].as_str().is_some_and(|age| age.ends_with('s')),
        "{}",
        cells[4]
    );
    let object = &table["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(
        object["metadata"]["uid"].as_str(),
        created.metadata.uid.as_deref()
    );

    let one = self::table(
        &client,
        "/apis/ex.io/v1/namespaces/default/gadgets/g?includeObject=Object",
    )
    .await?;
    assert_eq!(one["rows"][0]["object"]["spec"]["replicas"], 3);

    let plain = self::table(&client, "/apis/ex.io/v1/namespaces/default/widgets").await?;
    assert_eq!(names(&plain), ["Name", "Age"]);
    assert_eq!(plain["rows"], json!([]));
    Ok(())
}

/// The table that kubectl requests from `path` for printing.
async fn table(client: &Client, path: &str) -> kube::Result<Value> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(path)
        .header("Accept", accept)
        .body(Vec::new());
    client.request(request.expect("it is a request")).await
}

/// The names of the columns of `table`.
fn names(table: &Value) -> Vec<&str> {
    let definitions = table["columnDefinitions"].as_array().into_iter().flatten();
    definitions
        .filter_map(|definition| definition["name"].as_str())
        .collect()
}

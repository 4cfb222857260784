//! Tests watches with initial objects on a port whose clients do not read. This binary has one test,
//! because the test measures the memory of the process.

use std::num::NonZeroUsize;

use http::Method;
use serde_json::json;
use windlass_apiserver::ApiServer;

mod support;

use support::{open_unread, request, resident};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Between two watches each object is written, so that each watch begins with other states.
#[tokio::test]
async fn watches_with_initial_events_hold_no_copies_of_objects() {
    const HISTORY: NonZeroUsize = NonZeroUsize::new(1024 * 1024).expect("not zero");
    const OBJECTS: usize = 200;
    let server = ApiServer::builder().history_bytes(HISTORY).start();
    let write = async |method: Method, number: usize| {
        for object in 0..OBJECTS {
            let name = format!("a-{object}");
            let text = number.to_string().repeat(20_000);
            let map = json!({ "metadata": { "name": name }, "data": { "text": text } });
            let path = match method {
                Method::POST => MAPS.to_owned(),
                _ => format!("{MAPS}/{name}"),
            };
            let (code, _) = request(&server, method.clone(), &path, Some(&map)).await;
            assert!(code.is_success());
        }
    };
    write(Method::POST, 0).await;
    let watch = format!("{MAPS}?watch=1");
    let port = server.listen(([127, 0, 0, 1], 0)).await.expect("a port");
    let mut watches = vec![open_unread(port.addr(), &watch).await];
    write(Method::PUT, 1).await;
    let Some(before) = resident() else {
        println!("not run: this system does not tell the memory of a process");
        return;
    };
    for number in 0..9 {
        watches.push(open_unread(port.addr(), &watch).await);
        write(Method::PUT, number).await;
    }
    let held = resident().unwrap_or_default().saturating_sub(before) / 9;
    println!("{held} bytes for each watch");
    assert!(
        held < 1024 * 1024,
        "{held} bytes for each watch, whose objects are 4 MB"
    );
}

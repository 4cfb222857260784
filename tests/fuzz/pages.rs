//! Lists in pages while objects change: the pages together must equal the list at the first page.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    /// Objects that exist at the beginning.
    #[generator(bolero::generator::produce::<Vec<Name>>().with().len(0_usize..12))]
    names: Vec<Name>,
    /// The list is that of a namespace; otherwise of all.
    namespaced: bool,
    #[generator(bolero::generator::produce::<Vec<Step>>().with().len(1_usize..12))]
    steps: Vec<Step>,
}

/// A namespace and a name, of a few each.
#[derive(Clone, Debug, TypeGenerator)]
struct Name {
    namespace: u8,
    name: u8,
}

/// One page, and what is tried before it.
#[derive(Clone, Debug, TypeGenerator)]
struct Step {
    limit: u8,
    create: Option<Name>,
    delete: Option<Name>,
    /// The same token, changed, and for another collection.
    foreign: Option<(Edits, u8)>,
}

const COLLECTIONS: [&str; 5] = [
    "/api/v1/namespaces/a/configmaps",
    "/api/v1/namespaces/b/configmaps",
    "/api/v1/configmaps",
    "/api/v1/namespaces/a/secrets",
    "/api/v1/nodes",
];

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        for namespace in ["a", "b"] {
            let object = json!({ "metadata": { "name": namespace } });
            post(&server, "/api/v1/namespaces", &object).await;
        }
        for name in &input.names {
            create(&server, name).await;
        }
        let path = COLLECTIONS[if input.namespaced { 0 } else { 2 }];
        let wanted = names(&get(&server, path).await.1);
        let (mut shown, mut token, mut version) = (Vec::new(), String::new(), None);
        // The steps again and again, until the list is whole.
        for (number, step) in input.steps.iter().cycle().take(100).enumerate() {
            let limit = 1 + step.limit % 5;
            let (status, page) =
                get(&server, &format!("{path}?limit={limit}&continue={token}")).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let metadata = &page["metadata"];
            let is_same = *version.get_or_insert(metadata["resourceVersion"].clone())
                == metadata["resourceVersion"];
            assert!(is_same, "all pages are of one version: {page}");
            let items = names(&page);
            assert!(items.len() <= usize::from(limit), "{page}");
            shown.extend(items);
            token = metadata["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
            assert!(number < 99, "the list comes to an end");
            if let Some((edits, collection)) = &step.foreign {
                foreign(&server, &edits.text_of(&[&token]), *collection).await;
            }
            if let Some(name) = &step.create {
                create(&server, name).await;
            }
            if let Some(name) = &step.delete {
                let request = Request::delete(name.path()).body(Vec::new());
                let (status, _) = send(&server, request.expect("a request")).await;
                assert!(status.is_success() || status == StatusCode::NOT_FOUND);
            }
        }
        assert_eq!(shown, wanted, "the pages are the list as it was");
    });
}

/// A token that another list gave, or that was changed, is refused, or begins a list of its own.
async fn foreign(server: &ApiServer, token: &str, collection: u8) {
    let path = COLLECTIONS[usize::from(collection) % COLLECTIONS.len()];
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    let (status, page) = get(server, &format!("{path}?limit=2&continue={token}")).await;
    assert!(
        status == StatusCode::OK || status.is_client_error(),
        "{page}"
    );
    if status != StatusCode::OK {
        assert_eq!(page["kind"], "Status", "{page}");
        return;
    }
    // Objects that were deleted since the list began are shown too.
    let prefix = match path {
        "/api/v1/configmaps" => "",
        "/api/v1/namespaces/a/configmaps" => "a/",
        "/api/v1/namespaces/b/configmaps" => "b/",
        _ => "nothing is in the other collections",
    };
    let foreign: Vec<_> = (names(&page).into_iter())
        .filter(|name| !name.starts_with(prefix))
        .collect();
    assert!(foreign.is_empty(), "{path} shows {foreign:?}");
}

// === impl Name ===

impl Name {
    fn namespace(&self) -> &'static str {
        ["a", "b"][usize::from(self.namespace % 2)]
    }

    fn name(&self) -> String {
        format!("n{}", self.name % 8)
    }

    fn path(&self) -> String {
        let (namespace, name) = (self.namespace(), self.name());
        format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
    }
}

async fn create(server: &ApiServer, name: &Name) {
    let object = json!({ "metadata": { "name": name.name() } });
    let path = format!("/api/v1/namespaces/{}/configmaps", name.namespace());
    post(server, &path, &object).await;
}

async fn post(server: &ApiServer, path: &str, object: &Value) {
    let request = Request::post(path).body(object.to_string().into_bytes());
    let (status, answer) = send(server, request.expect("a request")).await;
    let answer = String::from_utf8_lossy(&answer);
    let is_there = status == StatusCode::CREATED || status == StatusCode::CONFLICT;
    assert!(is_there, "{answer}");
}

async fn get(server: &ApiServer, path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    let (status, answer) = send(server, request).await;
    (
        status,
        serde_json::from_slice(&answer).expect("an answer is JSON"),
    )
}

/// The namespace and name of each item, in order.
fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items
        .map(|item| &item["metadata"])
        .map(|it| format!("{}/{}", text(&it["namespace"]), text(&it["name"])))
        .collect()
}

//! A user's type that contains the type of a kind.
//!
//! grafana-app-sdk has an interface for what wraps an object, and one for what writes itself
//! into an object that is given. Here a wrapper is a `Resource` by its field, and is read and
//! written by serde, so that it can be the type of a kind.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Resource,
    api::{DynamicObject, ObjectMeta},
    core::NamespaceResourceScope,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use windlass_controller::{ErasedObject, InformerController, SimpleWatcher};
use windlass_informer::{Informer, Scripted};

use crate::support::{settle, show};

/// A lease, and what we know of it besides.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Known {
    #[serde(flatten)]
    lease: Lease,
    #[serde(skip)]
    since: u32,
}

impl Resource for Known {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Lease::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Lease::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Lease::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Lease::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.lease.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.lease.metadata
    }
}

fn known() -> Known {
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
        "spec": { "leaseDurationSeconds": 7 },
    });
    Known {
        since: 42,
        ..serde_json::from_value(lease).expect("a lease")
    }
}

/// Rows: GA-102
#[tokio::test(start_paused = true)]
async fn a_user_type_around_an_object_can_be_the_type_of_a_kind() {
    let controller = InformerController::new();
    let (script, source) = Scripted::<Known>::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watcher = SimpleWatcher::new().on_add({
        let seen = Arc::clone(&seen);
        move |known: Arc<Known>| {
            seen.lock().push((show(&known.lease), known.since));
            async { Ok::<_, std::convert::Infallible>(()) }
        }
    });
    let leases = controller.kind("leases").expect("a new kind");
    controller.add_watcher(&leases, watcher).expect("added");
    let informer = Informer::new(source);
    controller.add_informer(&leases, &informer).expect("added");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, stop) = (controller.clone(), stop.clone());
        async move { controller.run(stop).await }
    });
    script.list([known()]).await.expect("it runs");
    settle().await;
    assert_eq!(*seen.lock(), [("web=7".to_owned(), 42)]);
    stop.cancel();
    running.await.expect("no panic").expect("it stops");

    // Out of an object of whatever type, too.
    let any: Arc<dyn ErasedObject> = Arc::new(known());
    let known = any.typed::<Known>().expect("it is decoded");
    let lease = known.map(|known| show(&known.lease));
    assert_eq!(lease.as_deref(), Some("web=7"));
}

/// Rows: GA-17
#[test]
fn a_user_type_converts_to_the_wrapped_object() {
    let written = serde_json::to_value(known()).expect("plain JSON");
    let lease: Lease = serde_json::from_value(written.clone()).expect("a lease");
    assert_eq!(show(&lease), "web=7");
    let dynamic: DynamicObject = serde_json::from_value(written).expect("an object");
    assert_eq!(dynamic.types.expect("types").kind, "Lease");
    assert_eq!(dynamic.data["spec"]["leaseDurationSeconds"], 7);
}

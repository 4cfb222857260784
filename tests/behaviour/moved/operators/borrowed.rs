//! The closures borrow the client, and count calls without a lock: they are not `Send`.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::runtime::{
    controller::{Action, Controller, Error},
    watcher,
};

async fn copy(config: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let namespace = config.namespace().unwrap_or_default();
    let name = config.name_any();
    let target = config.data.iter().flatten().find(|(key, _)| *key == "copy");
    let Some((_, target)) = target else {
        return Ok(Action::await_change());
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": target },
        "stringData": { "from": name },
    });
    let secrets = Api::<Secret>::namespaced(client, &namespace);
    let params = PatchParams::apply("borrowed").force();
    // The server rejects a target that is not a name.
    secrets
        .patch(target, &params, &Patch::Apply(&secret))
        .await?;
    Ok(Action::await_change())
}

pub(crate) async fn run(client: Client, namespace: String) {
    let (client, calls) = (&client, Rc::new(RefCell::new(BTreeMap::new())));
    let failures = Rc::clone(&calls);
    let configs = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let mut reconciled = std::pin::pin!(Controller::new(configs, watcher::Config::default()).run(
        move |config, _context: Arc<Rc<()>>| {
            *calls.borrow_mut().entry(config.name_any()).or_insert(0_u32) += 1;
            copy(config, client.clone())
        },
        move |config, _error, _context| {
            let calls = failures.borrow();
            let calls = calls.get(&config.name_any()).copied().unwrap_or_default();
            Action::requeue(Duration::from_millis(u64::from(calls.min(20)) * 10))
        },
        Arc::new(Rc::new(())),
    ));
    loop {
        match reconciled.try_next().await {
            Ok(Some((_object, _action))) => {}
            Ok(None) => return,
            Err(
                Error::ReconcilerFailed(..) | Error::QueueError(..) | Error::ObjectNotFound(..),
            ) => {}
            Err(Error::RunnerError(_)) => return,
        }
    }
}

//! Service accounts of pods: sets the account, which must exist, and mounts its token.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::metadata;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::Key;

/// The table of service accounts in the store.
const ACCOUNTS: &str = "serviceaccounts";

/// The default service account of a pod.
const DEFAULT_ACCOUNT: &str = "default";

/// The prefix of the name of a token volume. The suffix is generated.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The mount path of a token volume.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The annotation of a mirror pod, which a kubelet creates.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The lifetime of a token in a volume, in seconds. Kubernetes recognizes a token that this plugin
/// requested, and not a user, by the seconds beyond one hour.
const TOKEN_SECONDS: u32 = 3607;

// === impl Cluster ===

impl Cluster {
    /// Sets the service account of a new pod, its token volume, and its image pull secrets.
    ///
    /// # Errors
    ///
    /// 403 if the account does not exist.
    pub(in crate::cluster) fn admit_account(
        &mut self,
        resource: &Resource,
        pod: &mut Value,
    ) -> Result<(), Status> {
        let text = |field: &str| metadata::text(pod, field).to_owned();
        let (pod_name, namespace) = (text("name"), text("namespace"));
        let account = pod["spec"]["serviceAccountName"].as_str();
        let account = account.unwrap_or_default().to_owned();
        let refused = |detail: &str| Err(Status::forbidden(&resource.about(&pod_name), detail));
        if pod["metadata"]["annotations"].get(MIRROR).is_some() {
            return match account.as_str() {
                "" => Ok(()),
                _ => refused("a mirror pod may not reference service accounts"),
            };
        }
        let name = match account.as_str() {
            "" => DEFAULT_ACCOUNT,
            name => name,
        };
        let Some(found) = self
            .store
            .get(ACCOUNTS, &Key::new(&namespace, name))
            .cloned()
        else {
            return refused(&format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not \
                 found"
            ));
        };
        pod["spec"]["serviceAccountName"] = name.into();
        pod["spec"]["serviceAccount"] = name.into();
        let field = "automountServiceAccountToken";
        let own = pod["spec"][field].as_bool();
        if own.or_else(|| found.value().get(field)?.as_bool()) != Some(false) {
            let volume = metadata::generated_name(TOKEN_VOLUME, &mut self.random);
            mount_token(&mut pod["spec"], volume);
        }
        let secrets = found.value().get("imagePullSecrets");
        let has_secrets = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        if let Some(secrets) = secrets.filter(|secrets| has_secrets(secrets))
            && !has_secrets(&pod["spec"]["imagePullSecrets"])
        {
            pod["spec"]["imagePullSecrets"] = secrets.clone();
        }
        Ok(())
    }
}

/// Mounts the token volume `volume` in each container without a mount at that path.
fn mount_token(spec: &mut Value, volume: String) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["name"].as_str());
    let existing = names.find(|name| name.starts_with(TOKEN_VOLUME));
    let existing = existing.map(str::to_owned);
    let is_new = existing.is_none();
    let volume = existing.unwrap_or(volume);
    let mut is_used = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = &mut container["volumeMounts"];
            if !mounts.is_array() {
                *mounts = json!([]);
            }
            if let Some(mounts) = mounts.as_array_mut()
                && mounts.iter().all(|mount| mount["mountPath"] != MOUNT_PATH)
            {
                mounts.push(json!({ "mountPath": MOUNT_PATH, "name": volume, "readOnly": true }));
                is_used = true;
            }
        }
    }
    if !is_new || !is_used {
        return;
    }
    if !spec["volumes"].is_array() {
        spec["volumes"] = json!([]);
    }
    if let Some(volumes) = spec["volumes"].as_array_mut() {
        let certificate = json!({ "key": "ca.crt", "path": "ca.crt" });
        let namespace = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
        volumes.push(json!({
            "name": volume,
            "projected": {
                "defaultMode": 0o644,
                "sources": [
                    { "serviceAccountToken": {
                        "expirationSeconds": TOKEN_SECONDS,
                        "path": "token",
                    } },
                    { "configMap": { "name": "kube-root-ca.crt", "items": [certificate] } },
                    { "downwardAPI": {
                        "items": [{ "path": "namespace", "fieldRef": namespace }],
                    } },
                ],
            },
        }));
    }
}
